// Facts about a cache that need no samples to be read: its description, its size, its row groups.

import type { Disk } from "../../ports/disk.ts";
import { shownPath } from "../remote/addresses.ts";
import { startsOf } from "./blocks.ts";
import { type CacheMeta, readFrame } from "./cache-format.ts";
import { openFile } from "./cache-reader.ts";
import { pieceBytesOf, pieceStartsOf } from "./pieces.ts";

/** The row groups (pieces) of a cache's samples. */
export interface Pieces {
  /** First sample of each row group, then the end. */
  readonly starts: Uint32Array;
  /** Size in memory of the largest row group, in bytes. */
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
 * Position of a sample in the source files, for messages: `sample 3 of clicks.csv`, counted from 1.
 * Undefined if the cache does not record it.
 */
export function placeOfSample(
  { sources = [], pieces = [] }: Pick<CacheMeta, "sources" | "pieces">,
  sample: number,
): string | undefined {
  let first = 0;
  for (const [file, { path, samples = 0 }] of sources.entries()) {
    if (sample >= first + samples) {
      first += samples;
      continue;
    }
    for (const piece of pieces.filter((one) => one.file === file)) {
      if (sample < first + piece.samples) {
        return `sample ${sample - first + 1} of row group ${piece.rowGroup} of ${shownPath(path)}`;
      }
      first += piece.samples;
    }
    return `sample ${sample - first + 1} of ${shownPath(path)}`;
  }
  return undefined;
}

/**
 * Bytes of the samples in the cache file at `path`. They depend on the samples only, whereas the
 * size of the file also depends on its description. @throws DataCacheDamagedError
 */
export function readSampleBytes(path: string, disk: Disk): number {
  const file = openFile(path, disk);
  try {
    return 4 * (startsOf(readFrame(file).table).at(-1) ?? 0);
  } finally {
    file.close();
  }
}

/**
 * The row groups of the samples in the cache file at `path`; undefined if its sources have none.
 */
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
