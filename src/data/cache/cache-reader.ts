// Reads samples of a binary cache by index. A small cache is loaded whole and checked when it is
// opened. Of a larger cache, the ranges that its user holds are in memory (held-ranges.ts), and the
// recently used blocks beside them, each checked when it is read.
//
// A cache is derived data. A reader that finds damage sets the file aside and fails; the next
// preparation makes the cache anew (prepare-cache.ts). Other readers may still have the damaged
// file open, or find its damage later: they must not set the new file aside.

import assert from "node:assert/strict";
import { DataCacheDamagedError } from "../../errors/errors.ts";
import type { Disk, DiskFile } from "../../ports/disk.ts";
import type { BatchMemory, BytesRead, Dataset, SampleRange } from "../dataset.ts";
import { groupWords, oneLabel, type Targets } from "../targets.ts";
import {
  type BlockPlace,
  type BlockReader,
  blocksInMemory,
  blocksOfFile,
  blocksOnDisk,
  type FindBlock,
} from "./blocks.ts";
import { setAsideNameOf } from "./cache-directory.ts";
import {
  type BlockTable,
  blockSamples,
  type CacheMeta,
  headerBytes,
  type Means,
  onDisk,
  readFrame,
  sampleHeadWords,
} from "./cache-format.ts";
import { HeldRanges } from "./held-ranges.ts";
import { pieceStartsOf } from "./pieces.ts";

/** A dataset that knows which samples it has. */
export interface CachedSamples extends Dataset {
  /** SHA-256 of all samples, hex, as the cache's description has it. */
  readonly digest: string;
}

/** Default limit of one open cache's memory, in bytes. */
export const cacheMemoryBytesMax = 0x1000_0000;

/** Blocks in memory at least: who reads sample after sample reads each block once. */
const recentBytesMin = 0x10_0000;

/**
 * Opens the dataset in the cache file at `path`. Close it. `means`: those of the training data,
 * where these are further data; left out, the cache's own.
 * @throws DataCacheDamagedError where the file is missing or damaged, which is then set aside;
 * `read` throws it, too
 * @throws StoreFailedError where the disk fails; `read` throws it, too
 */
export function openCache(
  path: string,
  disk: Disk,
  memoryBytesMax: number = cacheMemoryBytesMax,
  means?: Means,
): CachedSamples {
  const file = openFile(path, disk);
  try {
    const { table, meta, dataEnd } = readFrame(file);
    const filled = { ...meta, means: means ?? meta.means };
    if (dataEnd - headerBytes <= memoryBytesMax) {
      return new CachedDataset(file, filled, {
        find: blocksInMemory(file, table, dataEnd),
        hold: async () => {},
        bytesRead: () => dataEnd - headerBytes,
      });
    }
    const recent = blocksOnDisk(file, table, Math.max(recentBytesMin, memoryBytesMax));
    const blocks = blocksOfFile(file);
    const held = new HeldRanges(blocks, table);
    return new CachedDataset(file, filled, {
      find(place, block) {
        try {
          if (!held.find(place, block)) recent.find(place, block);
        } catch (error) {
          setAside(path, disk, error);
          throw error;
        }
      },
      hold: (now, next) => held.hold(now, next),
      bytesRead: () => blocks.bytesRead + recent.bytesRead(),
    });
  } catch (error) {
    file.close();
    setAside(path, disk, error);
    throw error;
  }
}

/** Makes the blocks of an index of the files that it is of. */
export type OpenBlocks = (meta: CacheMeta, table: BlockTable) => BlockReader;

/**
 * Opens the dataset whose index is the file at `path`: its samples are made again, and `read` knows
 * those alone that are held. Close it. @throws as `openCache`
 */
export function openIndex(
  path: string,
  disk: Disk,
  openBlocks: OpenBlocks,
  means?: Means,
): CachedSamples {
  const file = openFile(path, disk);
  try {
    const { table, meta } = readFrame(file);
    assert(meta.isIndex === true, "an index");
    const blocks = openBlocks(meta, table);
    const held = new HeldRanges(blocks, table);
    return new CachedDataset(
      blocks,
      { ...meta, means: means ?? meta.means },
      {
        find(place, block) {
          assert(held.find(place, block), "a sample that is held");
        },
        hold: (now, next) => held.hold(now, next),
        bytesRead: () => blocks.bytesRead,
      },
    );
  } catch (error) {
    setAside(path, disk, error);
    throw error;
  } finally {
    file.close();
  }
}

/** The blocks of samples that have no cache, without the samples. Close them. */
export interface IndexBlocks {
  readonly samples: number;
  readonly digest: string;
  readonly table: BlockTable;
  readonly blocks: BlockReader;
}

