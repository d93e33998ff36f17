// What is known of a cache's samples without reading them: its description, their size, their row
// groups.

import type { Disk } from "../../ports/disk.ts";
import { startsOf } from "./blocks.ts";
import { type CacheMeta, readFrame } from "./cache-format.ts";
import { openFile } from "./cache-reader.ts";
import { pieceBytesOf, pieceStartsOf } from "./pieces.ts";

/** The row groups of a cache's samples. */
export interface Pieces {
  /** The first sample of each, and the end. */
  readonly starts: Uint32Array;
  /** Bytes of the largest one in memory. */
  readonly bytesMax: number;
}

/** The description in the cache file at `path`. @throws DataCacheDamagedError */
export function readCacheMeta(path: string, disk: Disk): CacheMeta {
  const file = openFile(path, disk);
  try {
    return readFrame(file).meta;
  } finally {
    file.close();
  }
}

/**
 * Bytes of the samples in the cache file at `path`: a function of the samples alone, which the
 * rest of the file is not. @throws DataCacheDamagedError
 */
export function readSampleBytes(path: string, disk: Disk): number {
  const file = openFile(path, disk);
  try {
    return 4 * (startsOf(readFrame(file).table).at(-1) ?? 0);
  } finally {
    file.close();
  }
}

/** The pieces of the samples in the cache file at `path`; undefined: they lie in none. */
export function readPieces(path: string, disk: Disk): Pieces | undefined {
  const file = openFile(path, disk);
  try {
    const { table, meta } = readFrame(file);
    const starts = pieceStartsOf(meta);
    return starts && { starts, bytesMax: Math.max(...pieceBytesOf(starts, table)) };
  } finally {
    file.close();
  }
}
