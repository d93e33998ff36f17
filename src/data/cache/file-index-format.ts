// The format of the index of one file. It depends on nothing but that file and the options that
// decide its samples, so that files are indexed in any order, by any thread, and each only once.
//
//   header  64 bytes   magic "OSIRISFI" · version u32 · CRC-32 of pieces and table u32 ·
//                      pieces f64 · blocks f64 · facts bytes f64 · keys f64 ·
//                      CRC-32 of pieces, facts and keys u32 · CRC-32 of the 52 bytes before u32
//   pieces             row group · samples · words · words of the first block: f64 each
//   table              words u32 and CRC-32 u32 of each block (block-table.ts)
//   facts              facts about its samples (../file-index/index-file.ts), serialised by node:v8
//   keys               f64 of each sample, if a column splits the data
//
// Blocks begin with each piece. A file is written under a temporary name, synced and renamed.

import { deserialize, serialize } from "node:v8";
import { crc32 } from "node:zlib";
import { DataCacheDamagedError } from "../../errors/errors.ts";
import type { Disk, DiskFile } from "../../ports/disk.ts";
import {
  entriesIn,
  entryBytes,
  type PagedTable,
  scanTable,
  type TableEntries,
} from "./block-table.ts";
import { blockSamples, bytesOfKeys, headerBytes, onDisk } from "./cache-format.ts";

const magic = "OSIRISFI";
/** Part of the name of every file's index. */
export const fileIndexVersion = 1;
const checkedBytes = 52;
/** Numbers of a piece. */
export const pieceNumbers = 4;
const pieceBytes = 8 * pieceNumbers;
/** Pages of a file's table in memory: a reader has many files open. */
const filePagesMax = 4;

export interface FileIndex {
  /** (pieces, 4): row group, samples, words, words of the first block. */
  readonly pieces: Float64Array;
  readonly table: TableEntries;
  /** Plain data. */
  readonly facts: unknown;
  readonly keys: Float64Array;
}

/** Sizes and checksums in a header. */
interface Head {
  readonly pieces: number;
  readonly blocks: number;
  readonly factsBytes: number;
  readonly keys: number;
  readonly tableCrc: number;
  readonly factsCrc: number;
}

/** Writes the index of a file, except for the sync. */
export function writeFileIndex(file: DiskFile, { pieces, table, facts, keys }: FileIndex): void {
  const parts = [bytesOfKeys(pieces), bytesOf(table), serialize(facts), bytesOfKeys(keys)] as const;
  const [pieceBytesOf, tableBytes, factsBytes, keyBytes] = parts;
  const header = new Uint8Array(headerBytes);
  const view = new DataView(header.buffer);
  new TextEncoder().encodeInto(magic, header);
  view.setUint32(8, fileIndexVersion, true);
  view.setUint32(12, crcOf(pieceBytesOf, tableBytes), true);
  view.setFloat64(16, pieces.length / pieceNumbers, true);
  view.setFloat64(24, table.length / 2, true);
  view.setFloat64(32, factsBytes.length, true);
  view.setFloat64(40, keys.length, true);
  view.setUint32(48, crcOf(pieceBytesOf, factsBytes, keyBytes), true);
  view.setUint32(checkedBytes, crc32(header.subarray(0, checkedBytes)), true);
  onDisk("write", file.path, () => {
    file.write(header, 0);
    let at = headerBytes;
    for (const bytes of parts) {
      file.write(bytes, at);
      at += bytes.length;
    }
  });
}

/** Pieces, facts and keys of a file's index. @throws DataCacheDamagedError, StoreFailedError */
export function readFileIndex(path: string, disk: Disk): Omit<FileIndex, "table"> {
  const file = openIndexOf(path, disk);
  try {
    const head = headOf(file);
    const pieces = new Float64Array(pieceNumbers * head.pieces);
    const facts = new Uint8Array(head.factsBytes);
    const keys = new Float64Array(head.keys);
    fill(file, bytesOfKeys(pieces), headerBytes);
    const at = headerBytes + pieceBytes * head.pieces + entryBytes * head.blocks;
    fill(file, facts, at);
    fill(file, bytesOfKeys(keys), at + facts.length);
    if (crcOf(bytesOfKeys(pieces), facts, bytesOfKeys(keys)) !== head.factsCrc) {
      throw new DataCacheDamagedError(path, "the checksum of its facts differs");
    }
    return { pieces, facts: deserialize(facts), keys };
  } finally {
    file.close();
  }
}

