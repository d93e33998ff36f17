// Report of a tier: for the cached tables of one device, which rows lie in its memory (HBM), in
// host memory (DDR) and on disk (SSD), and the hit rates. Read from shared memory when the cluster
// is inspected; no extra state is kept for it.

import { columnWords, readColumn } from "../../src/training/meters/tier-column.ts";
import { cacheDemandsOf } from "../../src/training/topology/device-cache-sizes.ts";
import { tierRequests } from "../../storage/tiers/ring.ts";
import type { MessageEvent } from "../runtime/mailbox.ts";
import { type Generation, readCells } from "../threads/generation-memory.ts";

/** Status of a tier, which its host generation includes in each heartbeat. */
export type TierStatus = MessageEvent<"host.progress">["body"]["tiers"][number];

/** Counters of a cache of rows. */
export interface CacheReport {
  /** Capacity in slots and bytes, and rows held. */
  readonly slots: number;
  readonly bytes: number;
  readonly rows: number;
  /** Rows requested so far, hits, and the hit rate; 1 where nothing was requested. */
  readonly requested: number;
  readonly hits: number;
  readonly hitRate: number;
  readonly evicted: number;
}

/** The tiers of one table on one device, summed over its shards. */
export interface TableColumn {
  readonly table: string;
  /** All rows, and bytes of a record, the unit that moves between tiers. */
  readonly rows: number;
  readonly recordBytes: number;
  /** `conflicts`: rows that found no free way in their set. */
  readonly hbm: CacheReport & { readonly conflicts: number };
  /** `dirty`: rows with changes that are not on disk. Null: host memory is not used. */
  readonly ddr: (CacheReport & { readonly dirty: number }) | null;
  /** Rows with a record on disk; rows read and written so far. */
  readonly ssd: {
    readonly rows: number;
    readonly bytes: number;
    readonly read: number;
    readonly written: number;
  };
}

export interface TierReport extends Omit<TierStatus, "state"> {
  /** `tier:1`: the tier of device 1. */
  readonly actor: string;
  readonly run: string;
  readonly generation: number;
  readonly state: TierStatus["state"] | "opening";
  /** Number of batches whose rows are prefetched ahead of their step. */
  readonly prefetch: number;
  /** Pending requests of the device to the tier's thread, and their limit. */
  readonly requests: number;
  readonly requestsMax: number;
  readonly tables: readonly TableColumn[];
}

/** Makes the report of a tier in this state. */
export function reportTier(
  { generation, device, status }: { generation: Generation; device: number; status: TierStatus },
  state: TierReport["state"],
): TierReport {
  const { spec, layout } = generation;
  const { run, job } = spec;
  return {
    ...status,
    actor: `tier:${device}`,
    run,
    generation: spec.generation,
    state,
    prefetch: job.tiers.prefetch,
    requests: tierRequests(readCells(generation), layout.tierCellBase(device)),
    requestsMax: layout.tierRings[device]?.slots ?? 0,
    tables: tablesOf(generation, device),
  };
}

/** Reads how many rows of a cached shard are in the memory of its device. */
export function cachedRowsOf(generation: Generation, device: number): (shard: number) => number {
  const { layout, memory } = generation;
  const ring = layout.tierRings[device]?.shards ?? [];
  const places = new Map(ring.map(({ shard }, at) => [shard, at]));
  const words = new Float64Array(memory.columns[device] ?? new SharedArrayBuffer(0));
  return (shard) => {
    const at = places.get(shard);
    return at === undefined || words.length === 0 ? 0 : readColumn(words, at).resident;
  };
}

function tablesOf({ spec, layout, memory }: Generation, device: number): TableColumn[] {
  const words = new Float64Array(memory.columns[device] ?? new SharedArrayBuffer(0));
  const ring = layout.tierRings[device]?.shards ?? [];
  if (words.length < columnWords * ring.length) return [];
  const demands = cacheDemandsOf(layout.topology, device, spec.job.optimizer.sparse);
  const byTable = new Map<string, TableColumn>();
  for (const [at, { shard, placeBytes }] of demands.entries()) {
    const { recordBytes = 0 } = ring[at] ?? {};
    const of = readColumn(words, at);
    const hits = of.needed - of.missed;
    const hbm = {
      ...cacheOf(of.slots, placeBytes, of.resident, of.needed, hits, of.evicted),
      conflicts: of.conflicts,
    };
    const [ddrSlots, ddrRows] = [of.ddrSlots, of.ddrResident];
    const ddr = {
      ...cacheOf(ddrSlots, recordBytes, ddrRows, of.ddrRequested, of.ddrHits, of.ddrEvicted),
      dirty: of.ddrDirty,
    };
    const bytes = of.ssdRows * recordBytes;
    const ssd = { rows: of.ssdRows, bytes, read: of.ssdRead, written: of.ssdWritten };
    const own = {
      table: shard.name,
      rows: shard.rows,
      recordBytes,
      hbm,
      ddr: ddrSlots ? ddr : null,
      ssd,
    };
    const known = byTable.get(shard.name);
    byTable.set(shard.name, known === undefined ? own : sumOf(known, own));
  }
  return [...byTable.values()];
}

function cacheOf(
  slots: number,
  slotBytes: number,
  rows: number,
  requested: number,
  hits: number,
  evicted: number,
): CacheReport {
  const hitRate = requested === 0 ? 1 : hits / requested;
  return { slots, bytes: slots * slotBytes, rows, requested, hits, hitRate, evicted };
}

/** Adds up two shards of one table. */
function sumOf(a: TableColumn, b: TableColumn): TableColumn {
  const ddr = a.ddr && b.ddr && withRate(added(a.ddr, b.ddr));
  return {
    ...{ table: a.table, recordBytes: a.recordBytes, rows: a.rows + b.rows },
    ...{ hbm: withRate(added(a.hbm, b.hbm)), ddr, ssd: added(a.ssd, b.ssd) },
  };
}

function added<T extends object>(a: T, b: T): T {
  const entries = Object.entries(a).map(([name, value]) => [name, value + b[name as keyof T]]);
  return Object.fromEntries(entries) as T;
}

function withRate<T extends CacheReport>(cache: T): T {
  return { ...cache, hitRate: cache.requested === 0 ? 1 : cache.hits / cache.requested };
}
