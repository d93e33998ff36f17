// A served table whose rows lie on disk, and some of them in memory: in a set-associative cache
// (src/kernels/contract/row-cache.ts) for each row block; all slots lie side by side in one memory.
//
// Invariants
//   T1. A slot that the index gives to a row has the row's values of the version that serves, but
//       while `fetch` runs. One call at a time fetches, scores and releases (tiered-scoring.ts).
//   T2. Where rows cannot be read, their slots have no row again.
//   T3. All slots of a row lie in the row's block: a pooled vector is a tree over blocks.

import { blockRowsOf } from "../../src/embedding/tables/shards.ts";
import type { Kernels, Rows } from "../../src/kernels/contract/kernels.ts";
import {
  cacheWays,
  createPlacedMemory,
  findPlace,
  type Placed,
  type RowCache,
} from "../../src/kernels/contract/row-cache.ts";
import { bear, type RowBirth } from "./born-rows.ts";
import type { TierShape } from "./choose-tiers.ts";
import { type RowCopies, type RowFile, readRowsMax } from "./row-file.ts";

/** Rows that were looked up in memory, and rows that were read from disk for it. */
export interface RowCounts {
  readonly hits: number;
  readonly misses: number;
}

/** Slots that are looked at in one slice of the thread. */
const sliceSlots = 2 ** 14;

/** A cache's ticks are 32-bit: from here on they begin anew. */
const ticksMax = 2 ** 30;

export class TieredTable {
  readonly rows: Rows;
  readonly file: RowFile;
  readonly birth: RowBirth;
  readonly #kernels: Kernels;
  /** Of each row block, which row lies in which slot. */
  readonly indexes: readonly RowCache[];
  readonly #memories;
  readonly #blockRows: number;
  /** Slots of a block. */
  readonly #slots: number;
  readonly #spares: number;
  #tick = 0;
  #placed: (Placed | undefined)[];
  #hits = 0;
  #misses = 0;

