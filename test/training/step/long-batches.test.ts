// A batch with more ids than the exchange's buffers hold is sent in several rounds: same bits.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import { dynamicOptions } from "../../../src/embedding/tables/dynamic-options.ts";
import type { TableOptions } from "../../../src/embedding/tables/options.ts";
import { tiersOptions } from "../../../src/embedding/tables/tier-options.ts";
import { ringLayoutOf } from "../../../src/exchange/batch-ring.ts";
import { layoutOf } from "../../../src/exchange/layout.ts";
import { createRowCache, findPlace, withSpares } from "../../../src/kernels/contract/row-cache.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { type ModelOptions, modelOptions } from "../../../src/model/options.ts";
import { digestOf } from "../../../src/training/checkpoint/part-names.ts";
import { createDeviceState } from "../../../src/training/step/device-state.ts";
import { trainStep } from "../../../src/training/step/step.ts";
import { exchangeShapeOf } from "../../../src/training/topology/exchange-shape.ts";
import {
  ringShapeOf,
  type TopologyInput,
  topologyOf,
} from "../../../src/training/topology/topology.ts";
import { tierRingBytes } from "../../../storage/tiers/ring-slots.ts";
import { tierRingOf } from "../../../storage/tiers/shape.ts";
import { startBridgedHosts } from "../../exchange/bridged-hosts.ts";
import { randomBatch } from "../../helpers/batches/random-batch.ts";
import {
  localPart,
  startLocalDevices,
  type WholeBatch,
} from "../../helpers/devices/local-devices.ts";
import { leavesOfParts } from "../../helpers/devices/parts.ts";
import { someOrAll } from "../../helpers/thinned.ts";

const [samples, slices, steps] = [24, 8, 3];
const rows = [60, 40, 50];
const idsMax = [12, 9, 7];
const dim = 64;

/** Far below the batches' mean: buffers are so small that a frame takes several rounds. */
const idsMean = [0.01, 0.01, 0.01];

function modelOf(table: Partial<TableOptions> & object, features?: unknown): ModelOptions {
  const tables = ["a", "b", "c"].map((name, i) => ({ name, rows: rows[i] ?? 0, dim, ...table }));
  const options = { kind: "dlrm", dense: 2, tables, bottom: [8, dim], top: [8, 1] };
  return { ...options, ...(features === undefined ? {} : { features }) } as unknown as ModelOptions;
}

const sequences = [
  {
    ...{ column: "a", pooling: "none", maxLength: 6, kept: "last" },
    encoder: { kind: "attention", heads: 2 },
  },
  { column: "b" },
  { column: "c" },
];

/** Models that exchange different data: vectors, distinct rows, sums of rows, two-word ids. */
const models: Readonly<Record<string, ModelOptions>> = {
  "whole tables": modelOf({}),
  "tables in rows": modelOf({ sharding: "row-wise", rowBlocks: 4 }),
  "tables in columns": modelOf({ sharding: "column-wise" }),
  "deduplicated rows": modelOf({ dedup: true }),
  "deduplicated rows in columns": modelOf({ dedup: true, sharding: "column-wise" }),
  "replicated tables": modelOf({ sharding: "data-parallel" }),
  sequences: modelOf({}, sequences),
  "dynamic ids": modelOf({ idBits: 64, dynamic: dynamicOptions.parse({}) }),
};

function inputOf(
  model: ModelOptions,
  isLong: boolean,
  ikjt?: TopologyInput["ikjt"],
): TopologyInput {
  const input = { model: modelOptions.parse(model), batchSize: samples, slices, idsMax, ikjt };
  return isLong ? { ...input, idsMean } : input;
}

const recipeOf = (sparse: "lamb" | "rowWiseAdagrad") => ({
  optimizer: optimizerOf({ kind: "adam" }, { kind: sparse, learningRate: 0.05 }),
  seed: 3,
});
const recipe = recipeOf("rowWiseAdagrad");

/** A batch of bags of 7 ids or more. */
function batchOf(step: number): WholeBatch {
  const batch = randomBatch({ rows, idsMin: 7, idsMax, dense: 2 }, step, samples);
  return { ...batch, highs: new Int32Array(batch.ids.length).fill(5) };
}

