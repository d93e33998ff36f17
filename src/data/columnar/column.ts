// Columnar batches: the form in which columnar files are read and features are transformed. A
// column is a few typed arrays; no row is an object. Readers produce columns (Parquet and Arrow), a
// chunk of lines has fields, transforms map columns to columns, and the row encoder turns all of
// them into samples. A value also has the text that it would have in a text file.
//
// R = rows of a batch, N = entries of all lists of a column.
//
// Missing values are the same for every source: a missing number is NaN, a missing list or text has
// no entries, and `present` distinguishes a missing list from an empty one.

import { dateOf } from "./exact-values.ts";

/** One number per row: dense features, labels, weights, points in time. */
export interface NumberColumn {
  readonly form: "numbers";
  /** (R): NaN if missing. */
  readonly values: Float64Array;
  /** Whether they are points in time: seconds since 1970, UTC. @default false */
  readonly isTime?: boolean | undefined;
}

/** A list of ids per row, optionally with a weight per id. A single id is a list of one. */
export interface IdColumn {
  readonly form: "ids";
  /** (R + 1): row r has the entries offsets[r] until offsets[r + 1]. The first is 0. */
  readonly offsets: Int32Array;
  /** (N): signed, all 64 bits. The buffer is read as pairs of 32-bit halves, too. */
  readonly ids: BigInt64Array;
  /** The same ids as codes of a dictionary, if the file encodes them so. */
  readonly coded?: CodedIds | undefined;
  /** Whether the 64 bits of `ids` are unsigned integers. @default false */
  readonly isUnsigned?: boolean | undefined;
  /** (N): the weight of each id in its bag. @default none: weight 1 */
  readonly weights?: Float32Array | undefined;
  /** (R): 0 if the row's list is missing. @default every row has one */
  readonly present?: Uint8Array | undefined;
}

/** Dictionary-encoded ids. */
export interface CodedIds {
  /** (N): index of each id in `dictionary`. */
  readonly codes: Int32Array;
  /** The ids, possibly with duplicates; never modified. */
  readonly dictionary: BigInt64Array;
}

/** A list of texts per row. A single text is a list of one. */
export interface TextColumn {
  readonly form: "texts";
  /** (R + 1) */
  readonly offsets: Int32Array;
  /** (N): index of each text in `dictionary`. */
  readonly codes: Int32Array;
  /** Distinct texts, one character per byte (latin1), because hashes are computed over bytes. */
  readonly dictionary: readonly string[];
  /** (N) @default none: weight 1 */
  readonly weights?: Float32Array | undefined;
  /** (R) @default every row has one */
  readonly present?: Uint8Array | undefined;
}

export type Column = NumberColumn | IdColumn | TextColumn;

/**
 * One field of each line of a chunk of text. The frequent forms of a feature's field are parsed for
 * the whole chunk; the text of a field defines all others.
 */
export interface FieldColumn {
  readonly form: "fields";
  /** The text of a line's field, one character per byte; `""` if the line has no fields. */
  textOf(row: number): string;
  /** The byte of a field of one byte; 256 for any other field. */
  byteOf(row: number): number;
  /**
   * (R): the numbers of a dense feature; NaN for an empty field, infinity for a field that is read
   * from its text. Undefined if no field was parsed.
   */
  readonly numbers?: Float64Array | undefined;
  /**
   * The table rows of a categorical feature: row r has rows[offsets[r]] until rows[offsets[r + 1]].
   * A row with an entry -1 is read from its text. Undefined if no field was parsed.
   */
  readonly entries?: { readonly offsets: Int32Array; readonly rows: Int32Array } | undefined;
  /** Whether the line is JSON, whose lists have the separators of text/json-lines.ts. */
  readonly isJson: boolean;
}

/** The forms in which a column can be requested from a reader. */
export type ColumnForm = Column["form"];

/** Consecutive rows of one file. The producer owns it; columns are valid until the next batch. */
export interface RowBatch {
  readonly rows: number;
  /** Path of the file, for error messages. */
  readonly file: string;
  /** Index of the first row in the file. */
  readonly firstRow: number;
  /** Index of the row group or record batch, from 0, if the file has them. */
  readonly rowGroup?: number | undefined;
  readonly columns: ReadonlyMap<string, Column>;
}

/** The text of a row's value, one byte per character; `""` if it is missing. */
export function textAt(column: Column | FieldColumn, row: number): string {
  if (column.form === "fields") return column.textOf(row);
  if (column.form === "numbers") {
    const value = column.values[row] ?? Number.NaN;
    if (Number.isNaN(value)) return "";
    return column.isTime === true ? timeText(value) : String(value);
  }
  const at = column.offsets[row] ?? 0;
  if (at === column.offsets[row + 1]) return "";
  if (column.form === "texts") return column.dictionary[column.codes[at] ?? 0] ?? "";
  return textOfId(column, at);
}

/** The texts of a row's list or single value; empty if it is missing. */
export function textsAt(column: Column | FieldColumn, row: number): string[] {
  if (column.form === "numbers" || column.form === "fields") {
    const text = textAt(column, row);
    return text === "" ? [] : [text];
  }
  const [first, end] = [column.offsets[row] ?? 0, column.offsets[row + 1] ?? 0];
  return Array.from({ length: end - first }, (_, i) =>
    column.form === "ids"
      ? textOfId(column, first + i)
      : (column.dictionary[column.codes[first + i] ?? 0] ?? ""),
  );
}

/**
 * Converts seconds to milliseconds, rounded to the microsecond: a time in seconds is rarely exact
 * in binary.
 */
export function millisecondsOf(seconds: number): number {
  return Math.round(seconds * 1e6) / 1e3;
}

/** A time as an ISO date, or as seconds if it is beyond the range of dates. */
export function timeText(seconds: number): string {
  const milliseconds = millisecondsOf(seconds);
  return Math.abs(milliseconds) <= 8.64e15 ? dateOf(milliseconds) : String(seconds);
}

/** The decimal text of an id. */
export function textOfId({ ids, isUnsigned }: IdColumn, at: number): string {
  const id = ids[at] ?? 0n;
  return String(isUnsigned === true ? BigInt.asUintN(64, id) : id);
}
