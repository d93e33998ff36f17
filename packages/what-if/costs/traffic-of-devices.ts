// The bytes that each device sends and receives in a step, by channel: the parts of all-to-alls
// that the topology of a run has (src/training/topology/exchange-shape.ts), added up by device. Ids
// and distinct rows are those that a mean batch needs.

import {
  type ChannelName,
  distinctOfTile,
  exactExchange,
  gradientShare,
  packedBytes,
  rowShare,
  type Shard,
  tableOf,
  takesMean,
  takesTrust,
  treesOf,
} from "../../../internal.ts";
import type { CostedCluster, CostedTable } from "./costed-job.ts";
import {
  add,
  addSize,
  type Ends,
  endsOf,
  type Flow,
  fanOut,
  type Samplers,
  type Sizes,
  samplersOf,
  sizesOf,
} from "./flows.ts";

export type Channel = ChannelName | "gradients";

/** Bytes of a channel, by device. */
export interface ChannelFlow {
  readonly sent: Flow;
  readonly received: Flow;
}

/** The flows by channel. */
export type Traffic = ReadonlyMap<Channel, ChannelFlow>;

/** The shards of one device with the same columns of a table: their vectors are sent as one. */
interface Held {
  readonly table: CostedTable;
  readonly columns: number;
  readonly device: number;
  readonly shards: Shard[];
}

/** The bytes of each channel. */
export function trafficOfDevices(cluster: CostedCluster): Traffic {
  const { devices, samples } = cluster;
  if (devices.hosts * devices.perHost === 1) return new Map();
  const samplers = samplersOf(devices, samples);
  const placed = cluster.shards.filter(({ device }) => device !== "all");
  return new Map<Channel, ChannelFlow>([
    ["ids", reversed(idsOf(cluster, samplers, placed))],
    ...vectorsOf(cluster, samplers, heldIn(cluster, placed)),
    ...rowsOf(cluster, samplers, placed),
    ...rowSumsOf(cluster, placed),
    ...gatheredOf(cluster),
    ["gradients", gradientsOf(cluster)],
  ]);
}

/** The traffic of bytes that samplers send to holders. */
function reversed({ holders, samplers }: Ends): ChannelFlow {
  return { sent: samplers, received: holders };
}

function forward({ holders, samplers }: Ends): ChannelFlow {
  return { sent: holders, received: samplers };
}

/** Bytes of the header of a frame of ids. */
const frameBytes = 8;

/** Ids: each device sends each holder a frame with the bags of its samples. */
function idsOf(cluster: CostedCluster, samplers: Samplers, placed: readonly Shard[]): Ends {
  const { tables } = cluster;
  const sizes = sizesOf(samplers);
  for (const [count, samples] of samplers.counts.entries()) {
    for (let device = 0; device < cluster.samples.length; device++) {
      addSize(sizes, samplers, device, count, frameBytes);
    }
    for (const shard of placed) {
      const table = tableOf(tables, shard.table);
      const { lookups, idWords } = table;
      const words = table.isDistinct
        ? 1 + distinctOfTile(table, shard, samples)
        : samples * (lookups + idWords * table.poolingFactor * shareOf(table, shard));
      addSize(sizes, samplers, Number(shard.device), count, 4 * words);
    }
  }
  const ends = endsOf(samplers.devices);
  fanOut(samplers, sizes, sizes, ends);
  return ends;
}

/** Share of a table's ids that a shard needs. */
function shareOf(table: CostedTable, shard: Shard): number {
  return rowShare(table, shard, table.idShares);
}

/** Groups shards whose vectors are sent as one, in the order of their first shards. */
function heldIn({ tables }: CostedCluster, placed: readonly Shard[]): Held[] {
  const groups = new Map<string, Held>();
  for (const shard of placed) {
    const { table, firstColumn, columns } = shard;
    const device = Number(shard.device);
    if (tableOf(tables, table).isDistinct) continue;
    const key = `${table},${firstColumn},${columns},${device}`;
    const known = groups.get(key);
    if (known !== undefined) known.shards.push(shard);
    else groups.set(key, { table: tableOf(tables, table), columns, device, shards: [shard] });
  }
  return [...groups.values()];
}

/** Bytes of vectors and of their gradients, for each number of samples. */
interface VectorBytes {
  readonly vectors: readonly number[];
  readonly gradients: readonly number[];
}

