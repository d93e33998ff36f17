// A file of columns that is open, whatever its format: what samples, predictions, row texts and the
// doctor ask of Parquet and of Arrow. A file has pieces, which are read one after the other: row
// groups of Parquet, record batches of Arrow.

import { createHash } from "node:crypto";
import type { RowBatch } from "../columnar/column.ts";
import type { RowTest } from "../columnar/row-filter.ts";
import type { AskedColumns } from "./asked-columns.ts";
import type { ReadCounts } from "./byte-ranges.ts";
import type { DamagedRows } from "./damage.ts";

/** What is known of a file that was read. */
export interface ReadReport extends ReadCounts {
  /** Whether its hash is wanted. */
  readonly isHashed: boolean;
  /** SHA-256 of the schema and of the bytes of the wanted columns, hex; known at the end. */
  sha256: string;
}

/** A report to be filled. */
export function newReport(isHashed = true): ReadReport {
  return { wanted: 0, read: 0, reads: 0, isHashed, sha256: "" };
}

/** Takes the bytes that a hash is of. */
export interface ByteHash {
  update(bytes: Uint8Array): void;
  digest(): Buffer;
}

/** A SHA-256, where it is wanted. */
export function newHash({ isHashed }: Pick<ReadReport, "isHashed">): ByteHash {
  if (!isHashed) return noHash;
  const hash = createHash("sha256");
  return { update: (bytes) => void hash.update(bytes), digest: () => hash.digest() };
}

const noHash: ByteHash = { update() {}, digest: () => Buffer.alloc(0) };

/** Rows of a batch, and entries of its longest column, about. */
const batchRows = 8192;
const batchEntries = 1 << 19;

/** Rows of a batch in a piece of `rows` rows: fewer where lists are long, of `entries` in all. */
export function rowsOfBatch(rows: number, entries: readonly number[]): number {
  const most = Math.max(1, ...entries) / Math.max(1, rows);
  return Math.max(16, Math.min(batchRows, Math.floor(batchEntries / most)));
}

/** Which rows are read, and how. */
export interface TableLimits {
  /** Filled while the file is read. */
  readonly report?: ReadReport | undefined;
  /** The one piece that is read. @default all */
  readonly only?: number | undefined;
  /** Rows of a piece that are needed first: its first batch has no more. @default as `rowsMax` */
  readonly rowsFirst?: number | undefined;
  /**
   * Most rows of a batch. Batches end where those with as many rows as usual end, too, so that the
   * same rows are read before a damaged one. @default as many as usual
   */
  readonly rowsMax?: number | undefined;
  /** The columns that are read. @default all that the job wants */
  readonly names?: ReadonlySet<string> | undefined;
  /** Told what cannot be read of a piece, which is left out. @default it is thrown */
  readonly onDamage?: ((rows: DamagedRows) => void) | undefined;
}

/** A file that is open, and what a job reads of it. */
export interface TableFile extends Omit<AskedColumns<unknown>, "wanted"> {
  /** The file, as messages name it. */
  readonly path: string;
  readonly size: number;
  /** What its server says of its contents; undefined: it lies on a disk. */
  readonly tag: string | undefined;
  readonly rows: number;
  /**
   * The rows in order, as batches that are valid until the next; pieces in which no row can pass
   * `tests` may be left out. @throws InputUnusableError
   */
  batches(tests: readonly RowTest[], limits: TableLimits): AsyncGenerator<RowBatch>;
  close(): Promise<void>;
}
