// Predicts the memory of a device's own thread: layers, the joined bags of its batches, and the
// marks and hashes of its rows. Memory that grows with use is counted as for a usual batch
// (src/data/ids-room.ts).

import { idsRoom } from "../../data/ids-room.ts";
import { cacheShapesOf, spareBytes } from "../../embedding/rows/cache-sizes.ts";
import type { SparseOptimizerSpec, TableSpec } from "../../embedding/tables/options.ts";
import { rowStateWidth } from "../../embedding/tables/row-state.ts";
import { recordBytesOf } from "../../kernels/contract/records.ts";
import { cacheWays } from "../../kernels/contract/row-cache.ts";
import { networkFloats } from "../../model/graph/network.ts";
import { cacheDemandsOf } from "./device-cache-sizes.ts";
import { residualLengths } from "./gradient-trees.ts";
import type { HeldShard } from "./held-shard.ts";
import {
  lookupRoom,
  prefetchOf,
  samplesMaxOf,
  type Topology,
  tableOf,
  tableRoomsOf,
} from "./topology.ts";

/** Arrays that grow with a batch get half as much again. */
const grown = 1.5;
/** Bytes of an id where rows are sorted for their update: keys twice, places, and bags. */
const sortBytes = 8 * grown + 20;
/** Bytes of an id where tables are read ahead: its mark, and its bag among the deferred ones. */
const markBytes = 16 + 4 * grown;
/** Bytes of an id of a cached shard in each batch in flight: its slot, and lists of `Placed`. */
const placedBytes = 4 * grown + 5 * 4 * 1.25;

/**
 * Room for the ids of all lookups that a device pools, in a whole batch. Shards with different rows
 * of a table divide the ids of its lookups.
 */
export function heldIds(topology: Topology, rank: number): number {
  const rooms = new Map<string, number>();
  for (const { lookup, firstColumn } of topology.lookupsBy[rank] ?? []) {
    const key = `${lookup} ${firstColumn}`;
    if (rooms.has(key)) continue;
    rooms.set(key, lookupRoom(topology, lookup, topology.input.batchSize));
  }
  return [...rooms.values()].reduce((sum, ids) => sum + ids, 0);
}

/** Bytes for the ids of the batches that a device holds. */
export function heldIdsBytes(topology: Topology, rank: number): number {
  const { lookupsBy, distinctBy, replicatedLookups, input } = topology;
  const samples = samplesMaxOf(topology)[rank] ?? 0;
  const { batchSize } = input;
  const held = lookupsBy[rank] ?? [];
  const ids = heldIds(topology, rank);
  const lanes = 2 + prefetchOf(topology);
  const joined = lanes * (4 * held.length * batchSize + 2 * 4 * grown * ids);
  const own = idsOfSamples(topology, samples);
  const copies = replicatedLookups.reduce(
    (sum, { lookup }) => sum + lookupRoom(topology, lookup, samples),
    0,
  );
  const replicas = 4 * replicatedLookups.length * samples + 2 * 4 * grown * copies;
  const sent = distinctBy[rank] ?? [];
  const rooms = sent.length === 0 ? [] : tableRoomsOf(topology, batchSize);
  const distinct = sent.reduce((sum, { table, columns }) => {
    return sum + (rooms[table] ?? 0) * (2 * 4 * grown + 2 * 4 * columns * grown);
  }, 0);
  const inFlight = isTiered(topology, rank) ? lanes * placedBytes * ids : 0;
  const marks = topology.reads.isAhead ? markBytes * ids : 0;
  const used = joined + replicas + distinct + inFlight + marks;
  return used + 4 * grown * own + sortBytes * (ids + copies);
}

/** Room for the ids of all features in some samples. */
function idsOfSamples({ input }: Topology, samples: number): number {
  return input.idsMax.reduce((sum, most, feature) => {
    return sum + idsRoom(samples, { mean: input.idsMean?.[feature] ?? most, most });
  }, 0);
}

function isTiered({ heldBy, distinctBy }: Topology, rank: number): boolean {
  return [heldBy, distinctBy].some((by) => by[rank]?.some(({ tier }) => tier === "cached"));
}

/** Tensors of the dense optimizer beside the parameters: at most two, an average, and a copy. */
const denseSlotsMax = 4;

