// Writes a table of Parquet files from files of any supported format: columns that jobs read are
// adjacent, row groups are large, and partitions are directories. The complete table is renamed
// into place in one step.

import { basename, dirname, join } from "node:path";
import {
  type Disk,
  type DiskFile,
  diskCode,
  InputUnusableError,
  InvalidOptionError,
  type JobSpec,
  makeDurableDirectory,
  type ProgressOptions,
  progressOf,
  realDisk,
  temporarySuffix,
} from "../../../internal.ts";
import { type Codec, readyCodec } from "./codecs.ts";
import { filesFor, openSource } from "./open-source.ts";
import { type GroupWriter, openGroupWriter } from "./parquet-writer.ts";
import { PartitionRows, partitionNames } from "./partitions.ts";
import { orderedByJobs, type TableColumn, type TableSource } from "./table-columns.ts";

/** Options of `writeWarehouse`. */
export interface WriteOptions extends ProgressOptions {
  /** Column by whose values rows are partitioned; the files leave it out. */
  readonly partitionBy?: string | undefined;
  /** Most rows of a row group. @default 16384 */
  readonly groupRows?: number | undefined;
  /** @default "snappy" */
  readonly codec?: Codec | undefined;
  /** Jobs that decide the order of columns: columns that more jobs read come first. */
  readonly orderFrom?: readonly JobSpec[] | undefined;
}

/** The result of `writeWarehouse`. */
export interface WriteReport {
  readonly directory: string;
  readonly files: number;
  readonly rows: number;
  readonly rowGroups: number;
  readonly bytes: number;
  /** In the order of the files. */
  readonly columns: readonly string[];
}

type Written = Pick<WriteReport, "files" | "rows" | "rowGroups" | "bytes">;

export const usualGroupRows = 16_384;
/** Most unwritten rows over all partitions, as a multiple of a row group's rows. */
const groupsHeldMax = 4;

/**
 * Writes the rows of the files at `paths` (CSV, TSV, JSON Lines, Parquet, Arrow; directories,
 * patterns) as the table `out`, a directory that must not exist. A few row groups are in memory at
 * a time.
 * @throws InputUnusableError where a file cannot be read, or the table cannot be written
 * @throws InvalidOptionError where `out` exists, or the partition column is unusable
 */
