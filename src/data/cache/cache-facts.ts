// Facts about a cache that need no samples to be read: its description, its size, its row groups,
// and its split keys, the values of the column that splits the data (cache-format.ts).

import { crc32 } from "node:zlib";
import { DataCacheDamagedError } from "../../errors/errors.ts";
import type { Disk } from "../../ports/disk.ts";
import type { SampleNumbers } from "../dataset.ts";
import { shownPath } from "../remote/addresses.ts";
import type { SplitKeys } from "../split-keys.ts";
import { setAsideNameOf } from "./cache-directory.ts";
import { bytesOfKeys, type CacheMeta, onDisk } from "./cache-format.ts";
import { readFrame } from "./cache-frame.ts";
import { openFile } from "./cache-reader.ts";
import { pieceBytesMax, pieceStartsOf } from "./pieces.ts";

/** The row groups (pieces) of a cache's samples. */
export interface Pieces {
  /** First sample of each row group, then the end. */
  readonly starts: SampleNumbers;
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
    const { table, meta } = readFrame(file);
    if (meta.files === undefined) return 4 * table.startOf(table.blocks);
    return 4 * meta.files.words.reduce((sum, words) => sum + words, 0);
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
    const { table, meta, starts: own } = readFrame(file);
    if (meta.files !== undefined) return { starts: own, bytesMax: meta.files.splitBytesMax };
    const starts = pieceStartsOf(meta);
    return starts && { starts, bytesMax: pieceBytesMax(starts, table) };
  } finally {
    file.close();
  }
}

/**
 * The split keys of the cache at `path`, in the order of its samples. A cache with damaged keys is
 * set aside, like one with damaged samples (cache-reader.ts).
 * @throws DataCacheDamagedError, StoreFailedError
 */
export function readKeys(path: string, disk: Disk): SplitKeys {
  const keys = keysOf(path, disk) ?? keysOf(path, disk); // A retry: it may be repaired by now.
  if (keys !== undefined) return keys;
  onDisk("set aside", path, () => disk.rename(path, setAsideNameOf(path)));
  throw new DataCacheDamagedError(path, "the checksum of its keys differs");
}

/** The keys of the file; undefined if they are damaged. */
function keysOf(path: string, disk: Disk): SplitKeys | undefined {
  if (!disk.exists(path)) throw new DataCacheDamagedError(path, "it is not there");
  const file = onDisk("open", path, () => disk.open(path, "read"));
  try {
    const { meta, end } = readFrame(file);
    const values = new Float64Array(meta.samples);
    const bytes = bytesOfKeys(values);
    const read = onDisk("read", path, () => file.read(bytes, end));
    const isWhole = read === bytes.length && crc32(bytes) === meta.keys?.crc;
    return isWhole && meta.keys ? { form: meta.keys.form, values } : undefined;
  } finally {
    file.close();
  }
}