/** Vectors and their gradients: each holder's own, and sums of the holders of a host. */
function vectorsOf(
  cluster: CostedCluster,
  samplers: Samplers,
  held: readonly Held[],
): [Channel, ChannelFlow][] {
  const bytesOf = vectorBytesIn(cluster, samplers);
  const way = () => ({
    inside: sizesOf(samplers),
    across: sizesOf(samplers),
    ends: endsOf(samplers.devices),
    partials: endsOf(samplers.devices),
  });
  const [fresh, early, back, again] = [way(), way(), way(), way()];
  const summed = new Set<Held>();
  for (const group of hostSumsIn(cluster, held)) {
    const [first] = group;
    if (first === undefined) continue;
    for (const one of group) summed.add(one);
    const whole = bytesOf({ ...first, shards: group.flatMap(({ shards }) => shards) });
    const parts = group.map((one) => ({ device: one.device, bytes: bytesOf(one) }));
    for (const [to, of] of [
      [first.table.isEarly ? early : fresh, "vectors"],
      [back, "gradients"],
    ] as const) {
      addHostSum(
        samplers,
        to,
        whole[of],
        parts.map(({ device, bytes }) => ({ device, bytes: bytes[of] })),
      );
    }
  }
  for (const one of held) {
    const bytes = bytesOf(one);
    const { isEarly, deferred } = one.table;
    for (const count of samplers.counts.keys()) {
      const put = (to: Sizes, size: number) => addSize(to, samplers, one.device, count, size);
      for (const [{ inside, across }, size] of [
        [isEarly ? early : fresh, bytes.vectors[count] ?? 0],
        [again, deferred * (bytes.vectors[count] ?? 0)],
        [back, bytes.gradients[count] ?? 0],
      ] as const) {
        put(inside, size);
        if (!summed.has(one)) put(across, size);
      }
    }
  }
  for (const { inside, across, ends } of [fresh, early, back, again]) {
    fanOut(samplers, inside, across, ends);
  }
  return [
    ["pooled", forward(fresh.ends)],
    ["partials", forward(fresh.partials)],
    ["stalePooled", forward(early.ends)],
    ["stalePartials", forward(early.partials)],
    ["deferred", forward(again.ends)],
    ["dPooled", reversed(back.ends)],
    ["dPartials", reversed(back.partials)],
  ];
}

function vectorBytesIn({ job }: CostedCluster, { counts }: Samplers) {
  const { forward: vectorPrecision, backward: gradientPrecision } = job.exchange ?? exactExchange;
  return ({ table: { lookups }, columns, shards }: Held): VectorBytes => {
    const trees = treesOf([...shards].sort((a, b) => a.firstBlock - b.firstBlock)).length;
    return {
      vectors: counts.map(
        (samples) => lookups * trees * packedBytes(samples, columns, vectorPrecision),
      ),
      gradients: counts.map(
        (samples) => lookups * packedBytes(samples, columns, gradientPrecision),
      ),
    };
  };
}

/** Groups of two or more holders of one host that have the same columns, sorted by rank. */
function hostSumsIn({ devices }: CostedCluster, held: readonly Held[]): Held[][] {
  if (devices.hosts === 1) return [];
  const groups = new Map<string, Held[]>();
  for (const one of held) {
    const { table, firstColumn, columns } = one.shards[0] ?? {};
    const host = Math.floor(one.device / devices.perHost);
    const key = `${host},${table},${firstColumn},${columns}`;
    const known = groups.get(key);
    if (known === undefined) groups.set(key, [one]);
    else known.push(one);
  }
  const sums = [...groups.values()].filter(({ length }) => length > 1);
  return sums.map((group) => group.sort((a, b) => a.device - b.device));
}

/**
 * Adds the sum of a host's holders. The holders take turns as aggregator for a place on all other
 * hosts: the aggregator gets the parts of the other holders, and sends the sums to that place.
 */
function addHostSum(
  { atPlace, counts, countOf, devices: { perHost } }: Samplers,
  { across, ends, partials }: { across: Sizes; ends: Ends; partials: Ends },
  whole: readonly number[],
  parts: readonly { readonly device: number; readonly bytes: readonly number[] }[],
): void {
  const host = Math.floor((parts[0]?.device ?? 0) / perHost);
  for (const count of counts.keys()) add(across.onHost[count], host, whole[count] ?? 0);
  for (const [place, numbers] of atPlace.entries()) {
    const aggregator = parts[place % parts.length]?.device ?? 0;
    for (const [count, all] of numbers.entries()) {
      const targets = all - (countOf[host * perHost + place] === count ? 1 : 0);
      add(ends.holders.across, aggregator, targets * (whole[count] ?? 0));
      for (const { device, bytes } of parts) {
        if (device === aggregator) continue;
        add(partials.holders.inside, device, targets * (bytes[count] ?? 0));
        add(partials.samplers.inside, aggregator, targets * (bytes[count] ?? 0));
      }
    }
  }
}

