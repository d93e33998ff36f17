// The room for the bytes that each device sends to each other device in every all-to-all of a step:
// a pure function of the topology and of the batch size. Ids and rows have the room that usual
// batches need (src/data/ids-room.ts), and longer frames are moved in several rounds
// (src/exchange/long-frames.ts); for all other channels the room is an upper bound.

import { oneLabel, scoreWords } from "../../data/targets.ts";
import { bagFrameBytes } from "../../embedding/lookup/bag-frames.ts";
import { distinctFrameBytes } from "../../embedding/lookup/dedup-rows.ts";
import { quantaOf } from "../../embedding/rows/slab.ts";
import type { ExchangeShape, PartBytes } from "../../exchange/exchange.ts";
import { longHeaderBytes } from "../../exchange/long-frames.ts";
import { packedBytes, type WirePrecision } from "../../kernels/contract/precision.ts";
import { denseSubtreesIn, distinctTreesIn, subtreesIn } from "./gradient-trees.ts";
import type { HeldShard } from "./held-shard.ts";
import { type ShardGroup, sendListOf, type VectorRoutes, vectorBytes } from "./shard-groups.ts";
import {
  isCounted,
  lookupRoom,
  samplesMaxOf,
  samplesOf,
  type Topology,
  tableRoomsOf,
} from "./topology.ts";

/** Sizes of batches whose parts are remembered: the full one and the last one of each dataset. */
const sizesMax = 6;

const known = new WeakMap<Topology, Map<number, StepBytes>>();

/**
 * Parts of the all-to-alls of a step or of an evaluation, for a batch of `samples`. Batches of one
 * size get the same functions, so that a device computes the places of its parts only once.
 */
export function partBytesOf(topology: Topology, samples: number): StepBytes {
  const sizes = known.get(topology) ?? new Map<number, StepBytes>();
  known.set(topology, sizes);
  const found = sizes.get(samples);
  if (found !== undefined) return found;
  const counts = topology.sliceRuns.map((_, device) => samplesOf(topology, device, samples).count);
  const bytes = Object.fromEntries(
    Object.entries(bytesOf(topology, counts)).map(([name, of]) => [name, remembered(counts, of)]),
  ) as StepBytes;
  const [oldest] = sizes.keys();
  if (oldest !== undefined && sizes.size === sizesMax) sizes.delete(oldest);
  sizes.set(samples, bytes);
  return bytes;
}

type StepBytes = ExchangeShape["bytesMax"];

/** Computes the bytes of a pair of devices once, because a step asks for them several times. */
function remembered({ length: devices }: readonly number[], bytes: PartBytes): PartBytes {
  const known = new Map<number, number>();
  return (from, to) => {
    const pair = from * devices + to;
    if (known.size > 4 * devices) known.clear();
    if (!known.has(pair)) known.set(pair, bytes(from, to));
    return known.get(pair) ?? 0;
  };
}

/** `counts`: samples of each device. */
function bytesOf(topology: Topology, counts: readonly number[]): StepBytes {
  const { lookupsBy, hostOf, distinctBy, exchange, reads, graph } = topology;
  const count = (device: number) => counts[device] ?? 0;
  const { labels, hasGaps = false } = topology.input.targets ?? oneLabel;
  const sumsMax = Math.max(graph.batchSums, hasGaps ? labels : 0);
  const samples = counts.reduce((sum, own) => sum + own, 0);
  const header = topology.isLong ? longHeaderBytes : 0;
  const idsRooms = lookupsBy.map((held) =>
    bySamples((own) => held.map(({ lookup }) => lookupRoom(topology, lookup, own))),
  );
  const tableRooms = bySamples((own) => tableRoomsOf(topology, own));
  const tableRoom = (table: number, own: number) => tableRooms(own)[table] ?? 0;
  const sums = rowSumRooms(topology, (table) => tableRoom(table, samples));
  /** Bytes of a shard group's vectors, for the samples of device `of`. */
  const vectors = (shardGroup: ShardGroup, of: number) =>
    vectorBytes(shardGroup, count(of), exchange.forward);
  const gradient = ({ columns }: ShardGroup, of: number) =>
    packedBytes(count(of), columns, exchange.backward);
  const sendList = (
    from: number,
    to: number,
    bytes: typeof vectors,
    routes: VectorRoutes = topology,
  ) => {
    const { own, hostSums } = sendListOf(routes, from, to);
    const sum = own.reduce((all, shardGroup) => all + bytes(shardGroup, to), 0);
    return hostSums.reduce((all, hostSum) => all + bytes(hostSum, to), sum);
  };
  /** Bytes of the parts of host sums that `holder` sends to `aggregator`. */
  const summed = (
    holder: number,
    aggregator: number,
    bytes: typeof vectors,
    routes: VectorRoutes = topology,
  ) => {
    let sum = 0;
    if (hostOf[holder] !== hostOf[aggregator]) return sum;
    for (const to of hostOf.keys()) {
      for (const { parts } of sendListOf(routes, aggregator, to).hostSums) {
        const part = parts.get(holder);
        if (part !== undefined) sum += bytes(part, to);
      }
    }
    return sum;
  };
  /** Room for the distinct rows of a shard that the samples of device `of` look up. */
  const distinctRoom = ({ table, rows }: HeldShard, of: number) =>
    Math.min(tableRoom(table, count(of)), rows * distinctTreesIn(topology, of).length);
  const rowsRoom = (of: number, device: number) =>
    (distinctBy[device] ?? []).map((shard) => distinctRoom(shard, of));
  const rows = (
    of: number,
    device: number,
    precision: WirePrecision,
    isIn: (shard: HeldShard) => boolean,
  ) =>
    (distinctBy[device] ?? []).filter(isIn).reduce((sum, shard) => {
      return sum + packedBytes(distinctRoom(shard, of), shard.columns, precision);
    }, header);
  return {
    ids: (from, to) =>
      header +
      distinctFrameBytes(distinctTreesIn(topology, from).length, rowsRoom(from, to)) +
      bagFrameBytes(
        count(from),
        lookupsBy[to] ?? [],
        idsRooms[to]?.(count(from)) ?? [],
        countsIn(topology, from),
      ),
    partials: (from, to) => summed(from, to, vectors, reads.fresh),
    stalePartials: (from, to) => summed(from, to, vectors, reads.stale),
    pooled: (from, to) => sendList(from, to, vectors, reads.fresh),
    stalePooled: (from, to) => sendList(from, to, vectors, reads.stale),
    deferred: (from, to) => deferredRoom(topology, from, to, vectors, (of) => rowsRoom(to, of)),
    dPooled: (from, to) => sendList(to, from, gradient),
    dPartials: (from, to) => summed(to, from, gradient),
    rows: (from, to) => rows(to, from, exchange.forward, reads.fresh.has),
    staleRows: (from, to) => rows(to, from, exchange.forward, reads.stale.has),
    dRows: (from, to) => rows(from, to, exchange.backward, () => true),
    rowSums: (from, to) => header + sums(from, to),
    bagLengths: (from, to) => {
      const counted = (lookupsBy[from] ?? []).filter((one) => isCounted(topology, one.lookup));
      return 4 * count(to) * counted.length;
    },
    statistics: (from) => 4 * sumsMax * denseSubtreesIn(topology, from).length,
    losses: (from) => 8 * (topology.sliceRuns[from]?.slices ?? 0),
    scores: (from, to) => (to === 0 ? 4 * count(from) * scoreWords(topology.input.targets) : 0),
  };
}

