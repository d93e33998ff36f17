// What is wrong with the bytes of a file of columns, or what of the format is not read: thrown
// where it is found, and told with file, piece and column by whoever knows them. A job may allow
// some of it: what cannot be read is then left out and counted.

import { InputUnusableError, TrainingError } from "../../errors/errors.ts";
import { formatOf, pieceNameOf, pieceOf, type TableKind } from "../data-kinds.ts";
import type { BadLines, Fault } from "../text/faults.ts";

/** A fault of a file's bytes: a sentence without its place. */
export class Damage extends Error {}

/** A place in a file. */
export interface Place {
  readonly kind: TableKind;
  readonly path: string;
  /** Which row group, or record batch; from 0. */
  readonly piece?: number | undefined;
  readonly column?: string | undefined;
}

/** The error for a file at a place: `cause` may be whatever decoding its bytes threw. */
export function unusableAt({ kind, path, piece, column }: Place, cause: unknown): TrainingError {
  if (cause instanceof TrainingError) return cause;
  const within = piece === undefined ? "" : `, ${pieceNameOf({ kind })} ${piece}`;
  const name = column === undefined ? "" : `, column \`${column}\``;
  const what = cause instanceof Error ? cause.message : String(cause);
  const why = cause instanceof Damage ? what : `its bytes are damaged (${what})`;
  const message =
    `Cannot read the ${formatOf({ kind })} file ${path}${within}${name}: ${why}; ` +
    "write the file again, or leave it out";
  return new InputUnusableError(path, message, { cause });
}

/** The rows of a row group, or record batch, from one on, that cannot be read. */
export interface DamagedRows {
  readonly piece: number;
  /** The first of them in the file, from 0. */
  readonly firstRow: number;
  readonly rows: number;
  readonly error: InputUnusableError;
}

/**
 * Whether the error is of bytes that cannot be decoded, which they will not say tomorrow either. A
 * disk or a server that does not answer is none, nor is a file that has changed.
 */
export function isDamage(error: unknown): error is InputUnusableError {
  if (!(error instanceof InputUnusableError)) return false;
  const { cause } = error;
  return cause instanceof Error && !("syscall" in cause);
}

/** Counts what cannot be read, up to what a job allows. */
export class DamageCount {
  readonly #kind: TableKind;
  readonly #max: number;
  readonly #bad: BadLines;
  #count = 0;

  /** At most `damagedMax` pieces and files; their rows go to `bad`. */
  constructor(
    { kind, damagedMax }: { readonly kind: TableKind; readonly damagedMax: number },
    bad: BadLines,
  ) {
    this.#kind = kind;
    this.#max = damagedMax;
    this.#bad = bad;
  }

  /** What `TableFile.batches` tells of a file's pieces; undefined: nothing may be damaged. */
  of(path: string): ((rows: DamagedRows) => void) | undefined {
    if (this.#max === 0) return undefined;
    return ({ piece, firstRow, rows, error }) => {
      this.#add(error);
      const fault = faultOf(pieceNameOf({ kind: this.#kind }), error);
      const place = pieceOf({ kind: this.#kind }, piece);
      this.#bad.add(path, firstRow + 1, fault, { ...place, lines: rows });
    };
  }

  /** A file whose footer cannot be read counts as one row: nobody knows how many it has. */
  addFile(path: string, error: unknown): void {
    if (this.#max === 0 || !isDamage(error)) throw error;
    this.#add(error);
    this.#bad.add(path, 1, faultOf("file", error));
  }

  #add(error: InputUnusableError): void {
    if (++this.#count <= this.#max) return;
    const { cause, path } = error;
    const pieces = this.#kind === "arrow" ? "record batches" : "row groups";
    const message =
      `Expected at most ${this.#max} damaged ${pieces} and files ` +
      "(`damagedMax`), and found " +
      `another one: ${error.message}; or raise \`damagedMax\``;
    throw new InputUnusableError(path, message, { cause });
  }
}

/** The error without its place, which is told beside the fault, and without its advice. */
function faultOf(what: string, { message, path }: InputUnusableError): Fault {
  const rest = message.slice(message.indexOf(path) + path.length).replace(/; [^;]*$/, "");
  const why = rest.replace(/^(, (row group|record batch) \d+)?[,:] /, "");
  return { kind: `expected a ${what} that can be read`, got: why };
}
