// The ranges of samples that a reader of a large cache holds in memory: the splits that it reads
// from, and the next splits, which are prefetched. One asynchronous disk read fetches a range; the
// checksum of a block is verified when it is first used, unless its `BlockReader` has verified it.
//
// Invariants
//   H1. Memory holds the ranges of the last call of `hold`, free buffers of dropped ranges, and
//       reads in flight for dropped ranges.
//   H2. A buffer is reused only when no read can still write to it.

import { StoreFailedError, TrainingError } from "../../errors/errors.ts";
import type { SampleRange } from "../dataset.ts";
import { type BlockTable, startsIn } from "./block-table.ts";
import { type BlockPlace, type BlockReader, checkBlock } from "./blocks.ts";

/** A range of blocks that is in memory or being read. */
interface Held {
  readonly firstBlock: number;
  readonly endBlock: number;
  /** First word of each block of the range, then the end. */
  readonly starts: Int32Array;
  readonly words: Int32Array;
  readonly bytes: Uint8Array;
  /** By block: whether its checksum was verified. */
  readonly isChecked: Uint8Array;
  /** Resolves with the error of the read, or undefined; never rejects. */
  readonly read: Promise<unknown>;
  isThere: boolean;
}

export class HeldRanges {
  readonly #blocks: BlockReader;
  readonly #table: BlockTable;
  #held = new Map<string, Held>();
  /** The range of the last block found: the next block is mostly in the same range. */
  #last: Held | undefined;
  readonly #free: ArrayBuffer[] = [];

  constructor(blocks: BlockReader, table: BlockTable) {
    this.#blocks = blocks;
    this.#table = table;
  }

  /** As `Dataset.hold`. @throws StoreFailedError */
  async hold(now: readonly SampleRange[], next: readonly SampleRange[]): Promise<void> {
    const before = this.#held;
    const wanted = [...now, ...next].map((range) => [keyOf(range), range] as const);
    const keys = new Set(wanted.map(([key]) => key));
    for (const [key, held] of before) if (!keys.has(key)) this.#drop(held);
    const held = new Map<string, Held>();
    for (const [key, range] of wanted) {
      const one = before.get(key) ?? held.get(key) ?? this.#start(range);
      held.set(key, one);
    }
    this.#held = held;
    this.#last = undefined;
    for (const range of now) {
      const key = keyOf(range);
      const one = held.get(key);
      if (one === undefined || one.isThere) continue;
      const cause = await one.read;
      if (cause === undefined) continue;
      this.#held.delete(key); // The next `hold` of this range reads it again.
      if (cause instanceof TrainingError) throw cause;
      throw new StoreFailedError("read", this.#blocks.path, { cause });
    }
    this.#blocks.ahead?.(next.filter((range) => held.get(keyOf(range))?.isThere).length);
  }

  /**
   * Points `place` at a block and returns true if a range in memory contains the block.
   * @throws DataCacheDamagedError
   */
  find(place: BlockPlace, block: number): boolean {
    const held = this.#rangeWith(block);
    if (held === undefined) return false;
    this.#last = held;
    const at = held.starts[block - held.firstBlock] ?? 0;
    if (held.isChecked[block - held.firstBlock] === 0) {
      const end = held.starts[block - held.firstBlock + 1] ?? 0;
      checkBlock(this.#blocks.path, this.#table, block, held.bytes.subarray(4 * at, 4 * end));
      held.isChecked[block - held.firstBlock] = 1;
    }
    place.words = held.words;
    place.at = at;
    return true;
  }

  #rangeWith(block: number): Held | undefined {
    const has = (one: Held) => one.isThere && block >= one.firstBlock && block < one.endBlock;
    if (this.#last !== undefined && has(this.#last)) return this.#last;
    for (const held of this.#held.values()) if (has(held)) return held;
    return undefined;
  }

  #start({ first, end }: SampleRange): Held {
    const table = this.#table;
    const firstBlock = table.blockOf(first);
    const endBlock = table.blockOf(end - 1) + 1;
    const starts = startsIn(table, { first: firstBlock, end: endBlock });
    const words = this.#memory(starts.at(-1) ?? 0);
    const bytes = new Uint8Array(words.buffer, 0, words.byteLength);
    const isChecked = new Uint8Array(endBlock - firstBlock);
    const held: Held = {
      ...{ firstBlock, endBlock, starts, words, bytes, isChecked, isThere: false },
      read: this.#blocks.read(bytes, { first: firstBlock, end: endBlock }).then(
        (read) => {
          bytes.fill(0, read); // Missing bytes fail their block's checksum.
          if (this.#blocks.isChecked === true && read === bytes.length) isChecked.fill(1);
          held.isThere = true;
        },
        (error: unknown) => error ?? new Error("The disk gave no reason"),
      ),
    };
    return held;
  }

  #memory(words: number): Int32Array {
    const fits = this.#free.findIndex(({ byteLength }) => byteLength >= 4 * words);
    const [found] = fits < 0 ? [] : this.#free.splice(fits, 1);
    if (found === undefined) this.#free.length = 0; // All are too small now.
    return new Int32Array(found ?? new ArrayBuffer(4 * words), 0, words);
  }

  #drop({ words, isThere }: Held): void {
    if (isThere) this.#free.push(words.buffer as ArrayBuffer); // H2
  }
}

function keyOf({ first, end }: SampleRange): string {
  return `${first} ${end}`;
}
