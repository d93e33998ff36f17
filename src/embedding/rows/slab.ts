// The slab: a row store in device memory. It has all rows of a shard, or, for a cached shard, the
// rows that the next batches need; the other rows are in the backing store. If all rows are in
// memory, they have their initial values from the start, and `touched` marks the rows that count as
// initialised.

import assert from "node:assert/strict";
import {
  type Bags,
  bagsFrom,
  type Pooling,
  quantumColumns,
  type RowOrder,
  type RowRule,
  type RowSums,
  type Rows,
  type StateShape,
  type Tensor,
} from "../../kernels/contract/kernels.ts";
import type { Slices } from "../../kernels/contract/slices.ts";
import { rowStateOf } from "../tables/row-state.ts";
import type { Shard } from "../tables/shards.ts";
import { backingRecords, cutBacking, restoreBacking } from "./backing-records.ts";
import type { BackingStore } from "./backing-store.ts";
import type { CacheShape } from "./cache-sizes.ts";
import { type CachedShard, createCachedShard } from "./cached-shard.ts";
import { cutInMemory, marks, resumeInMemory, savedLeaves } from "./changed-rows.ts";
import { evictFromBacking, evictInMemory } from "./evict-rows.ts";
import { firstColumnsOf, joined, type Run, runsOf } from "./lookup-runs.ts";
import { recordsOf, restoreRecords } from "./records-in-memory.ts";
import type { RowStore } from "./row-store.ts";
import {
  birthOf,
  type RowsInMemory,
  type RowsOptions,
  rowsInMemory,
  savedOf,
  specOf,
  tileOf,
} from "./shard-rows.ts";
import { byPlaces, byRows, createStaging, rowOrderOf, type StagedBags } from "./staging.ts";

/** A shard of a slab, with the pooling of each of its lookups. */
export interface SlabShard extends Shard {
  readonly lookups: readonly { readonly pooling: Pooling }[];
}

/** A row store whose rows kernels can access directly. */
export interface Slab extends RowStore {
  /** The rows of each shard. */
  readonly rowsOf: readonly Rows[];
  /** The rows of each lookup, with its pooling. Lookups of one shard are adjacent. */
  readonly lookedUp: readonly Rows[];
  /** The cached shards. */
  readonly cached: readonly CachedShard[];
  /** `lookup` of some samples of a range of lookups, as `Kernels.poolAt`. */
  lookupAt(out: Tensor, bags: StagedBags, of: Run, places: Int32Array): void;
  /**
   * The bags of a range of whole shards' lookups with a row that `current` has too, as
   * `Kernels.collidingBags`. Both batches are staged, and none of them is released.
   */
  collidingBags(out: Int32Array, next: StagedBags, current: StagedBags, of: Run): number;
  /** Gradients of the rows of the shard at `place` in memory, as `Kernels.dRows`. */
  gradients(
    place: number,
    dRows: readonly Tensor[],
    counts: readonly Tensor[],
    bags: Bags,
    dPooled: Tensor,
    slices: Slices,
  ): void;
  /**
   * Called before rows of the shard at `place` in memory change other than by `update` or `evict`;
   * rows are relative to its first.
   */
  changing(place: number, rows: Int32Array): void;
  /** Whether a row keeper logs these changes. */
  readonly isKept: boolean;
}

/** Dependencies of a slab with cached shards. */
export interface SlabTiers {
  readonly backing: BackingStore;
  /** The size of a shard's cache in device memory. */
  shapeOf(shard: Shard): CacheShape;
}

/** A shard and its rows in memory. */
interface Held extends RowsInMemory {
  readonly shard: SlabShard;
  /** Index of its first lookup among those of the slab. */
  readonly first: number;
  readonly state: StateShape;
  readonly cached: CachedShard | undefined;
}

export interface SlabOptions extends RowsOptions {
  readonly shards: readonly SlabShard[];
  readonly tiers?: SlabTiers | undefined;
}

