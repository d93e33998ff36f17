// Finds the blocks of a cache for a reader: all of them in memory, or an LRU cache of recently used
// ones. The checksum of every block is verified when it is read from disk.

import { crc32 } from "node:zlib";
import { LRUCache } from "lru-cache";
import { DataCacheDamagedError } from "../../errors/errors.ts";
import type { DiskFile } from "../../ports/disk.ts";
import type { SampleRange } from "../dataset.ts";
import type { BlockTable, PagedTable } from "./block-table.ts";
import { headerBytes, onDisk } from "./cache-format.ts";

/** Where a block is in memory: it starts at word `at` of `words`. */
export interface BlockPlace {
  words: Int32Array;
  at: number;
}

/** Reads whole blocks asynchronously. */
export interface BlockReader {
  /** Path of the file, for error messages. */
  readonly path: string;
  /** Fills `bytes` with the blocks first .. end-1. Resolves with the number of bytes read. */
  read(bytes: Uint8Array, blocks: SampleRange): Promise<number>;
  /** Whether `read` verifies the checksum of each block itself. @default false */
  readonly isChecked?: boolean;
  /** Receives the number of upcoming ranges that are in memory already. */
  ahead?(count: number): void;
  /** Bytes read so far. */
  readonly bytesRead: number;
  close(): void;
}

/** Reads the blocks that a cache file stores. */
export function blocksOfFile(file: DiskFile, table: PagedTable): BlockReader {
  let bytesRead = 0;
  return {
    path: file.path,
    async read(bytes, { first }) {
      const read = await file.readLater(bytes, headerBytes + 4 * table.startOf(first));
      bytesRead += read;
      return read;
    },
    get bytesRead() {
      return bytesRead;
    },
    close: () => file.close(),
  };
}

/** Points `place` at a block. */
export type FindBlock = (place: BlockPlace, block: number) => void;

export function blocksInMemory(file: DiskFile, table: PagedTable, dataEnd: number): FindBlock {
  const words = new Int32Array((dataEnd - headerBytes) / 4);
  const starts = Float64Array.from({ length: table.blocks + 1 }, (_, block) =>
    table.startOf(block),
  );
  const bytes = new Uint8Array(words.buffer);
  onDisk("read", file.path, () => file.read(bytes, headerBytes));
  for (let block = 0; block < table.blocks; block++) {
    const end = 4 * (starts[block + 1] ?? 0);
    checkBlock(file.path, table, block, bytes.subarray(4 * (starts[block] ?? 0), end));
  }
  return (place, block) => {
    place.words = words;
    place.at = starts[block] ?? 0;
  };
}

export function blocksOnDisk(
  file: DiskFile,
  table: PagedTable,
  memoryBytesMax: number,
): { readonly find: FindBlock; bytesRead(): number } {
  const recent = new LRUCache<number, Int32Array>({
    maxSize: Math.max(1, memoryBytesMax),
    sizeCalculation: (words) => words.byteLength,
  });
  let bytesRead = 0;
  const find: FindBlock = (place, block) => {
    let words = recent.get(block);
    if (words === undefined) {
      words = new Int32Array(table.wordsOf(block));
      const bytes = new Uint8Array(words.buffer);
      const offset = headerBytes + 4 * table.startOf(block);
      const read = onDisk("read", file.path, () => file.read(bytes, offset));
      bytesRead += read;
      checkBlock(file.path, table, block, bytes.subarray(0, read));
      recent.set(block, words);
    }
    place.words = words;
    place.at = 0;
  };
  return { find, bytesRead: () => bytesRead };
}

export function checkBlock(
  path: string,
  table: BlockTable,
  block: number,
  bytes: Uint8Array,
): void {
  if (bytes.length === 4 * table.wordsOf(block) && crc32(bytes) === table.crcOf(block)) return;
  const samples = `${table.firstOf(block)}..${table.firstOf(block + 1) - 1}`;
  const reason = `the checksum of block ${block} (samples ${samples}) differs`;
  throw new DataCacheDamagedError(path, reason, block);
}
