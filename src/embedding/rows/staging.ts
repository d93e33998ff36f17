// Prefetch staging: brings a batch's rows into device memory before its step needs them. A batch is
// staged at its step, or some batches ahead while an earlier batch computes. Its rows then keep
// their slots until the batch is done (the window of Bagpipe, Agarwal et al., SOSP 2023).

import type { Bags, Kernels, RowSums } from "../../kernels/contract/kernels.ts";
import { createPlacedMemory } from "../../kernels/contract/row-cache.ts";
import type { BackingStore } from "./backing-store.ts";
import {
  arriveRows,
  type CachedShard,
  changedPlaces,
  countArrived,
  emptySpares,
  makeRoom,
  noteArrived,
  releaseRows,
  type StagedRows,
  sendDown,
  stageRows,
} from "./cached-shard.ts";
import { recordRowsMax } from "./records-in-memory.ts";

/** Bags with a slot in device memory for each row. */
export interface StagedBags extends Bags {
  /** Present where shards are cached. */
  readonly flight?: Flight;
}

/** Memory of a batch in flight, reused by later batches. */
export interface Flight {
  /** One for each cached shard. */
  readonly staged: StagedRows[];
  /** Grow-only: ids of the bags; for cached shards, slots. */
  ids: Int32Array;
}

export interface Staging {
  readonly cached: readonly CachedShard[];
  /** Returns the bags with slots instead of rows, and requests the missing rows. */
  stage(bags: Bags): Promise<StagedBags>;
  /** Resolves when the rows of the oldest staged batch are in their slots. */
  arrive(bags: StagedBags): Promise<void>;
  /** Unpins the rows of a finished batch, and writes rows in spare slots to the backing store. */
  release(bags: StagedBags): Promise<void>;
  /** Writes all changed rows to the backing store. Only when no batch is in flight. */
  flush(): Promise<void>;
}

/** `onMoved` is called when rows of cached shards have got new memory. */
export function createStaging(
  kernels: Kernels,
  cached: readonly CachedShard[],
  backing: BackingStore,
  onMoved: () => void,
): Staging {
  const free: Flight[] = [];
  let tick = 0;
  const stagedOf = ({ staged }: Flight, i: number): StagedRows => {
    const own = staged[i];
    if (own === undefined) throw new RangeError(`The flight has no cached shard ${i}`);
    return own;
  };
  return {
    cached,

    async stage(bags) {
      tick++;
      const flight: Flight = free.pop() ?? { staged: [], ids: new Int32Array(0) };
      const { samples, offsets } = bags;
      const from = bags.ids as Int32Array;
      if (flight.ids.length < from.length) {
        flight.ids = new Int32Array(from.length + (from.length >> 1));
      }
      const ids = flight.ids.subarray(0, from.length);
      ids.set(from);
      const idsOf = ({ at: { first, count } }: CachedShard): [number, number] => {
        return [offsets[first * samples] ?? 0, offsets[(first + count) * samples] ?? 0];
      };
      let hasMoved = false;
      for (const one of cached) {
        const [first, end] = idsOf(one);
        if (makeRoom(kernels, one, end - first)) hasMoved = true;
      }
      if (hasMoved) onMoved();
      await backing.open();
      for (const [i, one] of cached.entries()) {
        const [first, end] = idsOf(one);
        const batch = { places: ids.subarray(first, end), ids: from.subarray(first, end), tick };
        const memory = flight.staged[i]?.memory ?? createPlacedMemory();
        flight.staged[i] = await stageRows(kernels, one, backing, batch, memory);
      }
      backing.post();
      return { ...bags, ids, flight };
    },

    async arrive({ flight }) {
      if (flight === undefined) return;
      const waiting = cached.flatMap((one, i) => {
        const { placed } = stagedOf(flight, i);
        return placed.missed.length > 0 ? [{ one, placed }] : [];
      });
      const count = () => {
        for (const [i, one] of cached.entries()) countArrived(one, stagedOf(flight, i).placed);
      };
      if (waiting.length === 0) return count();
      const answer = await backing.answer("isOfBatch");
      count();
      for (const [i, { one, placed }] of waiting.entries()) {
        const found = answer[i];
        if (found === undefined) throw new RangeError(`No answer for shard ${one.shard.shard}`);
        arriveRows(kernels, one, placed, found);
        noteArrived(kernels, one, placed, found);
      }
      backing.close();
    },

    async release({ flight }) {
      if (flight === undefined) return;
      const leaving = cached.flatMap((one, i) => {
        const spares = releaseRows(kernels, one, stagedOf(flight, i));
        return spares.length > 0 ? [{ one, spares: spares.slice() }] : [];
      });
      free.push(flight);
      if (leaving.length === 0) return;
      await backing.open();
      for (const { one, spares } of leaving) await emptySpares(kernels, one, backing, spares);
      backing.post();
    },

    async flush() {
      for (const one of cached) {
        const places = changedPlaces(one);
        for (let first = 0; first < places.length; first += recordRowsMax) {
          const some = places.subarray(first, first + recordRowsMax);
          await backing.open();
          await sendDown(kernels, one, backing, some);
          backing.post();
        }
      }
    },
  };
}

// The order of sums over a batch's rows: by slot in kernels, by row in the exchange ----

/**
 * The permutation from slots to ascending rows, for the distinct rows of a batch. Kernels order
 * rows by slot; devices exchange them in ascending order.
 */
export function rowOrderOf({ cache }: CachedShard, { placed }: StagedRows): Int32Array {
  const places = placed.placed.slice().sort();
  const byRow = Int32Array.from(places.keys()).sort((a, b) => {
    return (cache.rowOf[places[a] ?? 0] ?? 0) - (cache.rowOf[places[b] ?? 0] ?? 0);
  });
  const order = new Int32Array(places.length);
  for (const [at, i] of byRow.entries()) order[i] = at;
  return order;
}

/** Reorders sums (n, width) from slot order to ascending rows. */
export function byRows<S extends Float32Array | Float64Array>(sums: S, order: Int32Array): S {
  const width = order.length === 0 ? 0 : sums.length / order.length;
  const out = sums.slice() as S;
  for (const [i, at] of order.entries()) {
    out.set(sums.subarray(i * width, (i + 1) * width), at * width);
  }
  return out;
}

/** Reorders completed sums from ascending rows to slot order. */
export function byPlaces({ means, trust }: RowSums, order: Int32Array): RowSums {
  const pick = (values: Float32Array | undefined) =>
    values && Float32Array.from(order, (at) => values[at] ?? 0);
  return { means: pick(means), trust: pick(trust) };
}
