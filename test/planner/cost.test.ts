// The cost model against the formulas of TorchRec's shard estimators, and the byte counts of Neo
// (Mudigere et al., arXiv 2104.05158), worked out by hand with round numbers.

import test from "ava";
import { allReduceSeconds } from "../../src/planner/cost/all-reduce.ts";
import { costOf, reserveOf, type Setting } from "../../src/planner/cost/cost.ts";
import { distinctIds } from "../../src/planner/cost/miss-curve.ts";
import { denseTraffic, trafficOf } from "../../src/planner/cost/traffic.ts";
import type { PlannedTable, Scheme, Tile } from "../../src/planner/shards.ts";
import { near, plannedTable, settingOf } from "../helpers/stores/plans.ts";

// W = 8, N = 2, L = 4, B = 80, so b = 10. 8-byte ids, float32 weights, 2 and 4 bytes on the wire.
const constants = {
  memoryBandwidth: 1e6,
  insideHost: { allToAll: 2e5, reduceScatter: 4e5, allGather: 8e5, allReduce: 1e5 },
  acrossHosts: { allToAll: 1e4, reduceScatter: 2e4, allGather: 4e4, allReduce: 5e3 },
  idBytes: 8,
  lengthBytes: 4,
  forwardBytes: 2,
  backwardBytes: 4,
  lowerBandwidth: 1e3,
};
const devices = { hosts: 2, perHost: 4 };
const table = plannedTable("T", { rows: 640, dim: 128, poolingFactor: 3, rowBlocks: 8 });
const setting = settingOf([table], devices, constants, 80);
const whole: Tile = { firstBlock: 0, blocks: 8, firstQuantum: 0, quanta: 4 };

function secondsOf(scheme: Scheme, tile: Partial<Tile> = {}, of: PlannedTable = table) {
  return costOf(setting, of, scheme, "memory", { ...whole, ...tile }).seconds;
}

test("a whole table reads ids and rows and writes pooled vectors, twice as much backward", (t) => {
  const { seconds, cost } = costOf(setting, table, "table-wise", "memory", whole);
  // in*W = 240 ids: 240*8 + 240*128*4 + 80*128*2 bytes, no penalty at 128 columns.
  const lookup = (1920 + 122_880 + 20_480) / 1e6;
  near(t, seconds.lookup, lookup);
  near(t, seconds.update, 2 * lookup);
  near(t, seconds.outputExchange, 20_480 / 1e4);
  near(t, seconds.backwardExchange, 40_960 / 1e4);
  near(t, seconds.inputExchange, (1920 + 80 * 4) / 1e4);
  near(t, cost, 3 * lookup + 2.048 + 4.096);
});

test("narrow shards cost more per byte: 1.15 below 128 columns, 1.75 below 64", (t) => {
  const half = secondsOf("column-wise", { quanta: 2 }).lookup;
  near(t, half, (1.15 * (1920 + 240 * 64 * 4 + 80 * 64 * 2)) / 1e6);
  const quarter = secondsOf("column-wise", { quanta: 1 }).lookup;
  near(t, quarter, (1.75 * (1920 + 240 * 32 * 4 + 80 * 32 * 2)) / 1e6);
  const thin = plannedTable("thin", { dim: 8, poolingFactor: 3 });
  const tile = { firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: 1 };
  near(
    t,
    secondsOf("table-wise", tile, thin).lookup,
    (1.75 * (1920 + 240 * 32 * 4 + 80 * 8 * 2)) / 1e6,
  );
});

test("row-wise over all devices: an eighth of the ids, partial vectors of all samples", (t) => {
  const seconds = secondsOf("row-wise", { blocks: 1 });
  near(t, seconds.lookup, (30 * 8 + 30 * 128 * 4 + 80 * 128 * 2) / 1e6);
  near(t, seconds.outputExchange, (80 * 128 * 2) / 2e4);
  // The gather, and the copy of its result.
  near(t, seconds.backwardExchange, (80 * 128 * 4) / 4e4 + (2.455 * 80 * 128 * 4) / 1e6);
});

test("row-wise within a host: partial vectors by the fast link, sums across hosts", (t) => {
  const seconds = secondsOf("table-row-wise", { blocks: 2 });
  near(t, seconds.lookup, (60 * 8 + 60 * 128 * 4 + 80 * 128 * 2) / 1e6);
  // W/L = 2 hosts: out = b vectors for each.
  near(t, seconds.outputExchange, (80 * 128 * 2) / 4e5 + (10 * 2 * 128 * 2) / 1e4);
  near(
    t,
    seconds.backwardExchange,
    (80 * 128 * 4) / 8e5 + (10 * 2 * 128 * 4) / 1e4 + (2.455 * 80 * 128 * 4) / 1e6,
  );
});