/** The open block table of a file. Blocks and samples are counted from the file's first ones. */
export interface FileTable {
  readonly table: PagedTable;
  /** First sample of each piece, then the end. */
  readonly samples: Float64Array;
  /** First block of each piece, then the end. */
  readonly blocks: Float64Array;
  readonly rowGroups: Float64Array;
  close(): void;
}

/** Opens and verifies the block table of a file. @throws DataCacheDamagedError, StoreFailedError */
export function openFileTable(path: string, disk: Disk): FileTable {
  const file = openIndexOf(path, disk);
  try {
    const head = headOf(file);
    const pieces = new Float64Array(pieceNumbers * head.pieces);
    fill(file, bytesOfKeys(pieces), headerBytes);
    const at = headerBytes + pieceBytes * head.pieces;
    const scanned = scanTable(file, at, entryBytes * head.blocks, crcOf(bytesOfKeys(pieces)));
    if (scanned?.crc !== head.tableCrc) {
      throw new DataCacheDamagedError(path, "the checksum of its block table differs");
    }
    const [samples, blocks] = [0, 0].map(() => new Float64Array(head.pieces + 1)) as [
      Float64Array,
      Float64Array,
    ];
    const rowGroups = new Float64Array(head.pieces);
    for (let i = 0; i < head.pieces; i++) {
      const own = pieces[pieceNumbers * i + 1] ?? 0;
      rowGroups[i] = pieces[pieceNumbers * i] ?? 0;
      samples[i + 1] = (samples[i] ?? 0) + own;
      blocks[i + 1] = (blocks[i] ?? 0) + Math.ceil(own / blockSamples);
    }
    const spec = { path, samples: samples.at(-1) ?? 0, read: entriesIn(file, at) };
    const table = scanned.scan.table({ ...spec, pagesMax: filePagesMax });
    return { table, samples, blocks, rowGroups, close: () => file.close() };
  } catch (error) {
    file.close();
    throw error;
  }
}

/** @throws DataCacheDamagedError if it does not exist */
function openIndexOf(path: string, disk: Disk): DiskFile {
  if (!disk.exists(path)) throw new DataCacheDamagedError(path, "it is not there");
  return onDisk("open", path, () => disk.open(path, "read"));
}

function headOf(file: DiskFile): Head {
  const header = new Uint8Array(headerBytes);
  fill(file, header, 0);
  const view = new DataView(header.buffer);
  const isOne = new TextDecoder().decode(header.subarray(0, 8)) === magic;
  const crc = crc32(header.subarray(0, checkedBytes));
  if (!isOne || view.getUint32(checkedBytes, true) !== crc) {
    throw new DataCacheDamagedError(file.path, "the checksum of its header differs");
  }
  return {
    pieces: view.getFloat64(16, true),
    blocks: view.getFloat64(24, true),
    factsBytes: view.getFloat64(32, true),
    keys: view.getFloat64(40, true),
    tableCrc: view.getUint32(12, true),
    factsCrc: view.getUint32(48, true),
  };
}

/** The checksum of parts, one after another. */
function crcOf(...parts: readonly Uint8Array[]): number {
  // Of an empty part, zlib returns 0 instead of the checksum so far.
  return parts.reduce((crc, bytes) => (bytes.length === 0 ? crc : crc32(bytes, crc)), 0);
}

function fill(file: DiskFile, bytes: Uint8Array, at: number): void {
  if (onDisk("read", file.path, () => file.read(bytes, at)) === bytes.length) return;
  throw new DataCacheDamagedError(file.path, "its end is missing");
}

function bytesOf({ buffer, byteOffset, byteLength }: TableEntries): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
