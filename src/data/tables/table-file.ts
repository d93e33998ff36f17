// The interface of an open columnar file, implemented by Parquet and Arrow, and used for samples,
// predictions, row texts and the doctor. A file consists of pieces, which are read in order: row
// groups of Parquet, record batches of Arrow. Pieces without a row that the job wants are skipped,
// partition keys become columns, and each batch comes with a filter for its rows.

import { createHash } from "node:crypto";
import type { Column, RowBatch } from "../columnar/column.ts";
import { type RowTest, rowFilter, rowTest } from "../columnar/row-filter.ts";
import { partitionsOf } from "../files.ts";
import type { ResolvedTableOptions } from "../options.ts";
import type { AskedColumns } from "./asked-columns.ts";
import type { ReadCounts } from "./byte-ranges.ts";
import type { DamagedRows } from "./damage.ts";

/** Statistics of reading a file. */
export interface ReadReport extends ReadCounts {
  /** Whether `sha256` is to be computed. */
  readonly isHashed: boolean;
  /** SHA-256 of the schema and the bytes of the wanted columns, hex; set at the end. */
  sha256: string;
}

/** An empty report. */
export function newReport(isHashed = true): ReadReport {
  return { wanted: 0, read: 0, reads: 0, isHashed, sha256: "" };
}

/** An incremental hash of bytes. */
export interface ByteHash {
  update(bytes: Uint8Array): void;
  digest(): Buffer;
}

/** A SHA-256, or a no-op if no hash is wanted. */
export function newHash({ isHashed }: Pick<ReadReport, "isHashed">): ByteHash {
  if (!isHashed) return noHash;
  const hash = createHash("sha256");
  return { update: (bytes) => void hash.update(bytes), digest: () => hash.digest() };
}

const noHash: ByteHash = { update() {}, digest: () => Buffer.alloc(0) };

/** Approximate limits of a batch: its rows, and the entries of its longest column. */
const batchRows = 8192;
const batchEntries = 1 << 19;

/**
 * Rows per batch in a piece of `rows` rows: fewer if lists are long. `entries`: total entries of
 * each column.
 */
export function rowsOfBatch(rows: number, entries: readonly number[]): number {
  const most = Math.max(1, ...entries) / Math.max(1, rows);
  return Math.max(16, Math.min(batchRows, Math.floor(batchEntries / most)));
}

/** Options of `TableFile.batches`. */
export interface TableLimits {
  /** Filled while the file is read. */
  readonly report?: ReadReport | undefined;
  /** The only piece to read. @default all */
  readonly only?: number | undefined;
  /** Most rows of a piece's first batch, if few rows are needed first. @default as `rowsMax` */
  readonly rowsFirst?: number | undefined;
  /**
   * Most rows of a batch. Batches also end where batches of the usual size end, so that the same
   * rows are read before damage. @default as many as usual
   */
  readonly rowsMax?: number | undefined;
  /** The columns to read. @default all that the job wants */
  readonly names?: ReadonlySet<string> | undefined;
  /** Receives the unreadable rows of a piece, which are left out. @default it is thrown */
  readonly onDamage?: ((rows: DamagedRows) => void) | undefined;
}

/** An open file, and the columns that a job reads of it. */
export interface TableFile extends Omit<AskedColumns<unknown>, "wanted"> {
  /** Path of the file, for error messages. */
  readonly path: string;
  readonly size: number;
  /** Tag of a remote file (`WebFile.tag`); undefined for a local file. */
  readonly tag: string | undefined;
  readonly rows: number;
  /**
   * Yields the rows in order, in batches that are valid until the next one. Pieces in which no row
   * can pass `tests` may be skipped. @throws InputUnusableError
   */
  batches(tests: readonly RowTest[], limits: TableLimits): AsyncGenerator<RowBatch>;
  close(): Promise<void>;
}

/** A batch of rows, and the filter of its rows. */
export interface WantedRows {
  readonly batch: RowBatch;
  /** Whether a row of the batch is a sample. */
  readonly isWanted: (row: number) => boolean;
}

/**
 * Yields the rows of a file in order; a batch is valid until the next one.
 * @throws InputUnusableError
 */
export async function* wantedRows(
  table: TableFile,
  limits: TableLimits = {},
): AsyncGenerator<WantedRows> {
  const { tests, partitions } = table;
  for await (const batch of table.batches(tests, limits)) {
    const whole = withPartitions(batch, partitions);
    yield { batch: whole, isWanted: rowFilter(tests, whole) };
  }
}

/** Whether the partitions of a file's path may contain a wanted row. */
export function isInWanted(
  path: string,
  { where = [] }: Pick<ResolvedTableOptions, "where">,
): boolean {
  const partitions = partitionsOf(path);
  return where.every((predicate) => {
    if (!partitions.has(predicate.column)) return true;
    const text = partitions.get(predicate.column);
    if (text === undefined) return false;
    return rowTest(predicate).isWanted(bytesOf(text));
  });
}

/** Adds the partition keys to a batch, as columns with the same value in every row. */
function withPartitions(
  batch: RowBatch,
  partitions: ReadonlyMap<string, string | undefined>,
): RowBatch {
  if (partitions.size === 0) return batch;
  const columns = new Map(batch.columns);
  for (const [name, text] of partitions) columns.set(name, sameText(text, batch.rows));
  return { ...batch, columns };
}

function sameText(text: string | undefined, rows: number): Column {
  const each = text === undefined ? 0 : 1;
  return {
    form: "texts",
    offsets: Int32Array.from({ length: rows + 1 }, (_, row) => row * each),
    codes: new Int32Array(rows * each),
    dictionary: [bytesOf(text ?? "")],
  };
}

function bytesOf(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}
