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
import { oneLabel, type Targets } from "../targets.ts";
import { type BatchCopier, batchCopier } from "./batch-copies.ts";
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
} from "./cache-format.ts";
import { layoutOf, type RecordLayout, unfoldedWords } from "./folded-records.ts";
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
  /** The dense features with values that await a mean, and the mean of each. */
  readonly #means: readonly (readonly [feature: number, mean: number])[];
  readonly #copier: BatchCopier;
  readonly #layout: RecordLayout;
  readonly #place: BlockPlace = { words: new Int32Array(0), at: 0 };
  /** Records of the batch, sample after sample, copied here so that blocks can be dropped. */
  #words = new Int32Array(0);
  #starts = new Int32Array(1);
  /** Where the record of each sample lies in its block's memory: as `BatchCopier` has it. */
  #froms = new Int32Array(0);
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
    this.#copier = batchCopier(meta);
    this.#layout = layoutOf(meta);
    this.#means = Object.entries(meta.means ?? {}).map(([at, mean]) => [Number(at), mean]);
  }

  read(indices: Uint32Array, batch: BatchMemory): number {
    assert(this.#isOpen, "the dataset is open");
    const B = indices.length;
    assert(batch.labels.length >= B * this.targets.labels, "room for the labels");
    assert(batch.dense.length >= B * this.dense, "room for the dense features");
    assert(batch.lengths.length >= B * this.features, "room for the lengths of its bags");
    assert(batch.highs !== undefined || !this.wide.includes(true), "room for halves of its ids");
    assert(batch.weights !== undefined || !this.weighted.includes(true), "room for its weights");
    this.#gather(indices);
    const records = { words: this.#words, starts: this.#starts };
    const count = this.#copier.copy(batch, records, B);
    const { ids, highs = ids, weights = ids } = batch;
    assert(Math.min(ids.length, highs.length, weights.length) >= count, "room for its ids");
    this.#fillMeans(batch.dense, B);
    this.#copyTargets(batch, B);
    return count;
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

  /** Copies the records of a batch to `#words`, those of one block's memory at once. */
  #gather(indices: Uint32Array): void {
    const place = this.#place;
    const B = indices.length;
    if (this.#froms.length < B) {
      this.#froms = new Int32Array(B);
      this.#starts = new Int32Array(B + 1);
    }
    const [starts, froms] = [this.#starts, this.#froms];
    let [first, block, used] = [0, -1, 0];
    let { words } = place;
    for (let b = 0; b < B; b++) {
      const index = indices[b] ?? 0;
      assert(index < this.samples, "an index of the dataset");
      const inBlock = index % blockSamples;
      if (index - inBlock !== block) {
        block = index - inBlock;
        this.#blocks.find(place, block / blockSamples);
        if (place.words !== words) {
          this.#take(words, first, b);
          [words, first] = [place.words, b];
        }
      }
      const slot = place.at + inBlock;
      const at = words[slot] ?? 0;
      if (at < 0) {
        froms[b] = at - place.at; // ~(place.at + ~at)
        used += unfoldedWords(words, place.at + ~at, this.#layout);
      } else {
        const end = words[slot + 1] ?? 0;
        froms[b] = place.at + at;
        used += (end < 0 ? ~end : end) - at;
      }
      starts[b + 1] = used;
    }
    this.#take(words, first, B);
    this.#wordsGathered += used;
  }

  /** Copies records first .. end-1 of the batch, which lie in one memory. */
  #take(words: Int32Array, first: number, end: number): void {
    if (first === end) return;
    const needed = this.#starts[end] ?? 0;
    if (needed > this.#words.length) {
      const larger = new Int32Array(Math.max(2 * needed, 1024));
      larger.set(this.#words);
      this.#words = larger;
    }
    const records = { words: this.#words, starts: this.#starts };
    this.#copier.gather(records, words, this.#froms, first, end);
  }

  #fillMeans(dense: Float32Array, B: number): void {
    for (const [at, mean] of this.#means) {
      for (let i = at; i < B * this.dense; i += this.dense) {
        if (Number.isNaN(dense[i])) dense[i] = mean;
      }
    }
  }

  /** Copies what samples have beside their labels and features. */
  #copyTargets({ sampleWeights, groups }: BatchMemory, B: number): void {
    const { labels, hasSampleWeights, hasGroups } = this.targets;
    if (!hasSampleWeights) sampleWeights?.fill(1, 0, B);
    if (!hasSampleWeights && !hasGroups) return;
    const floats = new Float32Array(this.#words.buffer);
    for (let b = 0; b < B; b++) {
      let from = (this.#starts[b] ?? 0) + labels;
      if (hasSampleWeights) {
        if (sampleWeights !== undefined) sampleWeights[b] = floats[from] ?? 0;
        from++;
      }
      if (!hasGroups || groups === undefined) continue;
      groups[b] = floats[from] ?? 0;
      groups[B + b] = floats[from + 1] ?? 0;
    }
  }
}
