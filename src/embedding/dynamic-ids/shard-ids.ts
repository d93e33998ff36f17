// The ids of one shard of a table with dynamic ids, on the device that has its rows. Ids are kept
// by row block, so that every plan, which places whole blocks, gives the same table.

import { mix64Low } from "../../data/murmur-hash.ts";
import { FrameCorruptError } from "../../errors/errors.ts";
import { type Key, purposes } from "../../ports/random.ts";
import type { DynamicSpec } from "../tables/dynamic-options.ts";
import type { TableSpec } from "../tables/options.ts";
import { blockRowsOf, extentOf, type Shard } from "../tables/shards.ts";
import { IdBlock, type IdCounts } from "./id-block.ts";

/**
 * The row of an id, relative to the shard's first row; -1: the id has none.
 * @throws FrameCorruptError where the id belongs to a block of another shard
 */
export type FindRow = (low: number, high: number) => number;

/** The row block of an id with `mix64Low` equal to `hash`. `rowBlocks` is a power of two. */
export function blockOf(hash: number, rowBlocks: number): number {
  return hash & (rowBlocks - 1);
}

export class ShardIds {
  readonly shard: Shard;
  /** The blocks of the shard, in order. */
  readonly blocks: readonly IdBlock[];
  readonly counts: IdCounts = { admitted: 0, evicted: 0, dropped: 0 };
  readonly #rowBlocks: number;
  readonly #blockRows: number;

  constructor(shard: Shard, spec: TableSpec, dynamic: DynamicSpec, key: Key) {
    this.shard = shard;
    this.#rowBlocks = spec.rowBlocks;
    this.#blockRows = blockRowsOf(spec);
    const purpose = purposes.admission + shard.table;
    this.blocks = Array.from({ length: shard.blocks }, (_, i) => {
      const block = shard.firstBlock + i;
      const rowsMax = extentOf(spec, { ...shard, firstBlock: block, blocks: 1 }).rows;
      return new IdBlock({
        rowsMax,
        spec: dynamic,
        draw: { key, purpose, block },
        counts: this.counts,
      });
    });
  }

  /** Number of rows that have an id. */
  get size(): number {
    return this.blocks.reduce((sum, { rows }) => sum + rows.size, 0);
  }

  /** Whether an id has this row of the table. */
  hasRow(row: number): boolean {
    const own = row - this.shard.firstRow;
    const block = Math.floor(own / this.#blockRows);
    return this.blocks[block]?.rows.isUsed(own - block * this.#blockRows) === true;
  }

  /** For the ids of a step's batch, in the order of its samples: finds rows and admits new ids. */
  admitting(step: number): FindRow {
    for (const block of this.blocks) block.begin(step);
    return this.#admit;
  }

  /** For evaluation: finds rows without admitting or counting ids. */
  get reading(): FindRow {
    return this.#find;
  }

  readonly #admit: FindRow = (low, high) => {
    const hash = mix64Low(low, high);
    const at = blockOf(hash, this.#rowBlocks) - this.shard.firstBlock;
    const row = this.#blockAt(at).admit(low, high, hash);
    return row < 0 ? -1 : at * this.#blockRows + row;
  };

  readonly #find: FindRow = (low, high) => {
    const hash = mix64Low(low, high);
    const at = blockOf(hash, this.#rowBlocks) - this.shard.firstBlock;
    const row = this.#blockAt(at).rows.find(low, high, hash);
    return row < 0 ? -1 : at * this.#blockRows + row;
  };

  #blockAt(at: number): IdBlock {
    const block = this.blocks[at];
    if (block !== undefined) return block;
    const { firstBlock, blocks } = this.shard;
    const has = `a shard that has ${firstBlock}..${firstBlock + blocks - 1}`;
    throw new FrameCorruptError("ids", `an id of row block ${firstBlock + at} for ${has}`);
  }

  /**
   * Runs the eviction step before step `step`. Returns the shard's rows that lost their ids,
   * ascending. The caller must reinitialise them.
   */
  evict(step: number): Int32Array {
    const rows = this.blocks.map((block, i) => {
      return block.evict(step).map((row) => i * this.#blockRows + row);
    });
    const all = new Int32Array(rows.reduce((sum, own) => sum + own.length, 0));
    let next = 0;
    for (const own of rows) {
      all.set(own, next);
      next += own.length;
    }
    return all;
  }
}

/** The fields of a table that decide when it evicts. */
interface EvictingTable {
  readonly dynamic?: DynamicSpec | undefined;
}

/** Whether a table evicts ids before step `step` looks up any id. */
export function isEvictionStep({ dynamic }: EvictingTable, step: number): boolean {
  return dynamic !== undefined && step > 0 && step % dynamic.everySteps === 0;
}

/** The first step after `step` at which a table evicts ids. */
export function nextEvictionStep(tables: readonly EvictingTable[], step: number): number {
  return tables.reduce((next, { dynamic }) => {
    if (dynamic === undefined) return next;
    const { everySteps } = dynamic;
    return Math.min(next, (Math.floor(step / everySteps) + 1) * everySteps);
  }, Number.POSITIVE_INFINITY);
}
