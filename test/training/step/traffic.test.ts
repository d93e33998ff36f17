// The bytes that a step sends, against the formulas of each sharding scheme (Neo, Mudigere et al.,
// arXiv 2104.05158; docs/parallelism.md has them in our formats); and the same step on two hosts:
// its bytes follow the same formulas, and its model is the same.

import test, { type ExecutionContext } from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import { dynamicOptions } from "../../../src/embedding/tables/dynamic-options.ts";
import type { TableOptions } from "../../../src/embedding/tables/options.ts";
import { type ChannelName, channelNames, type Exchange } from "../../../src/exchange/exchange.ts";
import type { ExchangeSpec } from "../../../src/exchange/options.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { assessPlan } from "../../../src/planner/assess.ts";
import { place } from "../../../src/planner/placement.ts";
import { schemeOf } from "../../../src/planner/shards.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { digestOf } from "../../../src/training/checkpoint/part-names.ts";
import { createDeviceState } from "../../../src/training/step/device-state.ts";
import { trainStep } from "../../../src/training/step/step.ts";
import { exchangeShapeOf } from "../../../src/training/topology/exchange-shape.ts";
import {
  exactExchange,
  type TopologyInput,
  topologyOf,
} from "../../../src/training/topology/topology.ts";
import { startBridgedHosts } from "../../exchange/bridged-hosts.ts";
import { withRepeatedLists } from "../../helpers/batches/repeated-lists.ts";
import { mix64 } from "../../helpers/batches/wide-ids.ts";
import {
  localPart,
  startLocalDevices,
  type WholeBatch,
} from "../../helpers/devices/local-devices.ts";
import { leavesOfParts } from "../../helpers/devices/parts.ts";
import { plannedTable, settingOf } from "../../helpers/stores/plans.ts";
import { someOrAll } from "../../helpers/thinned.ts";

// W devices, T tables of the same size, b samples per device, D columns, P ids in every bag.
const [W, T, b, D, P] = [4, 8, 6, 16, 4] as const;
/** With hosts: N hosts of L devices. */
const [N, L] = [2, 2] as const;
const batchSize = b * W;
const slices = 8;
const rows = 40;
const dense = 5;
const steps = 3;

/** The model, with equal tables. */
function inputOf(table: Partial<TableOptions> = {}, exchange: ExchangeSpec = exactExchange) {
  const { dim = D } = table;
  const model = modelOptions.parse({
    kind: "dlrm",
    dense,
    tables: Array.from({ length: T }, (_, i) => ({ name: `T${i}`, rows, dim, ...table })),
    bottom: [16, dim],
    top: [16, 1],
  });
  return { model, batchSize, slices, idsMax: new Array<number>(T).fill(P), exchange };
}

const kernels = () => openKernels("auto");

const recipe = {
  optimizer: optimizerOf({ kind: "adam" }, { kind: "rowWiseAdagrad", learningRate: 0.1 }),
  seed: 3,
};

/** Batch `step`. `idOf`: the id at a position of a bag. */
function batchOf(
  step: number,
  idOf = (random: RandomStream, _place: number) => random.below(rows),
): WholeBatch {
  const random = new RandomStream(9, step);
  return {
    samples: batchSize,
    dense: Float32Array.from({ length: batchSize * dense }, () => random.uniform()),
    labels: Float32Array.from({ length: batchSize }, () => random.below(2)),
    lengths: new Int32Array(batchSize * T).fill(P),
    ids: Int32Array.from({ length: batchSize * T * P }, (_, i) => idOf(random, i % P)),
  };
}

/**
 * Bytes that one device sends to `peers` others in `steps` steps; losses go to `copies` devices.
 */
function expected(peers: number, copies = peers) {
  const header = 2 * 4; // Per frame of ids: its end and the count of ids.
  const slicesOfOne = slices / W;
  const perStep = {
    ids: ((T * b * (4 * P + 4)) / W + header) * peers,
    pooled: ((T * b * D * 4) / W) * peers,
    dPooled: ((T * b * D * 4) / W) * peers,
    losses: 8 * slicesOfOne * copies,
  };
  return Object.fromEntries(Object.entries(perStep).map(([name, bytes]) => [name, bytes * steps]));
}

function sentBy({ sent }: Pick<Exchange, "sent">, way: "shared" | "wire") {
  const { ids, pooled, dPooled, losses } = sent;
  const counts = { ids, pooled, dPooled, losses };
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count[way]]));
}

/**
 * Trains one step on one host, and asserts that the model is that of one device; returns the bytes
 * that each device sends.
 */
