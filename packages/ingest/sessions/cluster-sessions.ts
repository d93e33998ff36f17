// Clusters rows by session, as in RecD: the rows of a session are consecutive and ordered by time,
// and sessions are ordered by the time of their first row. The Parquet table is renamed into place
// in one step.
//
// A process that is killed or stopped leaves its sorted runs in a directory beside the table; the
// same call resumes from there and produces the same bytes.

import { dirname, join } from "node:path";
import {
  type Disk,
  factsOfAll,
  InputUnusableError,
  InvalidOptionError,
  onDisk,
  type ProgressOptions,
  progressOf,
  readWhole,
  realDisk,
  replaceDurably,
  shownPath,
} from "../../../internal.ts";
import { type Codec, readyCodec } from "../warehouse/codecs.ts";
import { filesFor, openSource } from "../warehouse/open-source.ts";
import type { TableSource } from "../warehouse/table-columns.ts";
import { usualGroupRows } from "../warehouse/write-warehouse.ts";
import { memoryMin, SessionSort, type SortPlace } from "./session-sort.ts";
import { type ListReport, SessionTable, type WrittenSessions } from "./session-table.ts";
import { shuffledBytes } from "./shuffled-bytes.ts";
import { sortColumnsOf, timeBytes } from "./sort-keys.ts";
import { fingerprintOf, openState, reportName, tableName } from "./sorting-state.ts";

/** Options of `clusterSessions`. */
export interface SessionOptions extends ProgressOptions {
  /** Column with the session of a row. @default "session" */
  readonly by?: string | undefined;
  /** Column with the time of a row. @default "time" */
  readonly order?: string | undefined;
  /** Approximate bytes of rows in memory, plus a row group of the files. @default 2^29 */
  readonly memory?: number | undefined;
  /** Approximate rows of a row group, which ends with a session. @default 16384 */
  readonly groupRows?: number | undefined;
  /** Approximate rows of a file, which ends with a session. @default 1048576 */
  readonly fileRows?: number | undefined;
  /** @default "zstd" */
  readonly codec?: Codec | undefined;
  /** Whether to write the rows shuffled as well, in order to compare sizes. @default false */
  readonly compare?: boolean | undefined;
}

/** The result of `clusterSessions`. */
export interface SessionReport {
  readonly directory: string;
  readonly files: number;
  readonly rows: number;
  readonly rowGroups: number;
  readonly sessions: number;
  /** Bytes of the input files, of their rows in memory, and of the table. */
  readonly bytesBefore: number;
  readonly rowBytes: number;
  readonly bytes: number;
  readonly codec: Codec;
  /** A report on each list column. */
  readonly lists: readonly ListReport[];
  /** Rows that an earlier process had sorted. */
  readonly rowsResumed: number;
  /** With `compare`: bytes of a table of the same rows, shuffled. */
  readonly bytesShuffled?: number;
}

const usualMemory = 2 ** 29;
const usualFileRows = 2 ** 20;
/** Bytes of rows after which a row group is written. */
const groupBytesMax = 64 * 2 ** 20;
/** The metadata key of the sort columns in the files' footers. */
export const sessionsKey = "osiris.sessions";

/** The directory that a process leaves beside the table `out` when it is stopped. */
export function clusteringHomeOf(out: string): string {
  return `${withoutSlash(out)}.clustering`;
}

/**
 * Writes the rows of the files at `paths` as the table `out`, clustered by session.
 * @throws InvalidOptionError where a column is missing or has no order, or `out` exists
 * @throws InputUnusableError where a file cannot be read, or a row has no session or time
 * @throws StoreFailedError where the disk fails
 */
