// Exports a table of a checkpoint to a file. The table is read as a stream, and the file is renamed
// to its name once it is complete and on disk.

import {
  averagesOf,
  InputUnusableError,
  idsOfTable,
  needState,
  type OpenCheckpoint,
  openCheckpoint,
  type Progress,
  type ProgressOptions,
  progressOf,
  realDisk,
  rowAverageIn,
  rowsOfTable,
  type StoredTable,
  storedTable,
  writeWhole,
} from "../../../internal.ts";
import { scaled, shareOf } from "../exports/whole-rows.ts";
import { csvTable } from "./csv.ts";
import type { FileNotes, RowFormat } from "./row-file.ts";
import { safetensors } from "./safetensors.ts";
import { rowNotes } from "./table-ids.ts";

/** Options of `exportTable`. */
export interface ExportOptions extends ProgressOptions {
  /** Hash of a manifest, or a prefix of it. @default as `loadModel` */
  readonly manifest?: string;
  /**
   * Whether to export the rows as training continues with them: weights instead of their moving
   * average, and all of their state. @default false
   */
  readonly state?: boolean;
}

/** The result of `exportTable`. */
export interface ExportReport {
  readonly table: string;
  readonly file: string;
  /** Initialised rows; the others were never trained. */
  readonly rows: number;
  readonly dim: number;
  /** State floats of a row in the file. */
  readonly stateWidth: number;
  /** Bytes of the file. */
  readonly bytes: number;
  /** Step number of the checkpoint. */
  readonly cut: number;
  /** Hash of its manifest. */
  readonly manifest: string;
}

/**
 * Writes the initialised rows of a table to `path`. The path's ending selects the format:
 * `.safetensors`, `.csv` or `.parquet`. One chunk of rows is in memory at a time, however large the
 * table is.
 * @throws InvalidOptionError (no such table), InputUnusableError (the file cannot be written),
 * CheckpointMissingError, CheckpointCorruptError
 */
export async function exportTable(
  directory: string,
  table: string,
  path: string,
  options: ExportOptions = {},
): Promise<ExportReport> {
  const { disk = realDisk } = options;
  const format = await formatOf(path);
  const checkpoint = openCheckpoint(directory, options.manifest, disk);
  if (options.state === true) needState(checkpoint.store, "an export with state");
  const stored = storedTable(checkpoint, table);
  const { dim } = stored.spec;
  const width = options.state === true ? stored.width : 0;
  const average = options.state === true ? undefined : rowAverageIn(checkpoint);
  const progress = progressOf(options);
  progress.expect((format.isCounted ? 2 : 1) * stored.bytes);
  const counted = format.isCounted ? await countRows(checkpoint, stored, progress) : 0;
  const averaged = average && { average: `decay ${average.decay}, ${average.steps} steps` };
  const share = shareOf(checkpoint, stored);
  // With state, rows are as training continues with them.
  const decayed = width > 0 && share !== 1 && { weight: `vector times ${share}` };
  const notes = { ...notesOf(checkpoint, stored), ...averaged, ...decayed };
  const dynamic = idsOfTable(checkpoint, stored.table);
  let rows = 0;
  const bytes = await writeWhole(disk, path, async (file) => {
    const writer = format.open(file, { dim, width }, notes, counted);
    for await (const chunk of rowsOfTable(checkpoint, stored, progress)) {
      const ids = BigInt64Array.from(chunk.rows, (row) => dynamic?.idOf(row) ?? BigInt(row));
      const vectors = scaled(averagesOf(chunk, average), width > 0 ? 1 : share);
      writer.write({ ids, vectors, state: width > 0 ? chunk.state : undefined });
      rows += ids.length;
    }
    writer.finish();
  });
  const { cut, sha256: manifest } = checkpoint.manifest;
  return { table, file: path, rows, dim, stateWidth: width, bytes, cut, manifest };
}

async function countRows(
  checkpoint: OpenCheckpoint,
  table: StoredTable,
  progress: Progress,
): Promise<number> {
  let rows = 0;
  for await (const chunk of rowsOfTable(checkpoint, table, progress)) rows += chunk.rows.length;
  return rows;
}

/** The provenance of the rows, stored in the file. */
function notesOf({ job, manifest }: OpenCheckpoint, { spec }: StoredTable): FileNotes {
  return {
    ...rowNotes(job, spec),
    table: spec.name,
    tableRows: String(spec.rows),
    precision: spec.precision,
    optimizer: job.optimizer.sparse.kind,
    cut: String(manifest.cut),
    digest: `sha256:${manifest.modelDigest}`,
  };
}

/**
 * The format of a file of rows, by its ending. Parquet is loaded only when needed, as its libraries
 * are many modules. @throws InputUnusableError where the ending is unknown
 */
export async function formatOf(path: string): Promise<RowFormat> {
  if (path.endsWith(".safetensors")) return safetensors;
  if (path.endsWith(".csv")) return csvTable;
  if (path.endsWith(".parquet")) return (await import("./parquet.ts")).parquet;
  const forms = "`.safetensors`, `.csv` or `.parquet`";
  throw new InputUnusableError(path, `Expected a file ending in ${forms}, got ${path}`);
}
