// The rows of a trainer's device: a slab whose rows are stored on the sparse servers. Staging a
// batch pulls its distinct rows into the batch's own memory, which the lookup reads; the update
// pushes the sum of each row's gradients. So a step computes as with local rows, except that rows
// may change on the servers between pull and update.

import { firstColumnsOf, type Run, runsOf } from "../embedding/rows/lookup-runs.ts";
import type { Slab, SlabShard } from "../embedding/rows/slab.ts";
import type { StagedBags } from "../embedding/rows/staging.ts";
import type { OptimizerStep } from "../embedding/tables/row-rule.ts";
import type { Shard } from "../embedding/tables/shards.ts";
import { type Bags, bagsFrom, type Kernels, type Rows } from "../kernels/contract/kernels.ts";
import { finishedSubtrees } from "../kernels/contract/slices.ts";
import { lowerBound } from "../ports/lower-bound.ts";
import type { SparseClient } from "./clients.ts";
import type { ShardRows, ShardVectors } from "./parameter-servers.ts";
import { rowsByShard } from "./row-shards.ts";
import { scratchOf } from "./sparse-server.ts";

/** A slab over sparse servers. */
export interface RemoteRows extends Slab {
  /** Sets the number of the push, and the step, of the next update. */
  next(number: number, at: OptimizerStep): void;
}

export interface RemoteRowsOptions {
  readonly kernels: Kernels;
  readonly client: SparseClient;
  /** The trainer's view of the tables: each is one shard with all rows. */
  readonly held: readonly SlabShard[];
  /** The shards of the tables on the servers. */
  readonly shards: readonly Shard[];
  /**
   * Maximum of batches whose gradients the servers have not confirmed yet. At the maximum, the next
   * step of the trainer waits for a confirmation.
   */
  readonly pushesMax: number;
}

/** Memory of a batch in flight; later batches use it again. */
interface Flight {
  /** Memory for the pulled rows of each table. */
  rows: readonly Rows[];
  lookedUp: readonly Rows[];
  rowsAt: (of: Run) => readonly Rows[];
  ids: Int32Array;
  /** Distinct rows of each table, ascending. */
  distinct: readonly Int32Array[];
  arrived: Promise<void>;
}

