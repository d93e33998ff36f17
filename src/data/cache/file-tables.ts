// The block table of an index with a separate index for each file: the concatenated tables of the
// files. Memory holds the first sample and block of each file, and the most recently used tables.
//
//   files     |------- file 0 -------|---- file 1 ----|     numbers of samples and blocks
//   pieces    |--- 70 ---|--- 50 ----|------ 96 ------|
//   blocks    |32|32| 6  |32| 18     |32|32|32        |     blocks begin with each piece

import { dirname, join } from "node:path";
import { LRUCache } from "lru-cache";
import { DataCacheDamagedError } from "../../errors/errors.ts";
import type { Disk } from "../../ports/disk.ts";
import type { SampleRange } from "../dataset.ts";
import type { BlockTable } from "./block-table.ts";
import { filesDirectory, setAsideNameOf } from "./cache-directory.ts";
import { blockSamples, type IndexedFiles, onDisk } from "./cache-format.ts";
import { type FileTable, openFileTable } from "./file-index-format.ts";
import { pieceWith } from "./pieces.ts";

/** Most open tables: enough for the splits of a batch and their successors. */
const openMax = 32;

/** The samples of one row group or record batch. */
export interface Run {
  /** Index of the file among the sources. */
  readonly file: number;
  readonly rowGroup: number;
  /** Index of its first sample in the dataset. */
  readonly first: number;
  readonly samples: number;
}

/** A block table that knows the row groups of its blocks. */
export interface RunTable extends BlockTable {
  /** The row group that has a block. */
  runAt(block: number): Run;
}

/** Whether a table knows the row groups of its blocks. */
export function hasRuns(table: BlockTable): table is RunTable {
  return "runAt" in table;
}

/** Path of a file's index beside the index at `path`. */
export function fileIndexPath(path: string, name: string): string {
  return join(dirname(path), filesDirectory, name);
}

export class FileTables implements RunTable {
  readonly blocks: number;
  readonly #path: string;
  readonly #names: readonly string[];
  readonly #disk: Disk;
  readonly #onDamage: (error: DataCacheDamagedError) => void;
  /** First sample and block of each file, then the end. */
  readonly #samples: Float64Array;
  readonly #blocks: Float64Array;
  readonly #open = new LRUCache<number, FileTable>({
    max: openMax,
    dispose: (file) => file.close(),
  });
  /** The file of the last requested sample or block: the next is mostly in it, too. */
  #last = 0;

  /**
   * The tables of the index at `path`. If a file's index is damaged, it is set aside, `onDamage`
   * receives the error, and then the error is thrown.
   */
  constructor(
    path: string,
    files: IndexedFiles,
    disk: Disk,
    onDamage: (error: DataCacheDamagedError) => void,
  ) {
    this.#path = path;
    this.#names = files.names;
    this.#disk = disk;
    this.#onDamage = onDamage;
    this.#samples = sumsOf(files.samples);
    this.#blocks = sumsOf(files.blocks);
    this.blocks = this.#blocks.at(-1) ?? 0;
  }

  wordsOf(block: number): number {
    const file = this.#fileWith(this.#blocks, block);
    return this.#table(file).table.wordsOf(block - (this.#blocks[file] ?? 0));
  }

  crcOf(block: number): number {
    const file = this.#fileWith(this.#blocks, block);
    return this.#table(file).table.crcOf(block - (this.#blocks[file] ?? 0));
  }

  blockOf(sample: number): number {
    const file = this.#fileWith(this.#samples, sample);
    const own = sample - (this.#samples[file] ?? 0);
    const { samples, blocks } = this.#table(file);
    const piece = pieceWith(samples, own);
    const inPiece = Math.floor((own - (samples[piece] ?? 0)) / blockSamples);
    return (this.#blocks[file] ?? 0) + (blocks[piece] ?? 0) + inPiece;
  }

  firstOf(block: number): number {
    if (block >= this.blocks) return this.#samples.at(-1) ?? 0;
    const file = this.#fileWith(this.#blocks, block);
    const own = block - (this.#blocks[file] ?? 0);
    const { samples, blocks } = this.#table(file);
    const piece = pieceWith(blocks, own);
    const inPiece = blockSamples * (own - (blocks[piece] ?? 0));
    return (this.#samples[file] ?? 0) + (samples[piece] ?? 0) + inPiece;
  }

  runAt(block: number): Run {
    const file = this.#fileWith(this.#blocks, block);
    const { samples, blocks, rowGroups } = this.#table(file);
    const piece = pieceWith(blocks, block - (this.#blocks[file] ?? 0));
    const first = samples[piece] ?? 0;
    return {
      file,
      rowGroup: rowGroups[piece] ?? 0,
      first: (this.#samples[file] ?? 0) + first,
      samples: (samples[piece + 1] ?? 0) - first,
    };
  }

  /** Whether the indexes of all files of these samples exist. */
  isThere({ first, end }: SampleRange): boolean {
    const last = this.#fileWith(this.#samples, end - 1);
    for (let file = this.#fileWith(this.#samples, first); file <= last; file++) {
      const path = fileIndexPath(this.#path, this.#names[file] ?? "");
      if (!this.#open.has(file) && !this.#disk.exists(path)) return false;
    }
    return true;
  }

  close(): void {
    this.#open.clear();
  }

  #fileWith(firsts: Float64Array, place: number): number {
    const last = this.#last;
    if (place < (firsts[last] ?? 0) || place >= (firsts[last + 1] ?? 0)) {
      this.#last = pieceWith(firsts, place);
    }
    return this.#last;
  }

  /** @throws DataCacheDamagedError, after both indexes were set aside */
  #table(file: number): FileTable {
    const known = this.#open.get(file);
    if (known !== undefined) return known;
    const path = fileIndexPath(this.#path, this.#names[file] ?? "");
    try {
      const table = openFileTable(path, this.#disk);
      this.#open.set(file, table);
      return table;
    } catch (error) {
      if (!(error instanceof DataCacheDamagedError)) throw error;
      if (this.#disk.exists(path)) {
        onDisk("set aside", path, () => this.#disk.rename(path, setAsideNameOf(path)));
      }
      this.#onDamage(error);
      throw error;
    }
  }
}

/** The sums of the values before each value, then of all. */
function sumsOf(values: readonly number[]): Float64Array {
  const sums = new Float64Array(values.length + 1);
  for (let i = 0; i < values.length; i++) sums[i + 1] = (sums[i] ?? 0) + (values[i] ?? 0);
  return sums;
}