async function sentInStep(
  t: ExecutionContext,
  input: TopologyInput,
  batch: WholeBatch,
): Promise<Record<ChannelName, number>[]> {
  const local = startLocalDevices({ input, recipe, devices: W, kernels });
  const alone = startLocalDevices({ input, recipe, devices: 1, kernels });
  t.is(await local.train(batch, 0), await alone.train(batch, 0));
  t.is(await local.digest(), await alone.digest());
  return local.states.map(({ exchange }) => {
    const counts = channelNames.map((name) => [name, exchange.sent[name].shared]);
    return Object.fromEntries(counts) as Record<ChannelName, number>;
  });
}

const frameHeader = 2 * 4;
const stale = { stalePartials: 0, stalePooled: 0, staleRows: 0, deferred: 0 };
const vectors = { partials: 0, pooled: 0, dPooled: 0, dPartials: 0, ...stale };
const columns = { bagLengths: 0, rows: 0, dRows: 0, rowSums: 0, scores: 0, statistics: 0 };
const nothing = { ...vectors, ...columns };
const losses = (W - 1) * 8 * (slices / W);

test("a step on one host sends the bytes of the table-wise formulas", async (t) => {
  const input = inputOf();
  const local = startLocalDevices({ input, recipe, devices: W, kernels });
  for (const tables of local.topology.heldBy) t.is(tables.length, T / W);
  for (let step = 0; step < steps; step++) await local.train(batchOf(step), step);
  const n = local.topology.gradientLength;
  let gradients = 0;
  for (const { exchange } of local.states) {
    t.deepEqual(sentBy(exchange, "shared"), expected(W - 1));
    t.deepEqual(sentBy(exchange, "wire"), expected(0));
    gradients += exchange.sent.gradients.shared;
  }
  t.is(gradients, steps * 2 * (W - 1) * 4 * n); // 2 (W-1)/W of the vector on each device.
});

test("row-wise: each device gets ids of its rows, and all lengths and vectors", async (t) => {
  const input = inputOf({ sharding: "row-wise", rowBlocks: W });
  // One id of each bag per block.
  const batch = batchOf(0, (random, place) => (place * rows) / W + random.below(rows / W));
  const toOne = T * b * D * 4;
  const expected = {
    ...nothing,
    ids: (W - 1) * (T * b * (4 + 4 * (P / W)) + frameHeader),
    pooled: (W - 1) * toOne,
    dPooled: (W - 1) * toOne,
    losses,
  };
  for (const sent of await sentInStep(t, input, batch)) t.deepEqual(sent, expected);
});

test("row-wise dynamic ids are sent in two words, with a length per bag for means", async (t) => {
  const dynamic = dynamicOptions.parse({});
  const rowWise = { sharding: "row-wise", rowBlocks: W, pooling: "mean" } as const;
  const input = inputOf({ ...rowWise, dynamic, idBits: 64 });
  // One id of each bag per block.
  const idOf = (random: RandomStream, place: number) => {
    for (let id = random.below(1000); ; id++) {
      if (mix64(BigInt(id)) % BigInt(W) === BigInt(place)) return id;
    }
  };
  const batch = batchOf(0, idOf);
  const sent = await sentInStep(t, input, { ...batch, highs: new Int32Array(batch.ids.length) });
  for (const one of sent) {
    t.deepEqual(one, {
      ...nothing,
      ids: (W - 1) * (T * b * (4 + 8 * (P / W)) + frameHeader),
      bagLengths: (W - 1) * T * b * 4,
      pooled: (W - 1) * T * b * D * 4,
      dPooled: (W - 1) * T * b * D * 4,
      losses,
    });
  }
});

test("column-wise: ids are sent once per shard, vectors as for whole tables", async (t) => {
  const [c, wide] = [2, 64];
  const input = inputOf({ sharding: "column-wise", dim: wide });
  const topology = topologyOf(input, W);
  const batch = batchOf(0);
  // Row-wise Adagrad's sums: a float for each distinct row of a table whose columns are on several
  // devices.
  const apart = topology.columnGroups.filter(([left, right]) => left?.device !== right?.device);
  const idsOf = (table: number) =>
    new Set(batch.ids.subarray(table * batchSize * P, (table + 1) * batchSize * P)).size;
  for (const [rank, sent] of (await sentInStep(t, input, batch)).entries()) {
    t.is(topology.heldBy[rank]?.length, (T * c) / W);
    const own = apart.filter((group) => group.some(({ device }) => device === rank));
    t.deepEqual(sent, {
      ...nothing,
      ids: (W - 1) * (((c * T) / W) * b * (4 + 4 * P) + frameHeader),
      pooled: (W - 1) * (T / W) * b * wide * 4,
      dPooled: (W - 1) * (T / W) * b * wide * 4,
      rowSums: own.reduce((sum, [shard]) => sum + 4 * idsOf(shard?.table ?? 0), 0),
      losses,
    });
  }
});