/**
 * Losses, scores and digest after a few steps, and the rounds in which devices sent their frames of
 * ids.
 */
async function train(input: TopologyInput, devices: number, own = recipe) {
  const local = startLocalDevices({ input, recipe: own, devices, kernels: createReference });
  let rounds = 0;
  for (const { exchange } of local.states) {
    const { ids } = exchange;
    const { start } = ids;
    ids.start = (used) => {
      rounds++;
      start(used);
    };
  }
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) losses.push(await local.train(batchOf(step), step));
  const scores = [...(await local.score(batchOf(9)))];
  return { losses, scores, digest: await local.digest(), rounds };
}

for (const [title, model] of Object.entries(models)) {
  test(`batches that overflow their room give the same model: ${title}`, async (t) => {
    const { rounds, ...expected } = await train(inputOf(model, false), 1);
    t.is(rounds, steps + 1, "with room for the longest batch, a frame takes one round");
    for (const devices of someOrAll("devices of long batches", [1, 3], [1, 2, 3, 4])) {
      const { rounds: longRounds, ...actual } = await train(inputOf(model, true), devices);
      t.deepEqual(actual, expected, `${devices} devices`);
      if (title === "replicated tables") continue; // Their ids are not sent.
      t.true(longRounds >= 2 * devices * rounds, `${longRounds} rounds on ${devices} devices`);
    }
  });
}

test("batches that overflow give the same model with LAMB over columns", async (t) => {
  const model = modelOf({ sharding: "column-wise" });
  const lamb = recipeOf("lamb");
  const { rounds: _, ...expected } = await train(inputOf(model, false), 1, lamb);
  const { rounds: __, ...actual } = await train(inputOf(model, true), 2, lamb);
  t.deepEqual(actual, expected);
});

const cachedModels: readonly (Partial<TableOptions> & object)[] = [
  {},
  { dedup: true },
  { sharding: "column-wise", dedup: true },
  { idBits: 64, dynamic: dynamicOptions.parse({}) },
];

test("batches that overflow the tiers' slots and the caches' spare slots give the same model", async (t) => {
  const tiers = tiersOptions.parse({ hbmBytes: 20_000, ddrBytes: 0, prefetch: 0 });
  for (const [i, table] of cachedModels.entries()) {
    const { rounds: _, ...expected } = await train(inputOf(modelOf(table), false), 1);
    const model = modelOf({ ...table, tier: "cached" });
    for (const devices of someOrAll("devices of cached tables", [1, 3], [1, 2, 3, 4])) {
      const { rounds: __, ...actual } = await train({ ...inputOf(model, true), tiers }, devices);
      t.deepEqual(actual, expected, `tables ${i}, ${devices} devices`);
    }
  }
});

test("a cache that grows while batches are in flight finds their rows where they were", (t) => {
  const kernels = createReference();
  const cache = createRowCache({ policy: "lru", sets: 1, spares: 40, rows: 1000 });
  const ids = Int32Array.from({ length: 60 }, (_, row) => 7 * row);
  const places = new Int32Array(ids.length);
  kernels.placeRows(cache, places, ids, 1);
  const grown = withSpares(cache, 100);
  t.deepEqual(
    [...ids].map((row) => findPlace(grown, row)),
    [...places],
  );
  const later = Int32Array.from({ length: 90 }, (_, row) => 7 * (row + 30));
  const laterPlaces = new Int32Array(later.length);
  kernels.placeRows(grown, laterPlaces, later, 2);
  t.deepEqual([...laterPlaces.subarray(0, 30)], [...places.subarray(30)]);
  t.is(new Set([...places, ...laterPlaces]).size, 120, "no two rows share a slot");
});

