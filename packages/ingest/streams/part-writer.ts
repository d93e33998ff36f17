// Writes the rows of one range of messages of the features' stream: one file per partition, in the
// order of the stream. The caller decides where the range ends.

import { dirname, join } from "node:path";
import { type Disk, type DiskFile, makeDurableDirectory, onDisk } from "../../../internal.ts";
import { type GroupWriter, openGroupWriter, openSuffix } from "../warehouse/parquet-writer.ts";
import type { FeatureColumns } from "./feature-columns.ts";
import type { IngestSpec } from "./ingest-options.ts";
import type { JoinedRow } from "./join.ts";
import { hiddenName, type IngestedFile } from "./position.ts";

/** Bytes of messages after which a row group is written even if it has fewer rows. */
const groupBytesMax = 64 * 2 ** 20;

interface OpenFile {
  readonly path: string;
  readonly file: DiskFile;
  readonly writer: GroupWriter;
  readonly columns: ReadonlyMap<string, unknown[]>;
  waiting: number;
  waitingBytes: number;
  rows: number;
  isClosed: boolean;
}

/** The ranges of both streams from which files were made; stored in their footers. */
export interface Stretch {
  readonly features: { readonly stream: string; readonly first: number; readonly last: number };
  readonly events: { readonly stream: string; readonly last: number };
}

/** The metadata key of these ranges in a file's footer. */
export const stretchKey = "osiris.ingest";

/** Writes the files of a range below `home`. Call `end`, `remove` or `discard` at the end. */
export class PartWriter {
  readonly #disk: Disk;
  readonly #home: string;
  readonly #spec: IngestSpec;
  readonly #columns: FeatureColumns;
  /** Sequence of the range's first message of features; file names contain it. */
  readonly #first: number;
  /** By partition. */
  readonly #files = new Map<string, OpenFile>();
  /** Rows that wait until the columns' types are fixed. */
  #untyped: JoinedRow[] = [];
  #rows = 0;

  constructor(
    disk: Disk,
    { home, spec, first }: { home: string; spec: IngestSpec; first: number },
    columns: FeatureColumns,
  ) {
    this.#disk = disk;
    this.#home = home;
    this.#spec = spec;
    this.#columns = columns;
    this.#first = first;
  }

  get rows(): number {
    return this.#rows;
  }

  get first(): number {
    return this.#first;
  }

  add(row: JoinedRow): void {
    this.#rows++;
    if (this.#columns.fixed === undefined) this.#untyped.push(row);
    else this.#write(row);
  }

  /** Writes the rows that waited for the types. Call it once they are fixed. */
  writeUntyped(): void {
    const rows = this.#untyped;
    this.#untyped = [];
    for (const row of rows) this.#write(row);
  }

  /** Completes the files. They are on disk under hidden names, until a position names them. */
  end(stretch: Stretch, isOpen: boolean): IngestedFile[] {
    this.writeUntyped();
    const ending = isOpen ? openSuffix : ".parquet";
    const metadata = { [stretchKey]: JSON.stringify(stretch) };
    return [...this.#files.values()].map((one) => {
      const path = one.path.replace(/\.parquet$/, ending);
      return onDisk("write", path, () => {
        this.#flush(one);
        one.writer.finish(metadata);
        one.file.sync();
        const bytes = one.file.size();
        one.file.close();
        one.isClosed = true;
        const [from, to] = [hiddenName(one.path), hiddenName(path)].map((name) => {
          return join(this.#home, name ?? "");
        });
        if (from !== undefined && to !== undefined && from !== to) this.#disk.rename(from, to);
        this.#disk.syncDirectory(dirname(join(this.#home, path)));
        return { path, rows: one.rows, bytes };
      });
    });
  }

  /** Closes and removes the unfinished files. */
  remove(): void {
    const paths = [...this.#files.values()].map(({ path }) => join(this.#home, hiddenName(path)));
    this.discard();
    for (const path of paths) onDisk("remove", path, () => this.#disk.remove(path));
  }

  /** Closes unfinished files; the next `openPosition` removes them. */
  discard(): void {
    for (const { file, isClosed } of this.#files.values()) if (!isClosed) file.close();
    this.#files.clear();
  }

  #write(row: JoinedRow): void {
    const file = this.#fileOf(partitionOf(row.timeMs, this.#spec.partition));
    const stored = this.#columns.stored(row);
    for (const [name, values] of file.columns) values.push(stored.get(name));
    file.rows++;
    file.waiting++;
    file.waitingBytes += row.bytes;
    if (file.waiting >= this.#spec.groupRows || file.waitingBytes >= groupBytesMax) {
      onDisk("write", file.path, () => this.#flush(file));
    }
  }

  #flush(file: OpenFile): void {
    if (file.waiting === 0) return;
    file.writer.write(file.columns);
    for (const values of file.columns.values()) values.length = 0;
    file.waiting = 0;
    file.waitingBytes = 0;
  }

  #fileOf(partition: string): OpenFile {
    const known = this.#files.get(partition);
    if (known !== undefined) return known;
    const path = join(partition, `part-${String(this.#first).padStart(16, "0")}.parquet`);
    const hidden = join(this.#home, hiddenName(path));
    return onDisk("write", path, () => {
      makeDurableDirectory(this.#disk, dirname(hidden));
      const file = this.#disk.open(hidden, "write");
      const columns = this.#columns.columns();
      const writer = openGroupWriter(file, columns, this.#spec.codec);
      const waiting = { waiting: 0, waitingBytes: 0, rows: 0, isClosed: false };
      const names = new Map(columns.map(({ name }): [string, unknown[]] => [name, []]));
      const opened = { path, file, writer, columns: names, ...waiting };
      this.#files.set(partition, opened);
      return opened;
    });
  }
}

/** The partition directory of a time, in UTC. */
function partitionOf(timeMs: number, partition: IngestSpec["partition"]): string {
  if (partition === "none") return "";
  const date = new Date(timeMs).toISOString();
  const day = `date=${date.slice(0, 10)}`;
  return partition === "date" ? day : join(day, `hour=${date.slice(11, 13)}`);
}
