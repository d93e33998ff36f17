// Imports a file's rows into a table of a checkpoint. The result is a new checkpoint in another
// directory; the source stays as it is. The new checkpoint exists when its manifest does.
//
// Invariants
//   I1. Every row of the file is checked before the first byte is written.
//   I2. If the import fails or is aborted, the new directory is restored (new-checkpoint.ts).

import { join } from "node:path";
import {
  bytesToRead,
  checkEmpty,
  cursorOf,
  type Disk,
  encodeRows,
  InvalidOptionError,
  initialRowState,
  type Manifest,
  mergeUntil,
  needState,
  newCheckpoint,
  type OpenCheckpoint,
  openCheckpoint,
  type Progress,
  type ProgressOptions,
  partNameOf,
  progressOf,
  type RowCursor,
  type RowRecords,
  type RowRun,
  realDisk,
  rowsOfTable,
  type StoredTable,
  storedTable,
  storedTables,
  tableOfPart,
  temporarySuffix,
  wholeTable,
} from "../../../internal.ts";
import { scaled, shareOf } from "../exports/whole-rows.ts";
import { ascendingRows, checkRows } from "./check-rows.ts";
import { formatOf } from "./export-table.ts";
import type { RowFile } from "./row-file.ts";

/** Options of `importTable`. */
export interface ImportOptions extends ProgressOptions {
  /** A file in a format of `exportTable`, with rows in any order. */
  readonly from: string;
  /** Directory of the new checkpoint, new or empty. */
  readonly out: string;
  /**
   * Whether rows missing from the file keep their values; otherwise they become uninitialised.
   * @default false
   */
  readonly merge?: boolean;
  /** Hash of a manifest, or a prefix of it. @default as `loadModel` */
  readonly manifest?: string;
}

/** The result of `importTable`. */
export interface ImportReport {
  readonly table: string;
  readonly directory: string;
  /** Rows of the file. */
  readonly rows: number;
  /** Imported rows that the table's precision cannot hold exactly: they are rounded to nearest. */
  readonly rounded: number;
  /** Whether the file has optimizer state; if not, the rows get initial state. */
  readonly hasState: boolean;
  readonly cut: number;
  /** Hash of the new manifest. */
  readonly manifest: string;
  /** Digest of the new model: `sha256:…`. */
  readonly digest: string;
}

/**
 * Makes a checkpoint of the same job in a new directory, with one table's rows taken from a file.
 * `loadModel` loads it, and a run with this `checkpoint.directory` continues from it.
 * @throws InvalidOptionError (no such table, or its ids are dynamic), InputUnusableError (of the
 * file or the directory), CheckpointMissingError, CheckpointCorruptError, StoreFailedError
 */
export async function importTable(
  directory: string,
  table: string,
  options: ImportOptions,
): Promise<ImportReport> {
  const { disk = realDisk, from, out, merge = false } = options;
  const format = await formatOf(from);
  const checkpoint = openCheckpoint(directory, options.manifest, disk);
  needState(checkpoint.store, "an import into it");
  const stored = storedTable(checkpoint, table);
  if (stored.spec.dynamic !== undefined) {
    const message = `Expected a table whose ids are rows, got \`${table}\`, whose ids are dynamic`;
    throw new InvalidOptionError("table", `${message}: no file says which id has which row`);
  }
  checkEmpty(out, disk);
  const progress = progressOf(options);
  // Each part is read, written, and read back.
  progress.expect(checkpoint.manifest.parts.reduce((sum, part) => sum + 2 * bytesToRead(part), 0));
  const file = storedIn(await format.read(from, disk), shareOf(checkpoint, stored));
  try {
    const checked = await checkRows(file, from, stored, progress); // I1
    const scratch = join(out, `rows${temporarySuffix}`);
    const initial = initialRowState(checkpoint.job.optimizer.sparse, stored.spec.dim);
    const rows = ascendingRows(file, checked, stored, initial, { disk, scratch, progress });
    const replacement = { stored, rows, merge };
    const {
      sha256: manifest,
      cut,
      modelDigest,
    } = await rewrite(checkpoint, out, disk, progress, replacement);
    return {
      table,
      directory: out,
      rows: checked.rows.size,
      rounded: checked.rounded,
      hasState: file.shape.width > 0,
      cut,
      manifest,
      digest: `sha256:${modelDigest}`,
    };
  } finally {
    file.close();
  }
}

/** The file with rows as a checkpoint stores them. Only a file with state has such rows already. */
function storedIn(file: RowFile, share: number): RowFile {
  if (share === 1 || file.shape.width > 0) return file;
  async function* chunks() {
    for await (const chunk of file.chunks()) {
      yield { ...chunk, vectors: scaled(chunk.vectors, 1 / share) };
    }
  }
  return { ...file, chunks };
}

/** The new rows of one table. */
interface Replacement {
  readonly stored: StoredTable;
  readonly rows: AsyncIterable<RowRecords>;
  readonly merge: boolean;
}

/** Copies the checkpoint to another directory, with the rows of one table replaced. */
async function rewrite(
  checkpoint: OpenCheckpoint,
  out: string,
  disk: Disk,
  progress: Progress,
  replacement: Replacement,
): Promise<Manifest> {
  const { store: source, job, manifest } = checkpoint;
  const { jobIdentity } = manifest;
  const { tables } = job.model;
  const fields = { ...manifest, createdBy: `table import of ${process.pid}` };
  const made = { job, jobIdentity, jobText: source.jobText, fields };
  return newCheckpoint(out, made, { disk, progress }, async (write) => {
    for (const { name } of manifest.parts) {
      if (tableOfPart(name, tables) !== undefined) continue;
      await write(name, progress.count(source.readPart(manifest, name)));
    }
    for (const table of storedTables(checkpoint)) {
      const { spec, width } = table;
      const isReplaced = table.table === replacement.stored.table;
      const none = (async function* (): AsyncGenerator<RowRecords> {})();
      const isKept = !isReplaced || replacement.merge;
      const old = isKept ? rowsOfTable(checkpoint, table, progress) : none;
      const cursor = (rows: AsyncIterable<RowRecords>) => cursorOf(rows, spec.dim, width);
      const first = await cursor(isReplaced ? replacement.rows : none);
      const second = await cursor(old);
      for (const run of table.runs) {
        const { firstBlock, blocks } = run;
        const tile = { ...wholeTable(table.table, tables), firstBlock, blocks };
        await write(partNameOf(tile, tables), runBytes(table, run, first, second));
      }
    }
  });
}

/** The bytes of a part with all columns of a run of row blocks, which any plan can load. */
function runBytes(
  { spec, width }: StoredTable,
  { firstRow, rows }: RowRun,
  first: RowCursor,
  second: RowCursor,
): AsyncIterable<Uint8Array> {
  const records = mergeUntil(firstRow + rows, first, second, { dim: spec.dim, width });
  return encodeRows(spec.dim, width, records, spec.precision);
}
