// Writes rows that are clustered by session as Parquet files. A row group ends at the end of a
// session, unless a session exceeds two row groups; a file always ends at the end of a session. It
// also counts how often lists repeat within sessions, which determines the gain of deduplication.

import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { Disk, DiskFile } from "../../../internal.ts";
import type { Codec } from "../warehouse/codecs.ts";
import { type GroupWriter, openGroupWriter } from "../warehouse/parquet-writer.ts";
import type { TableColumn } from "../warehouse/table-columns.ts";
import { RowReader } from "./row-bytes.ts";
import { RowSum, type RowSums } from "./row-sum.ts";

export interface SessionTableLayout {
  readonly columns: readonly TableColumn[];
  /** Minimum rows of a row group and of a file; the last ones may have fewer. */
  readonly groupRows: number;
  readonly fileRows: number;
  /** Bytes of rows after which a row group ends even if it has fewer rows. */
  readonly groupBytes: number;
  readonly codec: Codec;
  /** Metadata of the footers. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** How often the lists of a column repeat within their sessions. */
export interface ListReport {
  readonly column: string;
  /** Number of ids in all rows, and in the distinct lists of each session. */
  readonly ids: number;
  readonly distinctIds: number;
  /** `ids` / `distinctIds`; NaN where there are no ids. */
  readonly dedupeFactor: number;
}

/** The result of writing a table. */
export interface WrittenSessions extends RowSums {
  readonly files: number;
  readonly rowGroups: number;
  readonly sessions: number;
  readonly bytes: number;
  readonly lists: readonly ListReport[];
}

interface OpenFile {
  readonly file: DiskFile;
  readonly writer: GroupWriter;
  rows: number;
}

/** Most distinct lists remembered per session; after that, counting restarts as for a session. */
const distinctMax = 65_536;

/** Writes the files of a table. Finish it, then close it. */
export class SessionTable {
  readonly #disk: Disk;
  readonly #home: string;
  readonly #layout: SessionTableLayout;
  readonly #values: unknown[][];
  readonly #lists: readonly (ListCount | undefined)[];
  readonly #sum = new RowSum();
  #open: OpenFile | undefined;
  #waiting = 0;
  #waitingBytes = 0;
  #files = 0;
  #rowGroups = 0;
  #sessions = 0;
  #bytes = 0;

  constructor(disk: Disk, home: string, layout: SessionTableLayout) {
    this.#disk = disk;
    this.#home = home;
    this.#layout = layout;
    this.#values = layout.columns.map(() => []);
    this.#lists = layout.columns.map((column) => (isList(column) ? new ListCount() : undefined));
  }

  /** Appends a row. `isFirst`: whether it is the first row of its session. */
  add(row: Buffer, isFirst: boolean): void {
    const { groupRows, fileRows, groupBytes } = this.#layout;
    const isFull = this.#waiting >= groupRows || this.#waitingBytes >= groupBytes;
    const isVeryFull = this.#waiting >= 2 * groupRows || this.#waitingBytes >= 2 * groupBytes;
    if (isVeryFull || (isFirst && isFull)) this.#flush();
    const rows = (this.#open?.rows ?? 0) + this.#waiting;
    if (isFirst && rows >= fileRows) this.#endFile();
    if (isFirst) this.#sessions++;
    const reader = new RowReader(row);
    for (const [i, values] of this.#values.entries()) {
      const begin = reader.at;
      const value = reader.next();
      values.push(value);
      const list = this.#lists[i];
      if (list === undefined) continue;
      if (isFirst) list.begin();
      list.add(value, row.subarray(begin, reader.at));
    }
    this.#sum.add(row);
    this.#waiting++;
    this.#waitingBytes += row.length;
  }

  finish(): WrittenSessions {
    if (this.#files === 0 || this.#waiting > 0) this.#flush();
    this.#endFile();
    this.#disk.syncDirectory(this.#home);
    const lists = this.#layout.columns.flatMap(({ name }, i): ListReport[] => {
      const list = this.#lists[i];
      return list === undefined ? [] : [{ column: name, ...list.value }];
    });
    const bytes = this.#bytes;
    const counts = { files: this.#files, rowGroups: this.#rowGroups, sessions: this.#sessions };
    return { ...this.#sum.value, ...counts, bytes, lists };
  }

  close(): void {
    this.#open?.file.close();
    this.#open = undefined;
  }

  #flush(): void {
    const { columns, codec } = this.#layout;
    if (this.#open === undefined) {
      const name = `part-${String(this.#files++).padStart(5, "0")}.parquet`;
      const file = this.#disk.open(join(this.#home, name), "write");
      this.#open = { file, writer: openGroupWriter(file, columns, codec, true), rows: 0 };
    }
    if (this.#waiting === 0) return;
    this.#open.writer.write(new Map(columns.map(({ name }, i) => [name, this.#values[i] ?? []])));
    this.#open.rows += this.#waiting;
    this.#rowGroups++;
    for (const values of this.#values) values.length = 0;
    this.#waiting = 0;
    this.#waitingBytes = 0;
  }

  #endFile(): void {
    if (this.#waiting > 0) this.#flush();
    if (this.#open === undefined) return;
    const { file, writer } = this.#open;
    writer.finish(this.#layout.metadata);
    file.sync();
    this.#bytes += file.size();
    this.close();
  }
}

/** Counts the ids of a column's lists, and the ids of the distinct lists of each session. */
class ListCount {
  /** Lists of the session, identified by checksum and length. */
  readonly #seen = new Set<number>();
  #ids = 0;
  #distinctIds = 0;

  /** Begins a session. */
  begin(): void {
    this.#seen.clear();
  }

  add(value: unknown, bytes: Uint8Array): void {
    if (!Array.isArray(value)) return;
    this.#ids += value.length;
    const key = crc32(bytes) + 2 ** 32 * Math.min(bytes.length, 2 ** 20);
    if (this.#seen.has(key)) return;
    if (this.#seen.size === distinctMax) this.#seen.clear();
    this.#seen.add(key);
    this.#distinctIds += value.length;
  }

  get value() {
    const [ids, distinctIds] = [this.#ids, this.#distinctIds];
    return { ids, distinctIds, dedupeFactor: ids / distinctIds };
  }
}

function isList({ elements }: TableColumn): boolean {
  const kind = elements[0]?.converted_type ?? elements[0]?.logical_type?.type;
  return kind === "LIST" || kind === "MAP";
}