test("data-parallel: no exchange except for the all-reduce of the whole table", (t) => {
  const seconds = secondsOf("data-parallel");
  const lookup = (30 * 8 + 30 * 128 * 4 + 10 * 128 * 2) / 0.5e6;
  near(t, seconds.lookup, lookup);
  t.is(seconds.outputExchange, 0);
  const bytes = 640 * 128 * 4;
  near(t, seconds.update, 2 * lookup + (9.22 * bytes) / 1e6);
  near(t, seconds.allReduce, (bytes * 1.5) / 5e3);
});

test("calibrated costs of blocks, sums of distinct rows, and splitting of ids", (t) => {
  const measured = {
    ...constants,
    blocksFactor: 3,
    rowSumSeconds: 1e-2,
    idSeconds: 1e-4,
    dealSeconds: 1e-5,
  };
  const own = plannedTable("T", { ...table, sumRounds: 1 });
  const cost = (scheme: Scheme, tile: Partial<Tile>) => {
    const found = costOf(settingOf([own], devices, measured, 80), own, scheme, "memory", {
      ...whole,
      ...tile,
    });
    return found.seconds;
  };
  const distinct = distinctIds({ rows: 640, draws: 240, zipf: 1.05, hot: 0 });
  // Whole, in eight blocks: the tree costs only in the forward pass, and no id is split by shard.
  const all = cost("table-wise", {});
  const lookup = (1920 + 122_880 + 20_480) / 1e6;
  near(t, all.lookup, (1 + 2 * (2 / 3)) * lookup); // Two of the three ids of a bag.
  near(t, all.update, 2 * lookup);
  near(t, all.inputExchange, (1920 + 320) / 1e4 + 240e-4);
  // Half the columns: their gradients are summed a second time.
  const half = cost("column-wise", { quanta: 2 });
  const gradients = 2 * secondsOf("column-wise", { quanta: 2 }).lookup;
  near(t, half.update, 2 * gradients + 1e-2 * distinct);
  // One block: an eighth of the ids, but all ids are scanned to split them by shard.
  const block = cost("row-wise", { blocks: 1 });
  near(t, block.lookup, secondsOf("row-wise", { blocks: 1 }).lookup);
  near(t, block.inputExchange, (30 * 8 + 320) / 1e4 + 30e-4 + 240e-5);
  near(t, block.update, 2 * block.lookup);
});

test("row blocks cost nothing in bags of one id", (t) => {
  const own = plannedTable("T", { ...table, poolingFactor: 1 });
  const at = (blocksFactor: number) => {
    const machine = { ...constants, blocksFactor };
    return costOf(settingOf([own], devices, machine, 80), own, "table-wise", "memory", whole);
  };
  near(t, at(3).seconds.lookup, at(1).seconds.lookup);
});

test("an all-reduce counts hosts up to two, and doubles beyond two", (t) => {
  const all = setting.constants;
  near(t, allReduceSeconds({ hosts: 1, perHost: 4 }, all, 1000), 1000 / 1e5);
  near(t, allReduceSeconds({ hosts: 2, perHost: 4 }, all, 1000), 1500 / 5e3);
  near(t, allReduceSeconds({ hosts: 3, perHost: 4 }, all, 1000), 3000 / 5e3);
  t.is(allReduceSeconds({ hosts: 1, perHost: 1 }, all, 1000), 0);
});

test("a single device exchanges nothing", (t) => {
  const alone: Setting = { ...setting, devices: { hosts: 1, perHost: 1 } };
  const { seconds } = costOf(alone, table, "table-wise", "memory", whole);
  t.is(seconds.inputExchange + seconds.outputExchange + seconds.backwardExchange, 0);
});

test("memory counts weights, state and buffers; behind a cache, its share of the rows", (t) => {
  const kept = plannedTable("T", { rows: 640, dim: 128, rowBlocks: 8, poolingFactor: 3 });
  const fat = { ...kept, stateBytes: 4, rowBytes: 5 };
  const buffers = (copies: number) => copies * (240 * 8 + 80 * 4) + 80 * 128 * 6;
  const bytes = (of: PlannedTable, tier: "memory" | "cached", tile: Partial<Tile> = {}) => {
    return costOf(setting, of, "table-wise", tier, { ...whole, ...tile }).bytes;
  };
  t.is(bytes(kept, "memory"), 640 * 512 + buffers(2));
  t.is(bytes(fat, "memory"), 640 * (1024 + 5) + buffers(2));
  t.is(bytes(fat, "cached"), 640 * 0.2 * (1024 + 5) + buffers(3));
  // Columns share their state, but not the row's bytes beside the columns.
  const half = bytes(fat, "memory", { quanta: 2 }) - (buffers(2) - 80 * 64 * 6);
  t.is(half, 640 * (512 + 5));
});

