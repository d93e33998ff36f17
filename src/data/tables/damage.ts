// Damage: faults of a columnar file's bytes, and unsupported parts of its format. Decoders throw
// `CorruptFile` without a position; callers that know file, piece and column wrap it. A job may
// tolerate some damage: unreadable pieces are then left out and counted.

import { InputUnusableError, TrainingError } from "../../errors/errors.ts";
import { formatOf, pieceNameOf, pieceOf, type TableKind } from "../data-kinds.ts";
import type { BadLines, LineFault } from "../text/faults.ts";

/** A fault of a file's bytes: a sentence without file, piece or column. */
export class CorruptFile extends Error {}

/** A position in a file. */
export interface Place {
  readonly kind: TableKind;
  readonly path: string;
  /** Index of the row group or record batch. */
  readonly piece?: number | undefined;
  readonly column?: string | undefined;
}

/** The error for a fault at a position. `cause` may be anything that decoding threw. */
export function unusableAt({ kind, path, piece, column }: Place, cause: unknown): TrainingError {
  if (cause instanceof TrainingError) return cause;
  const within = piece === undefined ? "" : `, ${pieceNameOf({ kind })} ${piece}`;
  const name = column === undefined ? "" : `, column \`${column}\``;
  const what = cause instanceof Error ? cause.message : String(cause);
  const why = cause instanceof CorruptFile ? what : `its bytes are damaged (${what})`;
  const message =
    `Cannot read the ${formatOf({ kind })} file ${path}${within}${name}: ${why}; ` +
    "write the file again, or leave it out";
  return new InputUnusableError(path, message, { cause });
}

/** The unreadable rows at the end of a row group or record batch. */
export interface DamagedRows {
  readonly piece: number;
  /** Index of the first unreadable row in the file. */
  readonly firstRow: number;
  readonly rows: number;
  readonly error: InputUnusableError;
}

/**
 * Whether the error is permanent damage: bytes that cannot be decoded. A failing disk or server is
 * not damage, nor is a file that has changed.
 */
export function isDamage(error: unknown): error is InputUnusableError {
  if (!(error instanceof InputUnusableError)) return false;
  const { cause } = error;
  return cause instanceof Error && !("syscall" in cause);
}

/** An unreadable piece or file: its path, and the message of its error. */
export interface Damage {
  readonly path: string;
  readonly message: string;
}

/** Counts damaged pieces and files, up to the limit that the job allows. */
export class DamageCount {
  readonly #kind: TableKind;
  readonly #max: number;
  readonly #bad: BadLines;
  /** The damage so far. */
  readonly #found: Damage[] = [];

  /** Tolerates `damagedMax` pieces and files; their rows are added to `bad`. */
  constructor(
    { kind, damagedMax }: { readonly kind: TableKind; readonly damagedMax: number },
    bad: BadLines,
  ) {
    this.#kind = kind;
    this.#max = damagedMax;
    this.#bad = bad;
  }

  /** The `onDamage` callback for a file's pieces; undefined if the job tolerates no damage. */
  of(path: string): ((rows: DamagedRows) => void) | undefined {
    if (this.#max === 0) return undefined;
    return ({ piece, firstRow, rows, error }) => {
      this.#add(error);
      const fault = faultOf(pieceNameOf({ kind: this.#kind }), error);
      const place = pieceOf({ kind: this.#kind }, piece);
      this.#bad.add(path, firstRow + 1, fault, { ...place, lines: rows });
    };
  }

  /** Adds an unreadable file. It counts as one row, because its number of rows is unknown. */
  addFile(path: string, error: unknown): void {
    if (this.#max === 0 || !isDamage(error)) throw error;
    this.#add(error);
    this.#bad.add(path, 1, faultOf("file", error));
  }

  /** The damage so far, as plain data. */
  get found(): readonly Damage[] {
    return this.#found;
  }

  /** Adds the damage of a further file, whose rows are counted already. */
  absorb(found: readonly Damage[]): void {
    for (const { path, message } of found) this.#add({ path, message });
  }

  #add(error: Damage & { readonly cause?: unknown }): void {
    const { cause, path, message: why } = error;
    this.#found.push({ path, message: why });
    if (this.#found.length <= this.#max) return;
    const pieces = this.#kind === "arrow" ? "record batches" : "row groups";
    const message =
      `Expected at most ${this.#max} damaged ${pieces} and files ` +
      "(`damagedMax`), and found " +
      `another one: ${why}; or raise \`damagedMax\``;
    throw new InputUnusableError(path, message, { cause });
  }
}

/**
 * The fault of an error: its message without position, which is recorded separately, and without
 * advice.
 */
function faultOf(what: string, { message, path }: InputUnusableError): LineFault {
  const rest = message.slice(message.indexOf(path) + path.length).replace(/; [^;]*$/, "");
  const why = rest.replace(/^(, (row group|record batch) \d+)?[,:] /, "");
  return { kind: `expected a ${what} that can be read`, got: why };
}
