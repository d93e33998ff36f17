// Upper bounds of the bytes that each device sends to each other device in every all-to-all of a
// step. A pure function of the topology and of the batch size.

import { oneLabel, scoreWords } from "../../data/targets.ts";
import { bagFrameBytes } from "../../embedding/lookup/bag-frames.ts";
import { distinctFrameBytes } from "../../embedding/lookup/dedup-rows.ts";
import { quantaOf } from "../../embedding/rows/slab.ts";
import type { ExchangeShape } from "../../exchange/exchange.ts";
import { packedBytes } from "../../kernels/contract/precision.ts";
import type { HeldShard } from "./held-shard.ts";
import { type ShardGroup, sendListOf, type VectorRoutes, vectorBytes } from "./shard-groups.ts";
import {
  isCounted,
  longestBag,
  samplesMaxOf,
  samplesOf,
  subtreesIn,
  type Topology,
} from "./topology.ts";

/** Parts of the all-to-alls of a step or of an evaluation, for a batch of `samples`. */
export function partBytesOf(topology: Topology, samples: number): StepBytes {
  return bytesOf(
    topology,
    topology.sliceRuns.map((_, device) => samplesOf(topology, device, samples).count),
  );
}

type StepBytes = ExchangeShape["bytesMax"];

/** `counts`: samples of each device. */
function bytesOf(topology: Topology, counts: readonly number[]): StepBytes {
  const { lookupsBy, hostOf, distinctBy, exchange, reads, graph } = topology;
  const count = (device: number) => counts[device] ?? 0;
  const { labels, hasGaps = false } = topology.input.targets ?? oneLabel;
  const sumsMax = Math.max(graph.batchSums, hasGaps ? labels : 0);
  const samples = counts.reduce((sum, own) => sum + own, 0);
  const idsMax = lookupsBy.map((held) => held.map(({ lookup }) => longestBag(topology, lookup)));
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
    { sendLists }: VectorRoutes = topology,
  ) => {
    let sum = 0;
    if (hostOf[holder] !== hostOf[aggregator]) return sum;
    for (const [to, { hostSums }] of (sendLists[aggregator] ?? []).entries()) {
      for (const { parts } of hostSums) {
        const part = parts.get(holder);
        if (part !== undefined) sum += bytes(part, to);
      }
    }
    return sum;
  };
  const rowsMax = (of: number, device: number) =>
    (distinctBy[device] ?? []).map((shard) => distinctMax(topology, shard, of, count(of)));
  const rows = (of: number, device: number, isIn: (shard: HeldShard) => boolean) =>
    (distinctBy[device] ?? []).filter(isIn).reduce((sum, shard) => {
      return sum + 4 * distinctMax(topology, shard, of, count(of)) * shard.columns;
    }, 0);
  return {
    ids: (from, to) =>
      distinctFrameBytes(subtreesIn(topology, from).length, rowsMax(from, to)) +
      bagFrameBytes(count(from), lookupsBy[to] ?? [], idsMax[to] ?? [], countsIn(topology, from)),
    partials: (from, to) => summed(from, to, vectors, reads.fresh),
    stalePartials: (from, to) => summed(from, to, vectors, reads.stale),
    pooled: (from, to) => sendList(from, to, vectors, reads.fresh),
    stalePooled: (from, to) => sendList(from, to, vectors, reads.stale),
    dPooled: (from, to) => sendList(to, from, gradient),
    dPartials: (from, to) => summed(to, from, gradient),
    rows: (from, to) => rows(to, from, reads.fresh.has),
    staleRows: (from, to) => rows(to, from, reads.stale.has),
    dRows: (from, to) => rows(from, to, () => true),
    rowSums: (from, to) => rowSumBytes(topology, samples, from, to),
    bagLengths: (from, to) => {
      const counted = (lookupsBy[from] ?? []).filter((one) => isCounted(topology, one.lookup));
      return 4 * count(to) * counted.length;
    },
    statistics: (from) => 4 * sumsMax * subtreesIn(topology, from).length,
    losses: (from) => 8 * (topology.sliceRuns[from]?.slices ?? 0),
    scores: (from, to) => (to === 0 ? 4 * count(from) * scoreWords(topology.input.targets) : 0),
  };
}

/** Number of distinct-list counts in a frame of a device: one per group for each of its slices. */
export function countsIn({ input, sliceRuns }: Topology, device: number): number {
  return (input.ikjt?.length ?? 0) * (sliceRuns[device]?.slices ?? 0);
}

/** Upper bound of the distinct rows of a shard that `samples` samples of a device look up. */
function distinctMax(
  topology: Topology,
  { table, rows }: HeldShard,
  device: number,
  samples: number,
): number {
  const lookups = samples * (topology.idsMaxOf[table] ?? 0);
  return Math.min(lookups, rows * subtreesIn(topology, device).length);
}

/** Bytes of sums for each quantum of a row: two float64, for LAMB's norms; others need less. */
const sumBytes = 16;

/**
 * Upper bound of the bytes of row sums that `from` sends to `to`, for rows with columns on both.
 */
function rowSumBytes(topology: Topology, samples: number, from: number, to: number): number {
  if (from === to) return 0;
  const shared = topology.columnGroups.filter((group) => group.some(({ device }) => device === to));
  const own = shared.flat().filter(({ device }) => device === from);
  return own.reduce((bytes, { rows, table, columns }) => {
    const rowsMax = Math.min(rows, samples * (topology.idsMaxOf[table] ?? 0));
    return bytes + rowsMax * quantaOf(columns) * sumBytes;
  }, 0);
}

export function exchangeShapeOf(topology: Topology): ExchangeShape {
  return {
    devices: topology.devices,
    hostOf: topology.hostOf,
    bytesMax: bytesOf(topology, samplesMaxOf(topology)),
    gradientLength: topology.gradientLength,
    subtrees: topology.sliceRuns.map((_, device) => subtreesIn(topology, device)),
    slices: topology.input.slices,
  };
}