test("cached tables reserve for usual batches, and grow for longer ones", async (t) => {
  const tiers = tiersOptions.parse({ hbmBytes: 20_000, ddrBytes: 0, prefetch: 2 });
  const model = modelOf({ tier: "cached" });
  const bytesOf = (input: TopologyInput) => {
    const shape = tierRingOf(topologyOf(input, 1), 0, recipe.optimizer.sparse);
    return shape === undefined ? 0 : tierRingBytes(shape);
  };
  const usual = { ...inputOf(model, true), batchSize: 16_384, tiers };
  const many = 10_000_000;
  const tables = usual.model.tables.map((one) => ({ ...one, rows: many }));
  const large = { ...usual, model: { ...usual.model, tables } };
  t.true(bytesOf({ ...large, idsMean: undefined }) > 100 * bytesOf(large));
  const local = startLocalDevices({
    ...{ input: { ...inputOf(model, true), tiers }, recipe, devices: 1 },
    kernels: createReference,
  });
  const [device] = local.states;
  const sparesOf = () => device?.slab.cached.map(({ cache }) => cache.spares) ?? [];
  const before = sparesOf();
  await local.train(batchOf(0), 0);
  t.true(
    sparesOf().some((spares, i) => spares > (before[i] ?? 0)),
    `${before}, ${sparesOf()}`,
  );
  for (const [i, own] of device?.slab.cached.entries() ?? []) {
    t.is(own.cache.head[0], own.cache.spares, `all spare slots of table ${i} are free again`);
  }
});

test("batches that overflow give the same model on two hosts", async (t) => {
  const hostOf = [0, 0, 1];
  for (const title of ["deduplicated rows in columns", "sequences", "tables in rows"]) {
    const input = inputOf(models[title] ?? modelOf({}), true);
    const topology = topologyOf(input, 3, hostOf);
    const faults = { delayMs: [0, 5], drop: 0.02, reorder: 0.1 } as const;
    const hosts = startBridgedHosts({ shape: exchangeShapeOf(topology), hostOf, seed: 4, faults });
    const states = hosts.exchanges.map((exchange, rank) =>
      createDeviceState({ rank, topology, recipe, kernels: createReference(), exchange }),
    );
    await hosts.run(async ({ rank }) => {
      for (let step = 0; step < steps; step++) {
        const state = states[rank];
        if (state === undefined) continue;
        await trainStep(state, localPart(topology, rank, batchOf(step)), step, -1);
      }
    });
    const digest = digestOf(await leavesOfParts(states), input.model.tables);
    t.is(digest, (await train(inputOf(models[title] ?? modelOf({}), false), 1)).digest, title);
  }
});

test("one list of 6,000 ids in a batch of 16,384 needs megabytes, and trains the same model", async (t) => {
  const [batchSize, most, usual] = [16_384, 6000, 3];
  const model = modelOptions.parse({
    ...{ kind: "dlrm", dense: 1, bottom: [4], top: [1] },
    tables: [{ name: "tags", rows: 500, dim: 4 }],
  });
  const few = randomBatch({ rows: [500], idsMax: [usual], dense: 1 }, 1, batchSize);
  const random = randomBatch({ rows: [500], idsMin: most, idsMax: [most], dense: 0 }, 2, 1);
  const last = few.lengths.length - 1;
  const ends = few.ids.length - (few.lengths[last] ?? 0);
  const lengths = few.lengths.with(last, most);
  const ids = Int32Array.from([...few.ids.subarray(0, ends), ...random.ids]);
  const batch: WholeBatch = { ...few, lengths, ids };
  const plain = { model, batchSize, slices, idsMax: [most] };
  const digests: string[] = [];
  const bytes: number[] = [];
  for (const input of [plain, { ...plain, idsMean: [ids.length / batchSize] }]) {
    const local = startLocalDevices({ input, recipe, devices: 2, kernels: createReference });
    await local.train(batch, 0);
    digests.push(await local.digest());
    const exchange = layoutOf(exchangeShapeOf(local.topology)).bytes;
    bytes.push(exchange + ringLayoutOf(ringShapeOf(local.topology)).bytes);
  }
  t.is(digests[1], digests[0]);
  const [before = 0, now = 0] = bytes;
  t.true(before > 2.5e9, `${before}`);
  t.true(now < 15e6, `${now}`);
});