/** Allocates and initialises the given shards of a job's tables. */
export function createSlab(options: SlabOptions): Slab {
  const { kernels, shards } = options;
  const held = hold(options);
  let views = viewsOf(options, held);
  const columns = views.lookedUp.reduce((sum, rows) => sum + rows.dim, 0);
  const cached = held.flatMap((one) => one.cached ?? []);
  const store = options.tiers?.backing;
  const onMoved = () => {
    views = viewsOf(options, held);
  };
  const staging =
    store && cached.length > 0 ? createStaging(kernels, cached, store, onMoved) : undefined;
  const at = (place: number) => {
    const found = held[place];
    if (found === undefined) throw new RangeError(`The slab has no shard at ${place}`);
    return found;
  };
  const cachedAt = new Map(cached.map((one, i) => [one, i]));
  const order = (place: number, { flight }: StagedBags) => {
    const one = at(place).cached;
    const staged = one && flight?.staged[cachedAt.get(one) ?? -1];
    return one && staged && rowOrderOf(one, staged);
  };
  const changing = changesOf(options, held);
  const columnOf = firstColumnsOf(views.lookedUp);
  /** The lookups of some shards: a kernel's call costs as much as the lookups that it is given. */
  const lookupsOf = (of: Run, bags: Bags) => {
    const [{ first }, last] = [at(of.first), at(of.first + of.count - 1)];
    const run = { first, count: last.first + last.shard.lookups.length - first };
    return {
      ...{ run, tables: views.rowsAt(run), ownBags: bagsFrom(bags, run.first, run.count) },
      ...{ column: columnOf[first] ?? 0, counts: new Int32Array(run.count) },
    };
  };
  const sorted: RowOrder = { lookups: new Float64Array(0), ids: undefined };
  /** Memory for the order of the lookups of these bags. */
  const orderOf = ({ ids }: Bags): RowOrder => {
    const { length } = ids;
    if (sorted.lookups.length < length) sorted.lookups = new Float64Array(length + (length >> 1));
    sorted.ids = ids;
    return sorted;
  };
  // Equal lists are the same array, as kernels cache data by array.
  const byLookup = <T>(byShard: readonly T[]): readonly T[] => {
    return held.length === views.lookedUp.length ? byShard : repeated(held, byShard);
  };
  const rulesIn = ({ first, count }: Run, rules: readonly RowRule[]): readonly RowRule[] => {
    const all = byLookup(rules);
    return count === all.length ? all : all.slice(first, first + count);
  };
  /** The sums of each shard, of the sums of all, in ascending order of rows. */
  const split = <S extends Float32Array | Float64Array>(
    sums: S,
    of: Run,
    { counts, run }: { readonly counts: Int32Array; readonly run: Run },
    bags: StagedBags,
  ): S[] => {
    let end = 0;
    return held.slice(of.first, of.first + of.count).map(({ first }, i) => {
      const begin = end;
      end += counts[first - run.first] ?? 0;
      return inRows(sums.subarray(begin, end) as S, order(of.first + i, bags));
    });
  };
  return {
    shards,
    columns,
    get rowsOf() {
      return views.rowsOf;
    },
    get lookedUp() {
      return views.lookedUp;
    },
    cached,
    stage: async (bags) => staging?.stage(bags) ?? bags,
    arrive: async (bags) => staging?.arrive(bags),
    release: async (bags) => staging?.release(bags),
    lookup(out, bags, first, count, of = { first: 0, count: views.lookedUp.length }, average) {
      kernels.pool(
        out,
        views.rowsAt(of),
        bagsFrom(bags, of.first, of.count),
        first,
        count,
        average,
      );
    },
    lookupAt(out, bags, of, places) {
      kernels.poolAt(out, views.rowsAt(of), bagsFrom(bags, of.first, of.count), places);
    },
    collidingBags(out, next, current, of) {
      // Ids of bags are rows or slots here; a row that two batches in flight share has one slot.
      const rowsOf = (bags: Bags) => bagsFrom(bags, of.first, of.count) as Bags<Int32Array>;
      return kernels.collidingBags(out, views.rowsAt(of), rowsOf(next), rowsOf(current));
    },
    gradients(place, dRows, counts, bags, dPooled, slices) {
      const { tables, ownBags, column } = lookupsOf({ first: place, count: 1 }, bags);
      kernels.dRows(dRows, counts, tables, ownBags, dPooled, column, slices);
    },
    squares(of, bags, dPooled, slices, rules) {
      const own = lookupsOf(of, bags);
      const { tables, ownBags, column, run, counts } = own;
      const ownRules = rulesIn(run, rules);
      const given = [tables, ownBags, dPooled, column, slices, ownRules] as const;
      return split(kernels.rowSquares(...given, counts, orderOf(bags)), of, own, bags);
    },
    norms(of, bags, dPooled, slices, rules, means) {
      const own = lookupsOf(of, bags);
      const { tables, ownBags, column, run, counts } = own;
      const ownRules = rulesIn(run, rules);
      const known = means?.map((each, i) => {
        const placed = order(of.first + i, bags);
        return (placed ? byPlaces({ means: each }, placed).means : each) ?? new Float32Array(0);
      });
      const given = [tables, ownBags, dPooled, column, slices, ownRules] as const;
      return split(kernels.rowNorms(...given, known && joined(known), counts), of, own, bags);
    },
    update(bags, dPooled, slices, rules, completed) {
      changing.inBags(bags);
      const sums = completed?.map((one, place): RowSums | undefined => {
        const own = one && order(place, bags);
        return own ? byPlaces(one, own) : one;
      });
      const all = [byLookup(rules), sums && byLookup(sums)] as const;
      const known = sums && sorted.ids === bags.ids ? sorted : undefined;
      const bad = kernels.updateRows(views.lookedUp, bags, dPooled, slices, ...all, known);
      sorted.ids = undefined;
      return bad < 0 ? bad : held.findIndex(({ first }) => first === bad);
    },
    async evict(place, rows) {
      const own = at(place);
      changing.of(own, rows);
      await evict(options, own, rows);
    },
    changing: (place, rows) => changing.of(at(place), rows),
    isKept: options.keeper !== undefined,
    async *records(place) {
      const { rows, cached: one } = at(place);
      if (one === undefined || store === undefined) {
        yield* recordsOf(kernels, rows);
        return;
      }
      await staging?.flush();
      yield* backingRecords(kernels, one, store);
    },
    async *cut(place, taken) {
      const { rows, saved, cached: one } = at(place);
      if (one === undefined || store === undefined) {
        yield* cutInMemory(kernels, rows, saved, taken);
        return;
      }
      await staging?.flush();
      yield* cutBacking(kernels, one, store, taken);
    },
    leaves: (place) => savedLeaves(at(place).saved),
    async restore(place, extent, records, isDifferent) {
      const own = at(place);
      const { state } = own;
      const mark = isDifferent ? marks.different : marks.saved;
      const restored = { state, extent, records, isDifferent };
      if (own.cached && store) await restoreBacking(kernels, own.cached, store, restored);
      else restoreRecords(kernels, own, extent, records, mark);
    },
    resume(place) {
      const { rows, saved, cached: one } = at(place);
      if (one === undefined) resumeInMemory(kernels, rows, saved);
    },
  };
}