/**
 * Bytes of layers: outputs and gradients of the devices' samples, parameters and their state, and
 * the residuals of the top-k all-reduce, with memory for one sum.
 */
export function layerBytes(topology: Topology, ranks: readonly number[]): number {
  const { graph, distinctBy, replicatedLookups } = topology;
  const samplesMax = samplesMaxOf(topology);
  const samples = ranks.reduce((sum, rank) => sum + (samplesMax[rank] ?? 0), 0);
  const columnsIn = (own: readonly { readonly columns: number }[]) =>
    own.reduce((sum, { columns }) => sum + columns, 0);
  const vectors =
    columnsIn(distinctBy.flat().flatMap(({ lookups }) => lookups)) + columnsIn(replicatedLookups);
  const parameters = ranks.length * graph.layout.length * (1 + denseSlotsMax);
  const residuals = ranks.reduce((sum, rank) => {
    const lengths = residualLengths(topology, rank);
    return sum + lengths.reduce((all, one) => all + one, Math.max(0, ...lengths));
  }, 0);
  return 4 * (samples * (networkFloats(graph) + vectors) + parameters + residuals);
}

/** Bytes beside each row in memory: its mark, its hash at the last cut, a bit of the undo log. */
const noteBytes = 1 + 8 + 1 / 8;

/** The rows of some tables, and their bytes with optimizer state, as if every row were trained. */
export function recordsOf(
  tables: readonly TableSpec[],
  optimizer: SparseOptimizerSpec,
): { readonly rows: number; readonly bytes: number } {
  let [rows, bytes] = [0, 0];
  for (const { rows: own, dim, precision } of tables) {
    rows += own;
    bytes += own * recordBytesOf({ dim, precision }, rowStateWidth(optimizer, dim));
  }
  return { rows, bytes };
}

/** Bytes of a host's memory that rows may take, besides the marks and hashes of each row. */
export function bytesForRows(
  tables: readonly TableSpec[],
  optimizer: SparseOptimizerSpec,
  memoryBytes: number,
): number {
  const { rows, bytes } = recordsOf(tables, optimizer);
  return bytes === 0 ? memoryBytes : Math.floor((memoryBytes * bytes) / (bytes + noteBytes * rows));
}

export function rowNotesBytes(topology: Topology, rank: number, hasHashes: boolean): number {
  const own = shardsOn(topology, rank).filter(({ tier }) => tier !== "cached");
  return own.reduce((sum, { rows }) => sum + rows * (hasHashes ? noteBytes : 1), 0);
}

/** All shards on a device, replicated shards included. */
export function shardsOn({ heldBy, distinctBy, replicated }: Topology, rank: number): HeldShard[] {
  return [heldBy[rank] ?? [], distinctBy[rank] ?? [], replicated].flat();
}

/**
 * Bytes of a device's caches in its own memory. Spare slots have memory as far as the usual rows of
 * all batches in flight exceed the cache.
 */
export function cacheBytes(
  topology: Topology,
  rank: number,
  optimizer: SparseOptimizerSpec,
): number {
  const { tiers } = topology.input;
  if (tiers === undefined) return 0;
  const demands = cacheDemandsOf(topology, rank, optimizer);
  return cacheShapesOf(demands, tiers).reduce((sum, { sets, spares }, i) => {
    const ways = sets * cacheWays;
    const slots = ways + Math.max(0, spares - ways);
    return sum + slots * (noteBytes + (demands[i]?.placeBytes ?? 0)) + spares * spareBytes;
  }, 0);
}

/** Elements of the largest array of each shard's rows on a device: weights or state. */
export function arraysOf(topology: Topology, rank: number, optimizer: SparseOptimizerSpec) {
  const { tiers, model } = topology.input;
  const demands = tiers === undefined ? [] : cacheDemandsOf(topology, rank, optimizer);
  const caches = tiers === undefined ? [] : cacheShapesOf(demands, tiers);
  const slots = caches.map(({ sets, spares }) => sets * cacheWays + spares);
  const slotsOf = new Map(demands.map(({ shard }, i) => [shard.shard, slots[i] ?? 0]));
  return shardsOn(topology, rank).map(({ shard, table, rows, columns }) => {
    const width = Math.max(columns, rowStateWidth(optimizer, columns));
    const elements = (slotsOf.get(shard) ?? rows) * width;
    return { table: tableOf(model.tables, table).name, elements };
  });
}
