// Reads samples of a binary cache by index. A small cache is loaded and verified as a whole when it
// is opened. Of a larger cache, memory holds the ranges that the caller has requested with `hold`
// (held-ranges.ts) and recently used blocks, each verified when it is read.
//
// A cache is derived data. A reader that finds damage sets the file aside and fails; the next
// preparation builds the cache again (prepare-cache.ts). Other readers may still have the damaged
// file open and find the damage later: they must not set the new file aside.

import assert from "node:assert/strict";
import { DataCacheDamagedError } from "../../errors/errors.ts";
import type { Disk, DiskFile } from "../../ports/disk.ts";
import type { BatchMemory, BytesRead, Dataset, SampleNumbers, SampleRange } from "../dataset.ts";
import { oneLabel, type Targets } from "../targets.ts";
import { type BatchCopier, batchCopier } from "./batch-copies.ts";
import type { BlockTable } from "./block-table.ts";
import {
  type BlockPlace,
  type BlockReader,
  blocksInMemory,
  blocksOfFile,
  blocksOnDisk,
  type FindBlock,
} from "./blocks.ts";
import { setAsideNameOf } from "./cache-directory.ts";
import { type CacheMeta, earlyVersion, headerBytes, type Means, onDisk } from "./cache-format.ts";
import { type Frame, readFrame } from "./cache-frame.ts";
import { FileTables } from "./file-tables.ts";
import { layoutOf, type RecordLayout, unfoldedWords } from "./folded-records.ts";
import { HeldRanges } from "./held-ranges.ts";
import { pieceStartsOf } from "./pieces.ts";

/** A dataset with a digest that identifies its samples. */
export interface CachedSamples extends Dataset {
  /** SHA-256 of all samples, hex, from the cache's description. */
  readonly digest: string;
}

/** Default memory limit of one open cache, in bytes. */
export const cacheMemoryBytesMax = 0x1000_0000;

/**
 * Least memory for recent blocks, in bytes: enough for a sequential reader to read each block once.
 */
const recentBytesMin = 0x10_0000;

/**
 * Opens the dataset in the cache file at `path`; the caller closes it. `means` are the feature
 * means of the training data, for a cache of other data; left out, the cache's own means apply.
 * @throws DataCacheDamagedError if the file is missing, or damaged and then set aside; also by
 * `read`
 * @throws StoreFailedError if the disk fails; also by `read`
 */