/** Share of an early read's vectors and rows for which a frame of deferred embeddings has room. */
const deferredShare = 1 / 4;

/**
 * Room for the bags and rows that are sent again; longer frames take several rounds. `rowsOf`: room
 * for the distinct rows of a device's shards.
 */
function deferredRoom(
  { reads: { ahead, isAhead }, distinctBy }: Topology,
  from: number,
  to: number,
  bytesOf: (shardGroup: ShardGroup, of: number) => number,
  rowsOf: (device: number) => readonly number[],
): number {
  if (!isAhead) return 0;
  const { own } = sendListOf(ahead, from, to);
  const rooms = rowsOf(from);
  const rows = (distinctBy[from] ?? []).map((shard, i) => {
    return ahead.has(shard) ? 4 * shard.columns * (rooms[i] ?? 0) : 0;
  });
  const bytes = [...own.map((shardGroup) => bytesOf(shardGroup, to)), ...rows];
  const sum = bytes.reduce((all, one) => all + one, 0);
  return longHeaderBytes + 8 * Math.ceil((4 * bytes.length + deferredShare * sum) / 8);
}

/** Number of distinct-list counts in a frame of a device: one per group for each of its slices. */
export function countsIn({ input, sliceRuns }: Topology, device: number): number {
  return (input.ikjt?.length ?? 0) * (sliceRuns[device]?.slices ?? 0);
}

/** Remembers a function's results: devices have few different numbers of samples. */
function bySamples<Result>(of: (samples: number) => Result): (samples: number) => Result {
  const known = new Map<number, Result>();
  return (samples) => {
    const found = known.get(samples) ?? of(samples);
    known.set(samples, found);
    return found;
  };
}

/** Bytes of sums for each quantum of a row: two float64, for LAMB's norms; others need less. */
const sumBytes = 16;

/** Room for the row sums that a device sends to another, for rows with columns on both. */
function rowSumRooms(
  { columnGroups, devices }: Topology,
  idsOf: (table: number) => number,
): (from: number, to: number) => number {
  // All groups are added up once: a step asks for every pair.
  const rooms = new Map<number, number>();
  for (const group of columnGroups) {
    const holders = new Set(group.map(({ device }) => device));
    for (const { device: from, rows, table, columns } of group) {
      if (from === "all") continue;
      const bytes = Math.min(rows, idsOf(table)) * quantaOf(columns) * sumBytes;
      for (const to of holders) {
        if (to === "all" || to === from) continue;
        const pair = from * devices + to;
        rooms.set(pair, (rooms.get(pair) ?? 0) + bytes);
      }
    }
  }
  return (from, to) => rooms.get(from * devices + to) ?? 0;
}

export function exchangeShapeOf(topology: Topology): ExchangeShape {
  return {
    devices: topology.devices,
    hostOf: topology.hostOf,
    bytesMax: bytesOf(topology, samplesMaxOf(topology)),
    gradientLength: topology.gradientLength,
    buckets: topology.buckets,
    rounding: topology.rounding,
    subtrees: topology.sliceRuns.map((_, device) => subtreesIn(topology, device)),
    slices: topology.input.slices,
    topK: topology.topK,
  };
}
