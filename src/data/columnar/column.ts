// Rows as columns: the form in which columnar files are read and features are transformed. A column
// is a few typed arrays; no row is an object. Readers make columns (Parquet, Arrow, JSON Lines,
// records), transforms make columns of columns, and the row encoder makes samples of them.
//
// R = rows of a batch, N = entries of all lists of a column.
//
// What has no value is the same in every source: a number that is missing is NaN, a list or a text
// that is missing has no entries, and `present` tells a missing list from an empty one.

/** One number a row: dense features, labels, weights, points in time. */
export interface NumberColumn {
  readonly form: "numbers";
  /** (R): NaN where there is none. */
  readonly values: Float64Array;
  /** Whether they are points in time: seconds since 1970, UTC. @default false */
  readonly isTime?: boolean | undefined;
}

/** A list of ids a row, perhaps with a weight each. A single id is a list of one. */
export interface IdColumn {
  readonly form: "ids";
  /** (R + 1): row r has the entries offsets[r] until offsets[r + 1]. The first is 0. */
  readonly offsets: Int32Array;
  /** (N): signed, all 64 bits. The buffer is read as pairs of 32-bit halves, too. */
  readonly ids: BigInt64Array;
  /** The same ids by their places in a dictionary, where the file has them so. */
  readonly coded?: CodedIds | undefined;
  /** Whether the 64 bits of `ids` are numbers without a sign. @default false */
  readonly isUnsigned?: boolean | undefined;
  /** (N): the weight of each id in its bag. @default none: weight 1 */
  readonly weights?: Float32Array | undefined;
  /** (R): 0 where the row has no list at all. @default every row has one */
  readonly present?: Uint8Array | undefined;
}

/** Ids of a dictionary. */
export interface CodedIds {
  /** (N): which id of the dictionary. */
  readonly codes: Int32Array;
  /** The ids, some perhaps twice; it does not change. */
  readonly dictionary: BigInt64Array;
}

/** A list of texts a row. A single text is a list of one. */
export interface TextColumn {
  readonly form: "texts";
  /** (R + 1) */
  readonly offsets: Int32Array;
  /** (N): which text of the dictionary. */
  readonly codes: Int32Array;
  /** Different texts, one character for each byte (latin1): hashes are over the bytes. */
  readonly dictionary: readonly string[];
  /** (N) @default none: weight 1 */
  readonly weights?: Float32Array | undefined;
  /** (R) @default every row has one */
  readonly present?: Uint8Array | undefined;
}

export type Column = NumberColumn | IdColumn | TextColumn;

/** The forms in which a reader is asked for a column. */
export type ColumnForm = Column["form"];

/** Consecutive rows of one file. Its maker owns it; columns are valid until the next batch. */
export interface RowBatch {
  readonly rows: number;
  /** The file, as messages name it. */
  readonly file: string;
  /** Place of the first row among all rows of the file. */
  readonly firstRow: number;
  /** Of a file with row groups, or record batches: which, from 0. */
  readonly rowGroup?: number | undefined;
  readonly columns: ReadonlyMap<string, Column>;
}