/** Functions that report to the row keeper which rows are about to change. U1 of undo-log.ts */
function changesOf({ kernels, keeper }: SlabOptions, held: readonly Held[]) {
  const kept = held.flatMap((one) => (one.undone === undefined ? [] : [one]));
  const tiles = kept.flatMap(({ undone }) => undone ?? []);
  const ranges = new Int32Array(2 * tiles.length);
  return {
    /** Reports the rows in these bags. */
    inBags({ ids, offsets, samples }: Bags): void {
      if (tiles.length === 0) return;
      let next = 0;
      for (const { first, shard } of kept) {
        ranges[next++] = offsets[first * samples] ?? 0;
        ranges[next++] = offsets[(first + shard.lookups.length) * samples] ?? 0;
      }
      const rows = ids instanceof Int32Array ? ids : Int32Array.from(ids, Number);
      keeper?.changing(kernels, tiles, rows, ranges);
    },
    /** Reports these rows of a shard. */
    of({ undone }: Held, rows: Int32Array): void {
      if (undone === undefined) return;
      keeper?.changing(kernels, [undone], rows, Int32Array.of(0, rows.length));
    },
  };
}

/** Allocates the rows of all shards. */
function hold(options: SlabOptions): Held[] {
  const state = rowStateOf(options.optimizer);
  let lookups = 0;
  return options.shards.map((shard): Held => {
    const first = lookups;
    lookups += shard.lookups.length;
    if (shard.tier === "memory") {
      return { ...rowsInMemory(options, shard), shard, first, state, cached: undefined };
    }
    const cached = cache(options, shard, first);
    const { rows, saved } = cached;
    return { shard, first, rows, state, saved, cached, undone: undefined };
  });
}

