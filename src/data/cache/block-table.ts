// The block table: words and checksum of every block of a data set, where each block begins, and
// which samples it has. It has 8 bytes for at most 32 samples, so a reader does not keep the table
// of large data: it reads pages of it when it needs them, and keeps the most recent ones.
//
//   on disk     | words crc | words crc | …      8 bytes a block
//   in memory   first word of each page of 8,192 blocks; pages: first word and crc of each block

import { crc32 } from "node:zlib";
import { LRUCache } from "lru-cache";
import { DataCacheDamagedError } from "../../errors/errors.ts";
import type { DiskFile } from "../../ports/disk.ts";
import type { SampleRange } from "../dataset.ts";
import { blockSamples, onDisk } from "./cache-format.ts";

export interface BlockTable {
  /** Number of blocks. */
  readonly blocks: number;
  wordsOf(block: number): number;
  crcOf(block: number): number;
  blockOf(sample: number): number;
  /** First sample of a block; of `blocks`: the number of samples. */
  firstOf(block: number): number;
}

/** First word of each block of a range, counted from the first of them; then the end. */
export function startsIn(table: BlockTable, { first, end }: SampleRange): Int32Array {
  const starts = new Int32Array(end - first + 1);
  for (let i = 0; i < end - first; i++) starts[i + 1] = (starts[i] ?? 0) + table.wordsOf(first + i);
  return starts;
}

/** Words and checksums of blocks, as they are on disk: (blocks, 2). */
export type TableEntries = Uint32Array;

/** Blocks of a page. */
export const pageBlocks = 8192;
/** Most pages of a table in memory: 6 MiB. */
const pagesMax = 64;
/** Bytes of a block's entry. */
export const entryBytes = 8;

/** The blocks of a page: first word of each in the page, then the end; and their checksums. */
interface Page {
  readonly starts: Float64Array;
  readonly crcs: Uint32Array;
}

/** Reads entries `first` .. `first + count - 1`. */
type ReadEntries = (first: number, count: number) => TableEntries;

/** The block table of a file: blocks of 32 samples, the last of which may have fewer. */
export class PagedTable implements BlockTable {
  readonly blocks: number;
  readonly #samples: number;
  readonly #path: string;
  readonly #read: ReadEntries;
  /** First word of each page, then the end. */
  readonly #pageStarts: Float64Array;
  readonly #pages: LRUCache<number, Page>;
  #lastNumber = -1;
  #last: Page = { starts: new Float64Array(1), crcs: new Uint32Array(0) };

  constructor(spec: {
    readonly path: string;
    readonly samples: number;
    readonly blocks: number;
    readonly pageStarts: Float64Array;
    readonly read: ReadEntries;
    readonly pagesMax?: number | undefined;
  }) {
    this.#pages = new LRUCache({ max: spec.pagesMax ?? pagesMax });
    this.blocks = spec.blocks;
    this.#samples = spec.samples;
    this.#path = spec.path;
    this.#read = spec.read;
    this.#pageStarts = spec.pageStarts;
  }

  /** First word of a block, counted from the first block; of `blocks`: the end. */
  startOf(block: number): number {
    if (block >= this.blocks) return this.#pageStarts.at(-1) ?? 0;
    const page = Math.floor(block / pageBlocks);
    return (this.#pageStarts[page] ?? 0) + (this.#page(page).starts[block % pageBlocks] ?? 0);
  }

  wordsOf(block: number): number {
    const { starts } = this.#page(Math.floor(block / pageBlocks));
    const at = block % pageBlocks;
    return (starts[at + 1] ?? 0) - (starts[at] ?? 0);
  }

  crcOf(block: number): number {
    return this.#page(Math.floor(block / pageBlocks)).crcs[block % pageBlocks] ?? 0;
  }

  blockOf(sample: number): number {
    return Math.floor(sample / blockSamples);
  }

  firstOf(block: number): number {
    return Math.min(block * blockSamples, this.#samples);
  }

  #page(number: number): Page {
    if (number === this.#lastNumber) return this.#last;
    let page = this.#pages.get(number);
    if (page === undefined) {
      page = this.#load(number);
      this.#pages.set(number, page);
    }
    [this.#last, this.#lastNumber] = [page, number];
    return page;
  }

  /** @throws DataCacheDamagedError if the page is not the one that was verified */
  #load(number: number): Page {
    const first = number * pageBlocks;
    const count = Math.min(pageBlocks, this.blocks - first);
    const entries = this.#read(first, count);
    const starts = new Float64Array(count + 1);
    const crcs = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
      starts[i + 1] = (starts[i] ?? 0) + (entries[2 * i] ?? 0);
      crcs[i] = entries[2 * i + 1] ?? 0;
    }
    const words = (this.#pageStarts[number + 1] ?? 0) - (this.#pageStarts[number] ?? 0);
    if (starts[count] === words) return { starts, crcs };
    throw new DataCacheDamagedError(this.#path, "a page of its block table has changed");
  }
}

/** The table of `entries`, in memory. `samples`: left out, every block is full. */
export function tableOf(
  entries: TableEntries,
  samples: number = (entries.length / 2) * blockSamples,
): PagedTable {
  const scan = new TableScan();
  scan.add(entries);
  const read: ReadEntries = (first, count) => entries.subarray(2 * first, 2 * (first + count));
  return scan.table({ path: "a table in memory", samples, read });
}

/** Collects the first words of the pages of a table, whose entries are added in order. */
export class TableScan {
  #blocks = 0;
  #words = 0;
  readonly #pageStarts: number[] = [];

  add(entries: TableEntries): void {
    for (let at = 0; at < entries.length; at += 2) {
      if (this.#blocks % pageBlocks === 0) this.#pageStarts.push(this.#words);
      this.#words += entries[at] ?? 0;
      this.#blocks++;
    }
  }

  table(spec: {
    readonly path: string;
    readonly samples: number;
    readonly read: ReadEntries;
    readonly pagesMax?: number | undefined;
  }): PagedTable {
    const pageStarts = Float64Array.from([...this.#pageStarts, this.#words]);
    return new PagedTable({ ...spec, blocks: this.#blocks, pageStarts });
  }
}

/** The entries of a table in a file, from byte `offset` on. */
export function entriesIn(file: DiskFile, offset: number): ReadEntries {
  return (first, count) => {
    const entries = new Uint32Array(2 * count);
    const bytes = new Uint8Array(entries.buffer);
    onDisk("read", file.path, () => file.read(bytes, offset + entryBytes * first));
    return entries;
  };
}

/**
 * Reads `bytes` bytes of a table once, some pages at a time. Returns the scan, and the checksum
 * that continues `crcBefore`.
 * Undefined: the file ends before.
 */
export function scanTable(
  file: DiskFile,
  offset: number,
  bytes: number,
  crcBefore = 0,
): { readonly scan: TableScan; readonly crc: number } | undefined {
  const scan = new TableScan();
  const buffer = new Uint32Array(2 * pageBlocks);
  let crc = crcBefore;
  for (let done = 0; done < bytes; ) {
    const some = new Uint8Array(buffer.buffer, 0, Math.min(buffer.byteLength, bytes - done));
    const at = offset + done;
    if (onDisk("read", file.path, () => file.read(some, at)) < some.length) return undefined;
    crc = crc32(some, crc);
    scan.add(buffer.subarray(0, some.length / 4));
    done += some.length;
  }
  return { scan, crc };
}