export async function writeWarehouse(
  paths: readonly string[],
  out: string,
  options: WriteOptions = {},
): Promise<WriteReport> {
  const directory = out.replace(/(?<=.)\/+$/, "");
  const { disk = realDisk, groupRows = usualGroupRows, codec = "snappy" } = options;
  await readyCodec(codec);
  if (disk.exists(directory)) {
    const message = `Expected a new directory for the table, but ${directory} exists`;
    throw new InvalidOptionError("--out", `${message}; remove it, or name another`);
  }
  const source = await openSource(await filesFor(paths), options.signal);
  const ordered = orderedByJobs(source.columns, options.orderFrom ?? []);
  const partition = partitionColumn(ordered, options.partitionBy);
  const columns = ordered.filter((column) => column !== partition);
  if (columns.length === 0)
    throw new InputUnusableError(paths[0] ?? "", "The files have no columns");
  const staged = `${directory}.${disk.writer}${temporarySuffix}`;
  removeLeftovers(disk, directory);
  try {
    disk.remove(staged);
    makeDurableDirectory(disk, staged);
    const table = new TableWriter(disk, staged, { columns, groupRows, codec });
    const written = await fill(table, source, partition, options);
    options.signal?.throwIfAborted();
    disk.syncDirectory(staged);
    disk.rename(staged, directory);
    disk.syncDirectory(dirname(directory));
    return { directory, ...written, columns: columns.map(({ name }) => name) };
  } catch (error) {
    disk.remove(staged);
    if (diskCode(error) === undefined) throw error;
    const why = String(error instanceof Error ? error.message : error).replace(/, \w+ '.*$/, "");
    throw new InputUnusableError(directory, `Cannot write ${directory}: ${why}`, { cause: error });
  }
}

async function fill(
  table: TableWriter,
  source: TableSource,
  partition: TableColumn | undefined,
  options: WriteOptions,
): Promise<Written> {
  const progress = progressOf(options);
  try {
    for await (const chunk of source.chunks()) {
      const names = partition && partitionNames(partition, chunk);
      table.add(names ?? Array.from({ length: chunk.rows }, () => ""), chunk.columns);
      await progress.breathe();
    }
    return table.finish();
  } finally {
    table.close();
  }
}

/** Removes unfinished directories of the same table that dead processes left. */
function removeLeftovers(disk: Disk, directory: string): void {
  const begin = `${basename(directory)}.`;
  for (const name of disk.list(dirname(directory))) {
    if (!name.startsWith(begin) || !name.endsWith(temporarySuffix)) continue;
    const writer = name.slice(begin.length, -temporarySuffix.length);
    if (disk.isGone(writer)) disk.remove(join(dirname(directory), name));
  }
}

function partitionColumn(
  columns: readonly TableColumn[],
  name: string | undefined,
): TableColumn | undefined {
  if (name === undefined) return undefined;
  const column = columns.find((one) => one.name === name);
  if (column !== undefined && column.elements.length === 1) return column;
  const is = column === undefined ? "no column of the data" : "a list";
  const names = columns.map((one) => `\`${one.name}\``).slice(0, 20);
  const message = `Expected \`--partition-by\` to name a column with one value a row, and \`${name}\` is ${is}`;
  throw new InvalidOptionError("--partition-by", `${message}; there are ${names.join(", ")}`);
}

interface Layout {
  readonly columns: readonly TableColumn[];
  readonly groupRows: number;
  readonly codec: Codec;
}

interface OpenPart {
  readonly file: DiskFile;
  readonly writer: GroupWriter;
  readonly rows: PartitionRows;
}

/** Most partitions: the files of all partitions are open at the same time. */
const partitionsMax = 1000;

/** Writes the files of a table, one per partition. */
class TableWriter {
  readonly #disk: Disk;
  readonly #home: string;
  readonly #layout: Layout;
  readonly #parts = new Map<string, OpenPart>();
  #held = 0;
  #rows = 0;
  #rowGroups = 0;

  constructor(disk: Disk, home: string, layout: Layout) {
    this.#disk = disk;
    this.#home = home;
    this.#layout = layout;
  }

  /** Appends rows. `partitions`: each row's partition; "": none. */
  add(partitions: readonly string[], columns: ReadonlyMap<string, readonly unknown[]>): void {
    const { groupRows } = this.#layout;
    for (const [row, name] of partitions.entries()) {
      const part = this.#parts.get(name) ?? this.#open(name);
      part.rows.add(columns, row);
      this.#held++;
      this.#rows++;
      if (part.rows.count >= groupRows) this.#flush(part);
      else if (this.#held >= groupsHeldMax * groupRows) this.#flushLargest();
    }
  }

  #flushLargest(): void {
    const parts = [...this.#parts.values()];
    this.#flush(parts.reduce((a, b) => (b.rows.count > a.rows.count ? b : a)));
  }

  #open(name: string): OpenPart {
    if (this.#parts.size === partitionsMax) {
      const message = `Expected at most ${partitionsMax} partitions, but \`${name}\` exceeds them`;
      throw new InvalidOptionError("--partition-by", `${message}; name a column with fewer values`);
    }
    const directory = join(this.#home, name);
    this.#disk.makeDirectory(directory);
    const file = this.#disk.open(join(directory, "part-0.parquet"), "write");
    const { columns, codec } = this.#layout;
    const writer = openGroupWriter(file, columns, codec);
    const part = { file, writer, rows: new PartitionRows(columns) };
    this.#parts.set(name, part);
    return part;
  }

  #flush({ writer, rows }: OpenPart): void {
    if (rows.count === 0) return;
    this.#held -= rows.count;
    this.#rowGroups++;
    writer.write(rows.take());
  }

  /** Completes and syncs all files. */
  finish(): Written {
    if (this.#parts.size === 0) this.#open("");
    let bytes = 0;
    for (const [name, part] of this.#parts) {
      this.#flush(part);
      part.writer.finish();
      part.file.sync();
      bytes += part.file.size();
      this.#disk.syncDirectory(join(this.#home, name));
    }
    return { files: this.#parts.size, rows: this.#rows, rowGroups: this.#rowGroups, bytes };
  }

  close(): void {
    for (const { file } of this.#parts.values()) file.close();
  }
}