/** The rows of each shard, and of ranges of lookups. Rows of cached shards may get new memory. */
function viewsOf(options: SlabOptions, held: readonly Held[]) {
  const rowsOf = held.map(({ rows, cached }) => cached?.rows ?? rows);
  const lookedUp = lookupsIn(options, held, rowsOf);
  return { rowsOf, lookedUp, rowsAt: runsOf(lookedUp) };
}

/** The rows of each lookup, with the pooling of the lookup. */
function lookupsIn({ specs }: SlabOptions, held: readonly Held[], rowsOf: readonly Rows[]): Rows[] {
  return held.flatMap(({ shard, rows: own }, place) => {
    const rows = rowsOf[place] ?? own;
    const { rowBlocks } = specOf(specs, shard.table);
    return shard.lookups.map(({ pooling }) => ({
      ...rows,
      pooling: poolingOf(pooling, rowBlocks),
    }));
  });
}

/** For each lookup, the value of its shard. */
function repeated<T>(held: readonly Held[], byShard: readonly T[]): T[] {
  return held.flatMap(({ shard }, place) => shard.lookups.map(() => byShard[place] as T));
}

/** Number of column quanta in a row of `dim` columns. */
export function quantaOf(dim: number): number {
  return Math.ceil(dim / quantumColumns);
}

/** Pooling inside a shard: with row blocks always sums, as the tree over blocks computes means. */
export function poolingOf(pooling: Pooling, rowBlocks: number): Pooling {
  return rowBlocks > 1 ? "sum" : pooling;
}

/** Creates the cache of a shard. */
function cache(options: SlabOptions, shard: SlabShard, first: number): CachedShard {
  const { kernels, specs, optimizer, tiers } = options;
  assert(tiers !== undefined, `${shard.name} lies below memory, and the slab has no tiers`);
  assert(shard.blocks === 1, "a cached shard is one row block");
  const spec = specOf(specs, shard.table);
  const tile = { ...tileOf(spec, shard, optimizer), rowBlocks: 1 };
  const birth = birthOf(options, shard);
  const savedFor = (places: number) => savedOf(options, shard, places);
  const shape = tiers.shapeOf(shard);
  const whole = { tableRows: spec.rows, savedFor };
  const at = { first, count: shard.lookups.length };
  return createCachedShard({ kernels, at, shard, tile, birth, shape, ...whole });
}

/** See `RowStore.evict`. */
async function evict(options: SlabOptions, own: Held, rows: Int32Array): Promise<void> {
  const { kernels, tiers } = options;
  if (own.cached && tiers) await evictFromBacking(kernels, own.cached, tiers.backing, rows);
  else evictInMemory(kernels, { ...own, birth: birthOf(options, own.shard) }, rows);
}

function inRows<S extends Float32Array | Float64Array>(sums: S, order: Int32Array | undefined): S {
  return order === undefined ? sums : byRows(sums, order);
}