/** As `openIndex`, where the blocks are handed on as they are. @throws as `openCache` */
export function openIndexBlocks(path: string, disk: Disk, openBlocks: OpenBlocks): IndexBlocks {
  const file = openFile(path, disk);
  try {
    const { table, meta } = readFrame(file);
    assert(meta.isIndex === true, "an index");
    const { samples, digest } = meta;
    return { samples, digest, table, blocks: openBlocks(meta, table) };
  } catch (error) {
    setAside(path, disk, error);
    throw error;
  } finally {
    file.close();
  }
}

/** Sets the file at `path` aside where `error` says that it is damaged, and it still is. */
function setAside(path: string, disk: Disk, error: unknown): void {
  if (!(error instanceof DataCacheDamagedError) || !isDamaged(path, disk, error.block)) return;
  onDisk("set aside", path, () => disk.rename(path, setAsideNameOf(path)));
}

/** Whether the frame of the file at `path`, or the block, is damaged. */
function isDamaged(path: string, disk: Disk, block: number | undefined): boolean {
  if (!disk.exists(path)) return false;
  const file = openFile(path, disk);
  try {
    const { table } = readFrame(file);
    if (block !== undefined)
      blocksOnDisk(file, table, 1).find({ words: new Int32Array(0), at: 0 }, block);
    return false;
  } catch (error) {
    if (error instanceof DataCacheDamagedError) return true;
    throw error;
  } finally {
    file.close();
  }
}

/** Opens a cache's file. @throws DataCacheDamagedError where it is not there */
export function openFile(path: string, disk: Disk): DiskFile {
  if (!disk.exists(path)) {
    throw new DataCacheDamagedError(path, "it is not there");
  }
  return onDisk("open", path, () => disk.open(path, "read"));
}

/** Where the samples of a dataset come from. */
interface Blocks {
  readonly find: FindBlock;
  readonly hold: Dataset["hold"];
  /** Bytes that were read from the file. */
  bytesRead(): number;
}

class CachedDataset implements CachedSamples {
  readonly digest: string;
  readonly samples: number;
  readonly dense: number;
  readonly features: number;
  readonly wide: readonly boolean[];
  readonly weighted: readonly boolean[];
  readonly idsMax: readonly number[];
  readonly targets: Targets;
  readonly pieces: Uint32Array | undefined;
  readonly isStreamed: boolean;
  readonly #file: { close(): void };
  readonly #blocks: Blocks;
  readonly #headWords: number;
  /** The dense features with values that await a mean, and the mean of each. */
  readonly #means: readonly (readonly [feature: number, mean: number])[];
  readonly #place: BlockPlace = { words: new Int32Array(0), at: 0 };
  /** Records of the batch, sample after sample, copied here so that blocks can be dropped. */
  #words = new Int32Array(0);
  #floats = new Float32Array(0);
  /** Where each sample of the batch starts in `#words`; later, the position of its next id. */
  #starts = new Int32Array(0);
  #isOpen = true;
  #wordsGathered = 0;

  constructor(file: { close(): void }, meta: CacheMeta, blocks: Blocks) {
    this.digest = meta.digest;
    this.samples = meta.samples;
    this.dense = meta.dense;
    this.features = meta.features;
    this.wide = meta.wide;
    this.weighted = meta.weighted;
    this.idsMax = meta.idsMax;
    this.targets = meta.targets ?? oneLabel;
    this.pieces = pieceStartsOf(meta);
    this.isStreamed = meta.isIndex === true;
    this.#file = file;
    this.#blocks = blocks;
    this.#headWords = sampleHeadWords(meta);
    this.#means = Object.entries(meta.means ?? {}).map(([at, mean]) => [Number(at), mean]);
  }