  /** `stateWidth`: state floats that predictions read. */
  constructor(
    kernels: Kernels,
    birth: RowBirth,
    { sets, spares }: TierShape,
    file: RowFile,
    stateWidth: number,
  ) {
    const { dim, precision, rowBlocks } = birth.spec;
    this.file = file;
    this.#kernels = kernels;
    this.birth = birth;
    this.#blockRows = blockRowsOf(birth.spec);
    this.#spares = spares;
    const shape = { policy: "lru" as const, sets, spares, rows: this.#blockRows };
    this.indexes = Array.from({ length: rowBlocks }, () => kernels.rowCache(shape));
    this.#memories = this.indexes.map(createPlacedMemory);
    this.#placed = this.indexes.map(() => undefined);
    this.#slots = sets * cacheWays + spares;
    this.rows = kernels.rows({
      ...{ dim, precision, rowBlocks, stateWidth, averaged: stateWidth > 0, pooling: "sum" },
      ...{ rows: rowBlocks * this.#slots, blockRows: this.#slots },
    });
  }

  /** Rows that memory has room for. */
  get capacity(): number {
    return Math.min(this.rows.rows, this.birth.spec.rows);
  }

  get counts(): RowCounts {
    return { hits: this.#hits, misses: this.#misses };
  }

  /** Where a row that was fetched lies. */
  placeOf(row: number): number {
    const block = Math.floor(row / this.#blockRows);
    const cache = this.indexes[block];
    if (cache === undefined) throw new RangeError(`The table has no row ${row}`);
    return block * this.#slots + findPlace(cache, row - block * this.#blockRows);
  }

  /** Whether there is a slot for each of these rows, whichever sets they fall into. */
  hasRoomFor(rows: Int32Array): boolean {
    if (rows.length <= this.#spares) return true;
    const counts = new Int32Array(this.indexes.length);
    for (const row of new Set(rows)) {
      const block = Math.floor(row / this.#blockRows);
      counts[block] = (counts[block] ?? 0) + 1;
    }
    return counts.every((count) => count <= this.#spares);
  }

  /**
   * Brings these rows, for which there is room, into memory: they stay until `release`, which is
   * to be called whatever comes. @throws TierReadError, RecordCorruptError
   */
  async fetch(rows: Int32Array, copies: RowCopies): Promise<void> {
    this.#tick++;
    if (this.#tick === ticksMax) this.#beginAnew();
    const waiting: Promise<void>[] = [];
    for (const [block, cache] of this.indexes.entries()) {
      const first = block * this.#blockRows;
      const own = this.indexes.length === 1 ? rows : rowsIn(rows, first, this.#blockRows);
      if (own.length === 0) continue;
      const places = new Int32Array(own.length);
      const memory = this.#memories[block];
      const placed = this.#kernels.placeRows(cache, places, own, this.#tick, memory);
      this.#placed[block] = placed;
      this.#hits += placed.lookups - placed.missed.length;
      this.#misses += placed.missed.length;
      if (placed.missed.length > 0) waiting.push(this.#fill(block, placed, copies));
    }
    if (waiting.length === 0) return;
    const ends = await Promise.allSettled(waiting);
    for (const end of ends) if (end.status === "rejected") throw end.reason;
  }

  /** The call is done: rows in spare slots leave. */
  release(): void {
    for (const [block, placed] of this.#placed.entries()) {
      const cache = this.indexes[block];
      if (placed === undefined || cache === undefined) continue;
      const spares = this.#kernels.releaseRows(cache, placed.placed);
      this.#kernels.freeSpares(cache, spares);
      this.#placed[block] = undefined;
    }
  }

  /**
   * Forgets the cached rows that another version has otherwise: they are read anew. While it runs,
   * nothing is fetched. `breathe` yields the thread.
   */
  async forget(before: RowCopies, after: RowCopies, breathe: () => Promise<void>): Promise<void> {
    for (const [block, { rowOf }] of this.indexes.entries()) {
      const first = block * this.#blockRows;
      for (let slot = 0; slot < rowOf.length; slot++) {
        const row = first + (rowOf[slot] ?? 0);
        if (row >= first && before.of(row) !== after.of(row)) rowOf[slot] = -1;
        if (slot % sliceSlots === sliceSlots - 1) await breathe();
      }
    }
  }

  close(): void {
    this.file.close();
  }

  /** Fills the slots of missing rows, some rows at a time. */
  async #fill(block: number, { missed, missedRows }: Placed, copies: RowCopies): Promise<void> {
    const [firstRow, firstSlot] = [block * this.#blockRows, block * this.#slots];
    const order = Array.from(missed.keys());
    order.sort((one, other) => (missedRows[one] ?? 0) - (missedRows[other] ?? 0));
    const rows = Int32Array.from(order, (i) => firstRow + (missedRows[i] ?? 0));
    const slots = Int32Array.from(order, (i) => firstSlot + (missed[i] ?? 0));
    const isStored = (_: number, i: number) => copies.of(rows[i] ?? 0) >= 0;
    const isBorn = (_: number, i: number) => !isStored(_, i);
    bear(this.#kernels, this.rows, slots.filter(isBorn), rows.filter(isBorn), this.birth);
    const [stored, places] = [rows.filter(isStored), slots.filter(isStored)];
    try {
      for (let at = 0; at < stored.length; at += readRowsMax) {
        const records = await this.file.read(stored.subarray(at, at + readRowsMax), copies);
        this.#kernels.scatterRecords(this.rows, places.subarray(at, at + readRowsMax), records);
      }
    } catch (error) {
      const { rowOf, sets = 0 } = this.indexes[block] ?? {};
      // Slots of sets are free then; spare ones are freed when they are released. T2
      for (const slot of missed) if (rowOf && slot < sets * cacheWays) rowOf[slot] = -1;
      throw error;
    }
  }

  /** Every row counts as used at one time: once in very many calls. */
  #beginAnew(): void {
    this.#tick = 1;
    for (const { stamps, head } of this.indexes) {
      stamps.fill(0);
      head[1] = 0;
    }
  }
}

/** Those of some rows that lie in a block, counted from its first. */
function rowsIn(rows: Int32Array, first: number, count: number): Int32Array {
  return rows.filter((row) => row >= first && row < first + count).map((row) => row - first);
}
