// A served table on disk with a cache of its rows in memory: a set-associative cache
// (src/kernels/contract/row-cache.ts) for each row block, with all slots in one buffer.
//
// Invariants
//   T1. Except while `fetch` runs, a slot that the index assigns to a row has the row's values in
//       the serving version. One call at a time fetches, scores and releases (tiered-scoring.ts).
//   T2. If rows cannot be read, their slots are unassigned again.
//   T3. All slots of a row are in the row's block, as a pooled vector is a sum tree over blocks.

import {
  blockRowsOf,
  cacheWays,
  createPlacedMemory,
  findPlace,
  type Kernels,
  type Placed,
  type RowCache,
  type Rows,
} from "../../../internal.ts";
import type { TierShape } from "./choose-tiers.ts";
import { type RowCopies, type RowFile, readRowsMax } from "./row-file.ts";
import { type InitialRows, initialiseRows } from "./row-records.ts";

/** A table on disk, of which only some rows are cached in memory. */
export interface TableOnDisk {
  readonly table: string;
  readonly rows: number;
  /** Most rows in memory. */
  readonly cachedRows: number;
}

/** Cache hits, and misses, which were read from disk or initialised. */
export interface RowCounts {
  readonly hits: number;
  readonly misses: number;
}

/** Slots that are checked in one slice of the thread. */
const sliceSlots = 2 ** 14;

/** A cache's ticks are 32-bit; at this value they are reset. */
const ticksMax = 2 ** 30;

export class TieredTable {
  readonly rows: Rows;
  readonly file: RowFile;
  readonly initial: InitialRows;
  readonly #kernels: Kernels;
  /** For each row block, the map between rows and slots. */
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
    initial: InitialRows,
    { sets, spares }: TierShape,
    file: RowFile,
    stateWidth: number,
  ) {
    const { dim, precision, rowBlocks } = initial.spec;
    this.file = file;
    this.#kernels = kernels;
    this.initial = initial;
    this.#blockRows = blockRowsOf(initial.spec);
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

  /** Most rows that the cache can hold. */
  get capacity(): number {
    return Math.min(this.rows.rows, this.initial.spec.rows);
  }

  get counts(): RowCounts {
    return { hits: this.#hits, misses: this.#misses };
  }

  /** The slot of a fetched row. */
  placeOf(row: number): number {
    const block = Math.floor(row / this.#blockRows);
    const cache = this.indexes[block];
    if (cache === undefined) throw new RangeError(`The table has no row ${row}`);
    return block * this.#slots + findPlace(cache, row - block * this.#blockRows);
  }

  /** Whether all of these rows fit into the cache, whichever sets they map to. */
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
   * Fetches rows into the cache and pins them until `release`. Call it only if `hasRoomFor(rows)`,
   * and call `release` even if it throws. @throws TierReadError, RecordCorruptError
   */
  async fetch(rows: Int32Array, copies: RowCopies): Promise<void> {
    this.#tick++;
    if (this.#tick === ticksMax) this.#beginAnew();
    const waiting: Promise<void>[] = [];
    for (const [block, cache] of this.indexes.entries()) {
      const first = block * this.#blockRows;
      const blockRows = this.indexes.length === 1 ? rows : rowsIn(rows, first, this.#blockRows);
      if (blockRows.length === 0) continue;
      const places = new Int32Array(blockRows.length);
      const memory = this.#memories[block];
      const placed = this.#kernels.placeRows(cache, places, blockRows, this.#tick, memory);
      this.#placed[block] = placed;
      this.#hits += placed.lookups - placed.missed.length;
      this.#misses += placed.missed.length;
      if (placed.missed.length > 0) waiting.push(this.#fill(block, placed, copies));
    }
    if (waiting.length === 0) return;
    const ends = await Promise.allSettled(waiting);
    for (const end of ends) if (end.status === "rejected") throw end.reason;
  }

  /** Unpins the rows of the last `fetch`, and frees the spare slots. */
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
   * Invalidates cached rows that differ between two versions, so that they are read again. Nothing
   * may be fetched while it runs. `breathe` yields the thread.
   */
  async invalidate(
    before: RowCopies,
    after: RowCopies,
    breathe: () => Promise<void>,
  ): Promise<void> {
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

  /** Fills the slots of missing rows, in batches of `readRowsMax`. */
  async #fill(block: number, { missed, missedRows }: Placed, copies: RowCopies): Promise<void> {
    const [firstRow, firstSlot] = [block * this.#blockRows, block * this.#slots];
    const order = Array.from(missed.keys());
    order.sort((one, other) => (missedRows[one] ?? 0) - (missedRows[other] ?? 0));
    const rows = Int32Array.from(order, (i) => firstRow + (missedRows[i] ?? 0));
    const slots = Int32Array.from(order, (i) => firstSlot + (missed[i] ?? 0));
    const isStored = (_: number, i: number) => copies.of(rows[i] ?? 0) >= 0;
    const isInitial = (_: number, i: number) => !isStored(_, i);
    initialiseRows(
      this.#kernels,
      this.rows,
      slots.filter(isInitial),
      rows.filter(isInitial),
      this.initial,
    );
    const [stored, places] = [rows.filter(isStored), slots.filter(isStored)];
    try {
      for (let at = 0; at < stored.length; at += readRowsMax) {
        const records = await this.file.read(stored.subarray(at, at + readRowsMax), copies);
        this.#kernels.scatterRecords(this.rows, places.subarray(at, at + readRowsMax), records);
      }
    } catch (error) {
      const { rowOf, sets = 0 } = this.indexes[block] ?? {};
      // Unassign the slots of sets; spare slots are freed by `release`. T2
      for (const slot of missed) if (rowOf && slot < sets * cacheWays) rowOf[slot] = -1;
      throw error;
    }
  }

  /** Resets the ticks, so that all rows count as equally recently used. It happens very rarely. */
  #beginAnew(): void {
    this.#tick = 1;
    for (const { stamps, head } of this.indexes) {
      stamps.fill(0);
      head[1] = 0;
    }
  }
}

/** The rows that are in a block, relative to its first row. */
function rowsIn(rows: Int32Array, first: number, count: number): Int32Array {
  return rows.filter((row) => row >= first && row < first + count).map((row) => row - first);
}