export function createRemoteRows(options: RemoteRowsOptions): RemoteRows {
  const { kernels, client, held, pushesMax } = options;
  const byTable = new Map<number, Shard[]>();
  for (const shard of options.shards) {
    byTable.set(shard.table, [...(byTable.get(shard.table) ?? []), shard]);
  }
  const serversOf = ({ table }: Shard) => byTable.get(table) ?? [];
  /** The index of the first lookup of each table. */
  const firsts: number[] = [];
  let lookups = 0;
  for (const { lookups: own } of held) {
    firsts.push(lookups);
    lookups += own.length;
  }
  const free: Flight[] = [];
  const flights = new WeakMap<Bags, Flight>();
  const flightOf = (bags: Bags): Flight => {
    const flight = flights.get(bags);
    if (flight === undefined) throw new RangeError("The bags were not staged");
    return flight;
  };
  const [sums, touched] = [scratchOf(kernels), scratchOf(kernels)];
  let push: { readonly number: number; readonly at: OptimizerStep } | undefined;

  /** Enlarges the memory of a flight to these numbers of rows. */
  const makeRoom = (flight: Flight, counts: readonly number[]): void => {
    if (held.every((_, i) => (flight.rows[i]?.rows ?? 0) >= (counts[i] ?? 0))) return;
    flight.rows = held.map(({ columns: dim }, i) => {
      const known = flight.rows[i];
      const rows = counts[i] ?? 0;
      if (known !== undefined && known.rows >= rows) return known;
      const size = { rows: Math.ceil(1.25 * rows), dim, stateWidth: 0 };
      return kernels.rows({ ...size, pooling: "sum", rowBlocks: 1 });
    });
    flight.lookedUp = held.flatMap((shard, i) =>
      shard.lookups.map(({ pooling }) => ({ ...(flight.rows[i] as Rows), pooling })),
    );
    flight.rowsAt = runsOf(flight.lookedUp);
  };

  const pull = async (flight: Flight): Promise<void> => {
    const wanted: (ShardRows & { readonly at: number; readonly of: Rows })[] = [];
    for (const [i, shard] of held.entries()) {
      const of = flight.rows[i] as Rows;
      for (const own of rowsByShard(serversOf(shard), flight.distinct[i] as Int32Array)) {
        wanted.push({ ...own, of });
      }
    }
    await client.pull(wanted, ({ of, at }, first, vectors) => {
      kernels.writeRows(of, at + first, vectors);
    });
  };

  const refuse = (what: string) => (): never => {
    throw new RangeError(`Rows on parameter servers have no ${what} here`);
  };
  const columnOf = firstColumnsOf(
    held.flatMap(({ columns: dim, lookups: own }) => own.map(() => ({ dim }) as Rows)),
  );
  return {
    shards: held,
    columns: held.reduce((sum, { columns, lookups: own }) => sum + columns * own.length, 0),
    next(number, at) {
      push = { number, at };
    },
    async stage(bags) {
      const flight = free.pop() ?? {
        ...{ rows: [], lookedUp: [], rowsAt: runsOf([]), ids: new Int32Array(0) },
        ...{ distinct: [], arrived: Promise.resolve() },
      };
      if (flight.ids.length < bags.ids.length) {
        flight.ids = new Int32Array(Math.ceil(1.25 * bags.ids.length));
      }
      const ids = bags.ids as Int32Array;
      flight.distinct = held.map((shard, i) => {
        const first = bags.offsets[(firsts[i] ?? 0) * bags.samples] ?? 0;
        const last = (firsts[i] ?? 0) + shard.lookups.length;
        const end = bags.offsets[last * bags.samples] ?? 0;
        return numbered(ids.subarray(first, end), flight.ids.subarray(first, end));
      });
      makeRoom(
        flight,
        flight.distinct.map(({ length }) => length),
      );
      flight.arrived = pull(flight);
      flight.arrived.catch(() => {}); // `arrive` throws the error.
      const staged: StagedBags = { ...bags, ids: flight.ids.subarray(0, ids.length) };
      flights.set(staged, flight);
      return staged;
    },
    arrive: async (bags) => flightOf(bags).arrived,
    async release(bags) {
      free.push(flightOf(bags));
      flights.delete(bags);
      await client.settled(Math.max(0, pushesMax - 1));
    },
    lookup(out, bags, first, count, of = { first: 0, count: lookups }, average) {
      const tables = flightOf(bags).rowsAt(of);
      kernels.pool(out, tables, bagsFrom(bags, of.first, of.count), first, count, average);
    },
    update(bags, dPooled, slices) {
      if (push === undefined) throw new RangeError("No push is announced");
      const flight = flightOf(bags);
      const trees = finishedSubtrees(slices).length;
      if (trees !== 1) throw new RangeError(`A batch has ${trees} sums of gradients, expected one`);
      const gradients: ShardVectors[] = [];
      for (const [i, shard] of held.entries()) {
        const { columns, lookups: own } = shard;
        const run = { first: firsts[i] ?? 0, count: own.length };
        const distinct = flight.distinct[i] as Int32Array;
        if (distinct.length === 0) continue;
        const { rows } = flight.rows[i] as Rows;
        const dRows = sums([rows, columns]);
        const counts = kernels.reshape(touched([rows, 1]), [rows]);
        const ownBags = bagsFrom(bags, run.first, run.count);
        const tables = flight.rowsAt(run);
        const column = columnOf[run.first] ?? 0;
        kernels.dRows([dRows], [counts], tables, ownBags, dPooled, column, slices);
        const all = kernels.read(kernels.part(dRows, 0, distinct.length));
        for (const { at, ...one } of rowsByShard(serversOf(shard), distinct)) {
          const vectors = all.subarray(at * columns, (at + one.rows.length) * columns);
          gradients.push({ ...one, vectors });
        }
      }
      client.push(push.number, push.at, gradients);
      push = undefined;
      return -1; // The servers check whether rows are finite.
    },
    rowsOf: [],
    lookedUp: [],
    cached: [],
    isKept: false,
    lookupAt: refuse("early reads"),
    collidingBags: refuse("early reads"),
    gradients: refuse("copies"),
    changing: refuse("copies"),
    squares: refuse("columns on several devices"),
    norms: refuse("columns on several devices"),
    evict: refuse("evictions"),
    records: refuse("records"),
    cut: refuse("cuts"),
    leaves: refuse("cuts"),
    restore: refuse("restores"),
    resume: refuse("restores"),
  };
}

/** The distinct values of `ids`, ascending; `places` receives the index of each id in them. */
function numbered(ids: Int32Array, places: Int32Array): Int32Array {
  const sorted = ids.slice().sort();
  let count = 0;
  for (let i = 0; i < sorted.length; i++) {
    if (i === 0 || sorted[i] !== sorted[count - 1]) sorted[count++] = sorted[i] ?? 0;
  }
  const distinct = sorted.slice(0, count);
  for (let i = 0; i < ids.length; i++) places[i] = lowerBound(distinct, ids[i] ?? 0);
  return distinct;
}