for (const [forward, backward] of [
  ["float16", "bfloat16"],
  ["bfloat16", "int8"],
  ["int8", "float32"],
  ["float8e4m3", "float8e5m2"],
] as const) {
  test(`vectors in ${forward}, gradients in ${backward} send half the bytes, or a quarter`, async (t) => {
    // int8: one byte per element and one per quantum, in full words.
    const bytes = { float32: 4 * b * D, float16: 2 * b * D, bfloat16: 2 * b * D };
    const float8 = 4 * Math.ceil((b * D) / 4);
    const bytesOf = {
      ...bytes,
      int8: 4 * Math.ceil((b * (D + 1)) / 4),
      float8e4m3: float8,
      float8e5m2: float8,
    };
    const expected = {
      ...nothing,
      ids: (W - 1) * ((T / W) * b * (4 + 4 * P) + frameHeader),
      pooled: (W - 1) * (T / W) * bytesOf[forward],
      dPooled: (W - 1) * (T / W) * bytesOf[backward],
      losses,
    };
    const batch = batchOf(0);
    for (const sent of await sentInStep(
      t,
      inputOf({}, { ...exactExchange, forward, backward }),
      batch,
    )) {
      t.deepEqual(sent, expected);
    }
  });
}

test("tables with dedup send distinct rows, and gradients of them back", async (t) => {
  const input = inputOf({ dedup: true });
  const batch = batchOf(0, (random) => random.below(10));
  const { distinctBy } = topologyOf(input, W);
  /** The count of distinct rows that `from` requests of `to`. */
  const requestedRows = (from: number, to: number) =>
    (distinctBy[to] ?? []).reduce((sum, { table }) => {
      const first = (table * batchSize + from * b) * P;
      return sum + new Set(batch.ids.subarray(first, first + b * P)).size;
    }, 0);
  const devices = Array.from({ length: W }, (_, device) => device);
  for (const [rank, sent] of (await sentInStep(t, input, batch)).entries()) {
    const others = devices.filter((device) => device !== rank);
    const total = (rowsOf: (other: number) => number) =>
      others.reduce((sum, other) => sum + rowsOf(other), 0);
    const ids = total((other) => frameHeader + 4 * (T / W) + 4 * requestedRows(rank, other));
    t.deepEqual(sent, {
      ...nothing,
      ids,
      rows: 4 * D * total((other) => requestedRows(other, rank)),
      dRows: 4 * D * total((other) => requestedRows(rank, other)),
      losses,
    });
    t.true(requestedRows(rank, others[0] ?? 0) <= 10 * (T / W)); // Of b * P = 24 lookups in each table.
  }
});

for (const dedup of [false, true]) {
  const title = dedup ? "of distinct rows" : "of vectors";
  test(`two hosts send the same bytes ${title}, partly over the wire, and train the same model`, async (t) => {
    for (const { sent } of await trainOnHosts(t, inputOf({ dedup }))) {
      if (dedup) break; // Bytes then depend on each device's ids.
      t.deepEqual(sentBy({ sent }, "shared"), expected(L - 1));
      t.deepEqual(sentBy({ sent }, "wire"), expected(W - L, 1));
    }
  });
}

test("two hosts with deduplicated lists train the same model, and send fewer bytes", async (t) => {
  const groups = [[0, 1], [2], [5]];
  const repeated = (step: number) => withRepeatedLists(batchOf(step), groups, step);
  const exchanges: readonly ExchangeSpec[] = [
    exactExchange,
    { ...exactExchange, forward: "float16", backward: "bfloat16" },
  ];
  const tables: readonly Partial<TableOptions>[] = [
    {},
    { sharding: "table-row-wise", rowBlocks: L },
    { dedup: true },
    { sharding: "row-wise", rowBlocks: W },
  ];
  const cases = [...tables.entries()];
  const usual = cases.filter(([at]) => at % 2 === 0);
  for (const [at, table] of someOrAll("tables of deduplicated lists", usual, cases)) {
    const some = exchanges.filter((_, i) => i === at % 2);
    for (const exchange of someOrAll("exchanges of deduplicated lists", some, exchanges)) {
      const input = inputOf(table, exchange);
      const wire = (all: readonly Exchange[]) =>
        all.reduce(
          (sum, { sent }) => sum + sent.ids.wire + sent.pooled.wire + sent.dPooled.wire,
          0,
        );
      const plain = wire(await trainOnHosts(t, input, repeated));
      const own = wire(await trainOnHosts(t, { ...input, ikjt: groups }, repeated));
      if (!("dedup" in table)) t.true(own < plain, `${own} bytes, and ${plain} of plain lists`);
    }
  }
});

