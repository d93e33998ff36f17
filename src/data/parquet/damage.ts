// What is wrong with the bytes of a Parquet file, or what of the format is not read: thrown where
// it is found, and told with file, row group and column by whoever knows them.

import { InputUnusableError, TrainingError } from "../../errors/errors.ts";

/** A fault of a file's bytes: a sentence without its place. */
export class Damage extends Error {}

/** A place in a file. */
export interface Place {
  readonly path: string;
  /** From 0. */
  readonly rowGroup?: number | undefined;
  readonly column?: string | undefined;
}

/** The error for a file at a place: `cause` may be whatever decoding its bytes threw. */
export function unusableAt({ path, rowGroup, column }: Place, cause: unknown): TrainingError {
  if (cause instanceof TrainingError) return cause;
  const group = rowGroup === undefined ? "" : `, row group ${rowGroup}`;
  const name = column === undefined ? "" : `, column \`${column}\``;
  const what = cause instanceof Error ? cause.message : String(cause);
  const why = cause instanceof Damage ? what : `its bytes are damaged (${what})`;
  const message =
    `Cannot read the Parquet file ${path}${group}${name}: ${why}; ` +
    "write the file again, or leave it out";
  return new InputUnusableError(path, message, { cause });
}