export async function clusterSessions(
  paths: readonly string[],
  out: string,
  options: SessionOptions = {},
): Promise<SessionReport> {
  const directory = withoutSlash(out);
  const home = clusteringHomeOf(out);
  const { disk = realDisk, memory = usualMemory, codec = "zstd" } = options;
  if (memory < memoryMin) {
    const message = `Expected \`--memory\` to be at least ${memoryMin} bytes, got ${memory}`;
    throw new InvalidOptionError("--memory", message);
  }
  if (disk.exists(directory)) {
    const report = onDisk("read", home, () => reportIn(disk, home));
    if (report !== undefined) return named(disk, home, directory, report);
    const message = `Expected a new directory for the table, but ${directory} exists`;
    throw new InvalidOptionError("out", `${message}; remove it, or name another`);
  }
  await readyCodec(codec);
  const files = await filesFor(paths);
  const facts = await factsOfAll(files);
  const source = await openSource(files, options.signal);
  const { by = "session", order = "time" } = options;
  const columns = sortColumnsOf(source.columns, { by, order, file: shownPath(files[0] ?? "") });
  const fingerprint = fingerprintOf({ facts, columns: source.columns, by, order });
  const state = onDisk("write", home, () => openState(disk, home, fingerprint));
  const rowsResumed = state.read.rows;
  const total = 3 * (await source.countRows());
  const progress = progressOf({ ...options, onProgress: undefined });
  let rowsWritten = 0;
  let sort: SessionSort | undefined;
  const place: SortPlace = {
    ...{ disk, home, memory },
    async breathe() {
      await progress.breathe();
      options.onProgress?.(Math.min(total, (sort?.rowsDone ?? 0) + rowsWritten), total);
    },
  };
  try {
    sort = new SessionSort(place, state);
    await sort.read(source, columns);
    await sort.order();
    const write = (table: SessionTable) => fill(table, sort as SessionSort, () => rowsWritten++);
    const written = await writeTable(place, source, options, write);
    refuseOther(home, sort.state.read, written);
    const bytesShuffled = options.compare
      ? await shuffledBytes(place, sort, (shuffled, into) =>
          writeTable(shuffled, source, options, into),
        )
      : undefined;
    const { sum: _sum, ...counts } = written;
    const report: SessionReport = {
      ...{ directory, ...counts, codec, rowsResumed },
      bytesBefore: facts.reduce((sum, { bytes }) => sum + bytes, 0),
      rowBytes: sort.state.read.bytes,
      ...(bytesShuffled !== undefined && { bytesShuffled }),
    };
    options.signal?.throwIfAborted();
    return named(disk, home, directory, report);
  } catch (error) {
    const isEmpty = (sort?.state.bySession.length ?? 0) + (sort?.state.byTime.length ?? 0) === 0;
    if (isEmpty) disk.remove(home);
    throw error;
  }
}

function withoutSlash(out: string): string {
  return out.replace(/(?<=.)\/+$/, "");
}

/** Writes all sorted rows to a table. `onRow` is called for each. */
async function fill(table: SessionTable, sort: SessionSort, onRow: () => void): Promise<void> {
  let session: Buffer | undefined;
  for await (const { key, row } of sort.rows()) {
    const rowSession = key.subarray(timeBytes, key.length - timeBytes);
    const isFirst = session === undefined || !rowSession.equals(session);
    if (isFirst) session = Buffer.from(rowSession);
    table.add(row, isFirst);
    onRow();
  }
}

/** Writes the whole table below `home`, from which it is renamed later. */
async function writeTable(
  { disk, home }: SortPlace,
  source: TableSource,
  { by = "session", order = "time", ...options }: SessionOptions,
  fillTable: (table: SessionTable) => Promise<void>,
): Promise<WrittenSessions> {
  const staged = join(home, tableName);
  onDisk("write", staged, () => {
    disk.remove(staged);
    disk.makeDirectory(staged);
  });
  const table = new SessionTable(disk, staged, {
    columns: source.columns,
    groupRows: options.groupRows ?? usualGroupRows,
    fileRows: options.fileRows ?? usualFileRows,
    groupBytes: groupBytesMax,
    codec: options.codec ?? "zstd",
    metadata: { [sessionsKey]: JSON.stringify({ by, order }) },
  });
  try {
    await fillTable(table);
    return onDisk("write", staged, () => table.finish());
  } finally {
    table.close();
  }
}

/** @throws InputUnusableError where the rows written differ from the rows read */
function refuseOther(
  home: string,
  read: { readonly rows: number; readonly sum: number },
  written: { readonly rows: number; readonly sum: number },
): void {
  if (read.rows === written.rows && read.sum === written.sum) return;
  const counts = `${read.rows} rows were read, and ${written.rows} written`;
  const message = `Cannot cluster in ${home}: the rows written differ from the rows read`;
  throw new InputUnusableError(
    home,
    `${message} (${counts}); remove that directory, and try again`,
  );
}

/** Renames the complete table to `directory`, and removes the working directory. Idempotent. */
function named(disk: Disk, home: string, directory: string, report: SessionReport): SessionReport {
  return onDisk("write", directory, () => {
    if (!disk.exists(directory)) {
      replaceDurably(disk, join(home, reportName), Buffer.from(JSON.stringify(report)));
      disk.rename(join(home, tableName), directory);
    }
    disk.syncDirectory(dirname(directory));
    // The report is removed last: while it exists, the next call knows that the table is complete.
    for (const name of disk.list(home)) {
      if (name !== reportName) disk.remove(join(home, name));
    }
    disk.remove(home);
    return report;
  });
}

/** The report of a table that is renamed already but whose working directory remains. */
function reportIn(disk: Disk, home: string): SessionReport | undefined {
  const path = join(home, reportName);
  if (!disk.exists(path) || disk.exists(join(home, tableName))) return undefined;
  return JSON.parse(Buffer.from(readWhole(disk, path)).toString("utf8")) as SessionReport;
}
