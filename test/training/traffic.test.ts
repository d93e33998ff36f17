// The bytes that a step sends, counted, beside the formulas of table-wise sharding (Neo, Mudigere
// et al., arXiv 2104.05158; docs/parallelism.md has them in our formats); and the same step on two
// hosts, whose bytes are those formulas' too, and whose model is the same.

import test from "ava";
import { sparseOptimizerOptions } from "../../src/embedding/options.ts";
import type { Exchange } from "../../src/exchange/exchange.ts";
import { createReference } from "../../src/kernels/reference.ts";
import { denseOptimizerOptions, modelOptions } from "../../src/model/options.ts";
import { RandomStream } from "../../src/random.ts";
import { createDeviceState } from "../../src/training/device-state.ts";
import { digestOf } from "../../src/training/part-names.ts";
import { partsOf } from "../../src/training/parts.ts";
import { trainStep } from "../../src/training/step.ts";
import { exchangeShapeOf, topologyOf } from "../../src/training/topology.ts";
import { startBridgedHosts } from "../exchange/bridged-hosts.ts";
import { localPart, startLocalDevices, type WholeBatch } from "../helpers/local-devices.ts";

// W devices, T tables of the same size, b samples of each device, D columns, P ids in every bag.
const [W, T, b, D, P] = [4, 8, 6, 16, 3];
const batchSize = b * W;
const slices = 8;
const rows = 40;
const dense = 5;
const steps = 3;

const model = modelOptions.parse({
  kind: "dlrm",
  dense,
  tables: Array.from({ length: T }, (_, i) => ({ name: `T${i}`, rows, dim: D })),
  bottom: [16, D],
  top: [16, 1],
});
const input = { model, batchSize, slices, idsMax: new Array<number>(T).fill(P) };
const recipe = {
  optimizer: {
    dense: denseOptimizerOptions.parse({ kind: "adam" }),
    sparse: sparseOptimizerOptions.parse({ kind: "rowWiseAdagrad", learningRate: 0.1 }),
  },
  seed: 3,
};

function batchOf(step: number): WholeBatch {
  const random = new RandomStream(9, step);
  return {
    samples: batchSize,
    dense: Float32Array.from({ length: batchSize * dense }, () => random.uniform()),
    labels: Float32Array.from({ length: batchSize }, () => random.below(2)),
    lengths: new Int32Array(batchSize * T).fill(P),
    ids: Int32Array.from({ length: batchSize * T * P }, () => random.below(rows)),
  };
}

/** Bytes that one device sends to `peers` others in `steps` steps. */
function expected(peers: number) {
  const header = 2 * 4; // Of each frame of ids: where to stop, and how many ids follow.
  const slicesOfOne = slices / W;
  const perStep = {
    ids: ((T * b * (4 * P + 4)) / W + header) * peers,
    pooled: ((T * b * D * 4) / W) * peers,
    dPooled: ((T * b * D * 4) / W) * peers,
    losses: 8 * slicesOfOne * peers,
  };
  return Object.fromEntries(Object.entries(perStep).map(([name, bytes]) => [name, bytes * steps]));
}

function sentBy({ sent }: Exchange, way: "shared" | "wire") {
  const { ids, pooled, dPooled, losses } = sent;
  const counts = { ids, pooled, dPooled, losses };
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count[way]]));
}

test("a step on one host sends what the formulas of table-wise sharding say", async (t) => {
  const local = startLocalDevices({ input, recipe, devices: W, kernels: createReference });
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

test("two hosts send the same bytes, a part of them over the wire, and train the same model", async (t) => {
  const hostOf = [0, 0, 1, 1];
  const L = 2;
  const topology = topologyOf(input, W);
  const faults = { delayMs: [0, 5], drop: 0.02, reorder: 0.1 } as const;
  const hosts = startBridgedHosts({ shape: exchangeShapeOf(topology), hostOf, seed: 4, faults });
  const states = hosts.exchanges.map((exchange, rank) =>
    createDeviceState({ rank, topology, recipe, kernels: createReference(), exchange }),
  );
  await hosts.run(async ({ rank }) => {
    for (let step = 0; step < steps; step++) {
      const state = states[rank];
      if (state !== undefined) {
        await trainStep(state, localPart(topology, rank, batchOf(step)), step, -1);
      }
    }
  });
  for (const exchange of hosts.exchanges) {
    t.deepEqual(sentBy(exchange, "shared"), expected(L - 1));
    t.deepEqual(sentBy(exchange, "wire"), expected(W - L));
  }
  for (const [host, { traffic }] of hosts.bridges.entries()) {
    const mine = hosts.exchanges.filter(({ rank }) => hostOf[rank] === host);
    for (const [name, bytes] of Object.entries(traffic.bytes)) {
      const handed = mine.reduce((sum, one) => sum + one.sent[name as "ids"].wire, 0);
      t.is(bytes, handed, name);
    }
  }
  const leaves = new Map(
    states.flatMap((state) => partsOf(state).map((part) => [part.name, part.leaves()] as const)),
  );
  const local = startLocalDevices({ input, recipe, devices: 1, kernels: createReference });
  for (let step = 0; step < steps; step++) await local.train(batchOf(step), step);
  t.is(digestOf(leaves, model.tables), local.digest());
});