  read(indices: Uint32Array, batch: BatchMemory): number {
    assert(this.#isOpen, "the dataset is open");
    const B = indices.length;
    const words = this.#gather(indices) - B * this.#headWords;
    assert(batch.labels.length >= B * this.targets.labels, "room for the labels");
    assert(batch.dense.length >= B * this.dense, "room for the dense features");
    assert(batch.lengths.length >= B * this.features, "room for the lengths of its bags");
    assert(batch.highs !== undefined || !this.wide.includes(true), "room for halves of its ids");
    assert(batch.weights !== undefined || !this.weighted.includes(true), "room for its weights");
    this.#copyDense(batch, B);
    const copied = this.#copyBags(batch, B);
    assert.equal(copied.words, words, "bags as long as their samples");
    const { ids, highs = ids, weights = ids } = batch;
    const room = Math.min(ids.length, highs.length, weights.length);
    assert(room >= copied.ids, "room for its ids");
    return copied.ids;
  }

  hold(now: readonly SampleRange[], next: readonly SampleRange[]): Promise<void> {
    assert(this.#isOpen, "the dataset is open");
    return this.#blocks.hold(now, next);
  }

  get bytesRead(): BytesRead {
    return { file: this.#blocks.bytesRead(), samples: 4 * this.#wordsGathered };
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#file.close();
  }

  /** Copies the records of a batch to `#words`. Returns their number of words. */
  #gather(indices: Uint32Array): number {
    const place = this.#place;
    if (this.#starts.length < indices.length) this.#starts = new Int32Array(indices.length);
    let used = 0;
    for (let b = 0; b < indices.length; b++) {
      const index = indices[b] ?? 0;
      assert(index < this.samples, "an index of the dataset");
      this.#blocks.find(place, Math.floor(index / blockSamples));
      const { words, at } = place;
      const slot = at + (index % blockSamples);
      const first = at + (words[slot] ?? 0);
      const end = at + (words[slot + 1] ?? 0);
      if (used + end - first > this.#words.length) this.#grow(2 * (used + end - first));
      const out = this.#words;
      this.#starts[b] = used;
      for (let from = first; from < end; from++) out[used++] = words[from] ?? 0;
    }
    this.#wordsGathered += used;
    return used;
  }

  #grow(words: number): void {
    const larger = new Int32Array(Math.max(words, 1024));
    larger.set(this.#words);
    this.#words = larger;
    this.#floats = new Float32Array(larger.buffer);
  }

  #copyDense(batch: BatchMemory, B: number): void {
    const { dense } = batch;
    const floats = this.#floats;
    let out = 0;
    for (let b = 0; b < B; b++) {
      let from = this.#copyTargets(batch, B, b);
      for (let i = 0; i < this.dense; i++) dense[out++] = floats[from++] ?? 0;
    }
    for (const [at, mean] of this.#means) {
      for (let i = at; i < B * this.dense; i += this.dense) {
        if (Number.isNaN(dense[i])) dense[i] = mean;
      }
    }
  }

  /** Copies what sample b has beside its features. Returns the word behind it. */
  #copyTargets({ labels, sampleWeights, groups }: BatchMemory, B: number, b: number): number {
    const floats = this.#floats;
    const { targets } = this;
    let from = this.#starts[b] ?? 0;
    for (let l = 0; l < targets.labels; l++) labels[b * targets.labels + l] = floats[from++] ?? 0;
    if (sampleWeights !== undefined) {
      sampleWeights[b] = targets.hasSampleWeights ? (floats[from] ?? 0) : 1;
    }
    if (targets.hasSampleWeights) from++;
    if (!targets.hasGroups) return from;
    if (groups !== undefined) {
      groups[b] = floats[from] ?? 0;
      groups[B + b] = floats[from + 1] ?? 0;
    }
    return from + groupWords;
  }

  /** Reorders sample-major bags into feature-major ones. Returns the ids and words read. */
  #copyBags(batch: BatchMemory, B: number): { ids: number; words: number } {
    const { lengths, ids, highs, weights } = batch;
    const words = this.#words;
    const floats = this.#floats;
    const starts = this.#starts;
    // `starts` moves to the first id of each sample; its lengths lie `back` words before.
    for (let b = 0; b < B; b++) starts[b] = (starts[b] ?? 0) + this.#headWords;
    const heads = starts.slice(0, B);
    const back = Math.ceil(this.features / 2);
    let out = 0;
    let read = 0;
    for (let t = 0; t < this.features; t++) {
      const shift = (t & 1) * 16;
      const head = (t >> 1) - back;
      const halves = this.wide[t] === true ? highs : undefined;
      const isWeighted = this.weighted[t] === true && weights !== undefined;
      for (let b = 0; b < B; b++) {
        const length = ((words[(heads[b] ?? 0) + head] ?? 0) >>> shift) & 0xffff;
        lengths[t * B + b] = length;
        const from = starts[b] ?? 0;
        for (let i = 0; i < length; i++) ids[out + i] = words[from + i] ?? 0;
        let end = from + length;
        if (halves !== undefined) {
          for (let i = 0; i < length; i++) halves[out + i] = words[end + i] ?? 0;
          end += length;
        }
        if (isWeighted) {
          for (let i = 0; i < length; i++) weights[out + i] = floats[end + i] ?? 0;
          end += length;
        } else {
          weights?.fill(1, out, out + length);
        }
        out += length;
        starts[b] = end;
        read += end - from;
      }
    }
    return { ids: out, words: read };
  }
}