/** Distinct rows, and their gradients. */
function rowsOf(
  { job, tables }: CostedCluster,
  samplers: Samplers,
  placed: readonly Shard[],
): [Channel, ChannelFlow][] {
  const { forward: vectorPrecision, backward: gradientPrecision } = job.exchange ?? exactExchange;
  const [fresh, early, gradients] = [sizesOf(samplers), sizesOf(samplers), sizesOf(samplers)];
  for (const shard of placed) {
    const table = tableOf(tables, shard.table);
    if (!table.isDistinct) continue;
    for (const [count, samples] of samplers.counts.entries()) {
      const rows = distinctOfTile(table, shard, samples);
      const put = (to: Sizes, precision: typeof vectorPrecision) => {
        const bytes = packedBytes(rows, shard.columns, precision);
        addSize(to, samplers, Number(shard.device), count, bytes);
      };
      put(table.isEarly ? early : fresh, vectorPrecision);
      put(gradients, gradientPrecision);
    }
  }
  const spread = (sizes: Sizes): Ends => {
    const ends = endsOf(samplers.devices);
    fanOut(samplers, sizes, sizes, ends);
    return ends;
  };
  return [
    ["rows", forward(spread(fresh))],
    ["staleRows", forward(spread(early))],
    ["dRows", reversed(spread(gradients))],
  ];
}

/** Sums of rows that are split by columns: each holder sends its sums to the other holders. */
function rowSumsOf(
  { job, tables, devices, setting }: CostedCluster,
  placed: readonly Shard[],
): [Channel, ChannelFlow][] {
  const { kind } = job.optimizer.sparse;
  const sumBytes = (takesMean(kind) ? 4 : 0) + (takesTrust(kind) ? 16 : 0);
  const groups = new Map<string, Shard[]>();
  for (const shard of placed) {
    if (sumBytes === 0 || shard.columns === tableOf(tables, shard.table).dim) continue;
    const key = `${shard.table},${shard.firstBlock}`;
    groups.set(key, [...(groups.get(key) ?? []), shard]);
  }
  const { holders, samplers } = endsOf(devices);
  const hostOf = (device: number) => Math.floor(device / devices.perHost);
  for (const group of groups.values()) {
    const ranks = new Set(group.map(({ device }) => Number(device)));
    for (const shard of group) {
      const from = Number(shard.device);
      const rows = distinctOfTile(
        ...([tableOf(tables, shard.table), shard, setting.workload.batchSize] as const),
      );
      const bytes = sumBytes * shard.quanta * rows;
      for (const to of ranks) {
        if (to === from) continue;
        const way = hostOf(from) === hostOf(to) ? "inside" : "across";
        add(holders[way], from, bytes);
        add(samplers[way], to, bytes);
      }
    }
  }
  return [["rowSums", { sent: holders, received: samplers }]];
}

/** Gathers, from every device to all: losses, and sums over the batch in passes of layers. */
function gatheredOf({ devices, graph, slices }: CostedCluster): [Channel, ChannelFlow][] {
  const { hosts, perHost } = devices;
  const sums = graph.nodes.reduce((all, { batchSums = 0 }) => all + batchSums, 0);
  const flowOf = (bytes: readonly number[]): ChannelFlow => {
    const sumOf = (some: readonly number[]) => some.reduce((all, own) => all + own, 0);
    const onHost = Array.from({ length: hosts }, (_, host) =>
      sumOf(bytes.slice(host * perHost, (host + 1) * perHost)),
    );
    const all = sumOf(onHost);
    const near = (rank: number) => onHost[Math.floor(rank / perHost)] ?? 0;
    return {
      // A message is sent once to each other host, however many devices read it there.
      sent: {
        inside: Float64Array.from(bytes, (own) => (perHost - 1) * own),
        across: Float64Array.from(bytes, (own) => (hosts - 1) * own),
      },
      received: {
        inside: Float64Array.from(bytes, (own, rank) => near(rank) - own),
        across: Float64Array.from(bytes, (_, rank) => all - near(rank)),
      },
    };
  };
  return [
    ["losses", flowOf(slices.map((own) => 8 * own))],
    // Forward and backward.
    ["statistics", flowOf(slices.map(() => 2 * 4 * sums))],
  ];
}

/**
 * The all-reduce of dense gradients and of copied tables: a reduce-scatter and an all-gather inside
 * a host, and between hosts for an equal part of the vector on each device.
 */
function gradientsOf({ devices, setting, shards }: CostedCluster): ChannelFlow {
  const { hosts, perHost } = devices;
  const { workload } = setting;
  const copies = shards.reduce((sum, { device, rows, columns }) => {
    // The gradient of a row, and the number of times that the batch looks it up.
    return device === "all" ? sum + 4 * rows * (columns + 1) : sum;
  }, 0);
  const dense = 4 * workload.denseParameters;
  const inside = (2 * (perHost - 1) * (dense + copies)) / perHost;
  const rounded = dense * gradientShare(workload, devices);
  const across = (2 * (hosts - 1) * (rounded + copies)) / (hosts * perHost);
  const flow = {
    inside: new Float64Array(hosts * perHost).fill(inside),
    across: new Float64Array(hosts * perHost).fill(across),
  };
  return { sent: flow, received: flow };
}