export function openCache(
  path: string,
  disk: Disk,
  memoryBytesMax: number = cacheMemoryBytesMax,
  means?: Means,
): CachedSamples {
  const file = openFile(path, disk);
  try {
    const frame = readFrame(file);
    const { table, meta, dataEnd } = frame;
    const filled = { ...frame, meta: { ...meta, means: means ?? meta.means } };
    if (dataEnd - headerBytes <= memoryBytesMax) {
      return new CachedDataset(file, filled, {
        find: blocksInMemory(file, table, dataEnd),
        hold: async () => {},
        bytesRead: () => dataEnd - headerBytes,
      });
    }
    const recent = blocksOnDisk(file, table, Math.max(recentBytesMin, memoryBytesMax));
    const blocks = blocksOfFile(file, table);
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

/** Opens a reader that encodes the blocks of an index again, from its source files. */
export type OpenBlocks = (meta: CacheMeta, table: BlockTable) => BlockReader;

/** The description, splits and block table of an index. */
interface OpenIndex extends Pick<Frame, "meta" | "starts"> {
  readonly table: BlockTable;
  /** Whether these samples can be read: with an early index, files' indexes may be missing. */
  isThere(range: SampleRange): boolean;
  close(): void;
}

/** Reads the open index `file`; the block table may consist of its files' indexes. */
function indexIn(path: string, file: DiskFile, disk: Disk): OpenIndex {
  const frame = readFrame(file);
  const { meta } = frame;
  assert(meta.isIndex === true, "an index");
  if (meta.files === undefined) {
    return { ...frame, isThere: () => true, close: () => file.close() };
  }
  file.close();
  const table = new FileTables(path, meta.files, disk, (error) => {
    // Also sets the whole index aside: the next preparation would not check files' indexes.
    setAside(path, disk, error, true);
  });
  const isEarly = meta.version === earlyVersion;
  const isThere = (range: SampleRange) => !isEarly || table.isThere(range);
  return { ...frame, table, isThere, close: () => table.close() };
}

/**
 * Opens the dataset whose index is the file at `path`; the caller closes it. Samples are encoded
 * again from the sources, and `read` accepts only samples in ranges that are held. @throws as
 * `openCache`
 */
export function openIndex(
  path: string,
  disk: Disk,
  openBlocks: OpenBlocks,
  means?: Means,
): CachedSamples {
  const file = openFile(path, disk);
  let closeIndex = () => file.close();
  try {
    const frame = indexIn(path, file, disk);
    closeIndex = frame.close;
    const { table, meta, isThere } = frame;
    const blocks = openBlocks(meta, table);
    const held = new HeldRanges(blocks, table);
    const close = () => {
      blocks.close();
      frame.close();
    };
    return new CachedDataset(
      { close },
      { ...frame, meta: { ...meta, means: means ?? meta.means } },
      {
        find(place, block) {
          assert(held.find(place, block), "a sample that is held");
        },
        hold: (now, next) => held.hold(now, next.filter(isThere)),
        bytesRead: () => blocks.bytesRead,
      },
    );
  } catch (error) {
    closeIndex();
    setAside(path, disk, error);
    throw error;
  }
}

/** The block reader of an index, without a dataset around it. The caller closes it. */
export interface IndexBlocks {
  readonly digest: string;
  readonly table: BlockTable;
  readonly blocks: BlockReader;
  close(): void;
}

/** As `openIndex`, but returns the block reader itself. @throws as `openCache` */
export function openIndexBlocks(path: string, disk: Disk, openBlocks: OpenBlocks): IndexBlocks {
  const file = openFile(path, disk);
  let closeIndex = () => file.close();
  try {
    const { table, meta, close } = indexIn(path, file, disk);
    closeIndex = close;
    const blocks = openBlocks(meta, table);
    const closeBoth = () => {
      blocks.close();
      close();
    };
    return { digest: meta.digest, table, blocks, close: closeBoth };
  } catch (error) {
    closeIndex();
    setAside(path, disk, error);
    throw error;
  }
}

/**
 * Renames the file at `path` if `error` reports damage and the file is still damaged, or if it is
 * an index that refers to a damaged file's index (`isOfPart`).
 */
function setAside(path: string, disk: Disk, error: unknown, isOfPart = false): void {
  if (!(error instanceof DataCacheDamagedError)) return;
  if (isOfPart ? !disk.exists(path) : !isDamaged(path, disk, error.block)) return;
  onDisk("set aside", path, () => disk.rename(path, setAsideNameOf(path)));
}

/** Whether the frame or the given block of the file at `path` is damaged now. */
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

/** Opens a cache file. @throws DataCacheDamagedError if it does not exist */
export function openFile(path: string, disk: Disk): DiskFile {
  if (!disk.exists(path)) {
    throw new DataCacheDamagedError(path, "it is not there");
  }
  return onDisk("open", path, () => disk.open(path, "read"));
}

/** Source of a dataset's blocks. */
interface Blocks {
  readonly find: FindBlock;
  readonly hold: Dataset["hold"];
  /** Bytes read from the file or the sources. */
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
  readonly pieces: SampleNumbers | undefined;
  readonly isStreamed: boolean;
  readonly #file: { close(): void };
  readonly #blocks: Blocks;
  /** The dense features whose missing values are filled with a mean, and the mean of each. */
  readonly #means: readonly (readonly [feature: number, mean: number])[];
  readonly #copier: BatchCopier;
  readonly #layout: RecordLayout;
  readonly #table: BlockTable;
  readonly #place: BlockPlace = { words: new Int32Array(0), at: 0 };
  /**
   * Records of the batch, back to back. They are copies, so that blocks can be evicted meanwhile.
   */
  #words = new Int32Array(0);
  #starts = new Int32Array(1);
  /** First word of each sample's record in its block's memory, as `BatchCopier.gather` takes it. */
  #froms = new Int32Array(0);
  #isOpen = true;
  #wordsGathered = 0;

  constructor(
    file: { close(): void },
    { meta, table, starts }: Pick<OpenIndex, "meta" | "table" | "starts">,
    blocks: Blocks,
  ) {
    this.#table = table;
    this.digest = meta.digest;
    this.samples = meta.samples;
    this.dense = meta.dense;
    this.features = meta.features;
    this.wide = meta.wide;
    this.weighted = meta.weighted;
    this.idsMax = meta.idsMax;
    this.targets = meta.targets ?? oneLabel;
    this.pieces = meta.files === undefined ? pieceStartsOf(meta) : starts;
    this.isStreamed = meta.isIndex === true;
    this.#file = file;
    this.#blocks = blocks;
    this.#copier = batchCopier(meta);
    this.#layout = layoutOf(meta);
    this.#means = Object.entries(meta.means ?? {}).map(([at, mean]) => [Number(at), mean]);
  }

  read(indices: SampleNumbers, batch: BatchMemory): number {
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

  /** Copies the records of a batch to `#words`, consecutive records of one memory with one call. */
  #gather(indices: SampleNumbers): void {
    const place = this.#place;
    const B = indices.length;
    if (this.#froms.length < B) {
      this.#froms = new Int32Array(B);
      this.#starts = new Int32Array(B + 1);
    }
    const [starts, froms] = [this.#starts, this.#froms];
    let [first, used] = [0, 0];
    // The samples of the current block.
    let [low, high] = [0, 0];
    let { words } = place;
    for (let b = 0; b < B; b++) {
      const index = indices[b] ?? 0;
      assert(index < this.samples, "an index of the dataset");
      if (index < low || index >= high) {
        const block = this.#table.blockOf(index);
        low = this.#table.firstOf(block);
        high = this.#table.firstOf(block + 1);
        this.#blocks.find(place, block);
        if (place.words !== words) {
          this.#take(words, first, b);
          [words, first] = [place.words, b];
        }
      }
      const slot = place.at + index - low;
      const at = words[slot] ?? 0;
      if (at < 0) {
        froms[b] = at - place.at; // Equals ~(place.at + ~at).
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

  /** Copies records first .. end-1 of the batch, all of which are in `words`. */
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