test("the reserve is six times the dense layers, and twenty batches of ids", (t) => {
  const workload = { ...setting.workload, denseParameters: 1000 };
  t.is(reserveOf({ ...setting, workload }), 6 * 4000 + 20 * 10 * 3 * 8);
  // Eight devices with two rounded parts each have one further copy.
  const rounded = { ...workload, gradientParts: 16 };
  t.is(reserveOf({ ...setting, workload: rounded }), 7 * 4000 + 20 * 10 * 3 * 8);
});

test("a cache fetches the distinct ids that it does not hold", (t) => {
  const cached = costOf(setting, table, "table-wise", "cached", whole).seconds;
  const fetched = distinctIds({ rows: 640, draws: 240, zipf: 1.05, hot: 128 });
  near(t, cached.prefetch, (fetched * 512) / 1e3);
  t.is(secondsOf("table-wise").prefetch, 0);
  const part = costOf(setting, table, "row-wise", "cached", { ...whole, blocks: 1 }).seconds;
  near(t, part.prefetch, cached.prefetch / 8);
});

test("distinct ids by Zipf's law equal the sum over all rows", (t) => {
  for (const [rows, draws, zipf, hot] of [
    [1000, 500, 0, 0],
    [1000, 500, 1.05, 0],
    [100_000, 20_000, 1.05, 20_000],
    [50_000, 100_000, 0.8, 500],
  ] as const) {
    let whole = 0;
    for (let k = 1; k <= rows; k++) whole += k ** -zipf;
    let sum = 0;
    for (let k = hot + 1; k <= rows; k++) sum += 1 - (1 - k ** -zipf / whole) ** draws;
    near(t, distinctIds({ rows, draws, zipf, hot }), sum, 0.01);
  }
  t.is(distinctIds({ rows: 10, draws: 100, zipf: 1, hot: 10 }), 0);
});

test("bytes sent equal Neo's four kinds of parallelism, over all devices", (t) => {
  const shard = { ...whole, table: "T", tier: "memory" as const, device: 0 };
  const sent = (scheme: Scheme, tile: Partial<Tile> = {}, sharers = 1) => {
    return trafficOf(setting, table, { ...shard, scheme, ...tile }, sharers);
  };
  // W ranks send b*(8P+4)*(W-1)/W each.
  t.deepEqual(sent("table-wise"), {
    input: 8 * 10 * (8 * 3 + 4) * (7 / 8),
    forward: 8 * 10 * 128 * 2 * (7 / 8),
    backward: 8 * 10 * 128 * 4 * (7 / 8),
    acrossHosts: 8 * 10 * (8 * 3 + 4 + 128 * 6) * (4 / 8), // Four of eight are on the other host.
  });
  // Each of W shards sends (W-1)*b*D*e, and receives the lengths of all: W times the whole table's.
  t.deepEqual(sent("row-wise", { blocks: 1 }, 4), {
    input: 7 * 10 * (3 + 4),
    forward: 7 * 10 * 128 * 2,
    backward: 7 * 10 * 128 * 4,
    acrossHosts: 10 * (4 * (3 + 4) + 128 * 6), // Vectors once per host.
  });
  // Inside (L-1)/L*W*b*D*e, across (N-1)*b*D*e.
  const hierarchical = sent("table-row-wise", { blocks: 2 }, 4);
  t.is(hierarchical.forward, ((3 / 4) * 80 + 10) * 128 * 2);
  t.is(hierarchical.acrossHosts, 4 * 10 * (6 + 4) + 10 * 128 * 6);
  // On two of a host's four devices, each is the aggregator for two of the other host's devices.
  t.is(sent("table-row-wise", { blocks: 4 }, 2).acrossHosts, 4 * 10 * (12 + 4) + 20 * 128 * 6);
  const copies = sent("data-parallel");
  t.is(copies.backward, 8 * 2 * (7 / 8) * 640 * 128 * 4);
  t.is(copies.acrossHosts, 2 * 640 * 128 * 4);
  const workload = { ...setting.workload, denseParameters: 100 };
  const dense = denseTraffic({ ...setting, workload });
  t.deepEqual(dense, { all: 8 * 2 * (7 / 8) * 400, acrossHosts: 2 * 400 });
  // Rounded: both halves of the bytes between two hosts, or the sum's alone.
  for (const [gradientParts, across] of [
    [2, 400],
    [1, 600],
  ] as const) {
    const rounded = denseTraffic({ ...setting, workload: { ...workload, gradientParts } });
    t.deepEqual(rounded, { all: dense.all - 800 + across, acrossHosts: across });
  }
});