// The third number: the total columns of the tables of which one host has rows.
for (const [title, table, columns] of [
  ["table-row-wise", { sharding: "table-row-wise", rowBlocks: L }, (T / N) * D],
  ["grid", { sharding: "grid", rowBlocks: L, dim: 64 }, (T * 64) / N],
  ["row-wise", { sharding: "row-wise", rowBlocks: W }, T * D],
] as const) {
  for (const [bits, exchange] of [
    ["32", exactExchange],
    ["16", { ...exactExchange, forward: "float16", backward: "bfloat16" }],
  ] as const) {
    test(`${title} over two hosts, in ${bits} bits: summed per host, sent once per host`, async (t) => {
      const e = Number(bits) / 8;
      const toOne = steps * b * columns * e; // b D e, as in docs/parallelism.md.
      const [up, out] = [((L - 1) / L) * W * toOne, (N - 1) * toOne];
      const input = inputOf(table, exchange);
      const tables = input.model.tables.map((own) => ({ ...own, scheme: schemeOf(own), cost: 1 }));
      const plan = place(tables, { hosts: N, perHost: L });
      for (const { sent } of await trainOnHosts(t, input)) {
        t.is(sent.partials.shared + sent.pooled.shared, up);
        t.is(sent.partials.shared, (N - 1) * (L - 1) * toOne);
        t.is(sent.pooled.wire, out);
        t.is(sent.dPartials.shared + sent.dPooled.shared, up);
        t.is(sent.dPartials.shared, (N - 1) * (L - 1) * toOne);
        t.is(sent.dPooled.wire, out);
        t.is(sent.partials.wire + sent.dPartials.wire, 0);
      }
      // The planner predicts the same bytes, summed over all devices.
      const planned = input.model.tables.map((own) => plannedTable(own.name, own));
      const wire = { idBytes: 0, lengthBytes: 0, forwardBytes: e, backwardBytes: e };
      const setting = settingOf(planned, plan.devices, wire, batchSize);
      const { traffic } = assessPlan(setting, plan);
      t.like(traffic, {
        forward: (W * (up + out)) / steps,
        backward: (W * (up + out)) / steps,
        acrossHosts: (W * 2 * out) / steps,
      });
    });
  }
}

/** Trains on two hosts joined by bridges; asserts that the model is that of one device. */
async function trainOnHosts(
  t: ExecutionContext,
  input: TopologyInput,
  makeBatch: (step: number) => WholeBatch = batchOf,
): Promise<readonly Exchange[]> {
  const hostOf = [0, 0, 1, 1];
  const topology = topologyOf(input, W, hostOf);
  const faults = { delayMs: [0, 5], drop: 0.02, reorder: 0.1 } as const;
  const hosts = startBridgedHosts({ shape: exchangeShapeOf(topology), hostOf, seed: 4, faults });
  const states = hosts.exchanges.map((exchange, rank) =>
    createDeviceState({ rank, topology, recipe, kernels: kernels(), exchange }),
  );
  await hosts.run(async ({ rank }) => {
    for (let step = 0; step < steps; step++) {
      const state = states[rank];
      if (state !== undefined) {
        await trainStep(state, localPart(topology, rank, makeBatch(step)), step, -1);
      }
    }
  });
  for (const [host, { traffic }] of hosts.bridges.entries()) {
    const mine = hosts.exchanges.filter(({ rank }) => hostOf[rank] === host);
    for (const [name, bytes] of Object.entries(traffic.bytes)) {
      const handed = mine.reduce((sum, one) => sum + (one.sent[name as "ids"]?.wire ?? 0), 0);
      t.is(bytes, handed, name);
    }
  }
  const leaves = await leavesOfParts(states);
  const local = startLocalDevices({ input, recipe, devices: 1, kernels });
  for (let step = 0; step < steps; step++) await local.train(makeBatch(step), step);
  t.is(digestOf(leaves, input.model.tables), await local.digest());
  return hosts.exchanges;
}
