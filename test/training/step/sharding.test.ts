// Sharding equivalence: any plan trains the bits of the unsharded tables, under every optimizer, in
// every format of stored and sent rows. Half of the cases have a model of one dim with a feature
// for each table, the other half tables of several dims that features share, some of them unpooled.

import test, { type ExecutionContext } from "ava";
import { randomPlan, randomSlices, usual } from "../../../bench/planner/random-plan.ts";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import type { IkjtGroups } from "../../../src/data/sessions/ikjt.ts";
import type { SparseOptimizerOptions } from "../../../src/embedding/tables/options.ts";
import {
  cachePolicies,
  type TiersSpec,
  tiersOptions,
} from "../../../src/embedding/tables/tier-options.ts";
import type { ExchangeSpec } from "../../../src/exchange/options.ts";
import type { Precision } from "../../../src/kernels/contract/precision.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import {
  adagrad,
  adam,
  ftrl,
  lamb,
  modelOptions,
  partialRowWiseAdam,
  partialRowWiseLamb,
  rowWiseAdagrad,
  sgd,
} from "../../../src/model/options.ts";
import { place } from "../../../src/planner/placement.ts";
import { type PlacedShard, type Plan, type Scheme, schemes } from "../../../src/planner/shards.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { partsNeeded, restorePart } from "../../../src/training/checkpoint/parts.ts";
import { exactExchange } from "../../../src/training/topology/topology.ts";
import { learnableBatch } from "../../helpers/batches/learnable-batch.ts";
import { withRepeatedLists } from "../../helpers/batches/repeated-lists.ts";
import {
  type LocalDevices,
  startLocalDevices,
  type WholeBatch,
} from "../../helpers/devices/local-devices.ts";
import { bytesOfParts } from "../../helpers/devices/parts.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { rounds, someOrAll } from "../../helpers/thinned.ts";

/** The last block of the second table is short, and the last block of the fourth is empty. */
const rows = [40, 13, 30, 9, 20];
const blocks = [8, 4, 1, 8, 2] as const;
const [samples, dense, dim] = [24, 3, 72];
const steps = 3;
/** Dims of mixed models: one table is wider than the vectors that interact, others are narrower. */
const dims = [72, 40, 100, 5, 33];
const features = [
  { column: "T0" },
  { column: "T1", pooling: "none", maxLength: 2 },
  { column: "U0", table: "T0", pooling: "mean" },
  { column: "T2", vectors: 2 },
  { column: "T3" },
  { column: "U3", table: "T3", pooling: "none", maxLength: 3 },
  { column: "T4" },
] as const;
const groups = [{ name: "narrow", features: ["T3", "T4"] }];
/** The table of each feature. */
const tableOf = [0, 1, 0, 2, 3, 3, 4];

interface Choice {
  readonly isMixed?: boolean;
  /** A Wukong with batch normalisation instead of a DLRM; if mixed, a DIN with it. */
  readonly isWukong?: boolean;
  readonly sparse?: SparseOptimizerOptions;
  readonly precision?: Precision;
  readonly exchange?: ExchangeSpec | undefined;
  readonly isWeighted?: boolean;
  readonly isNative?: boolean;
  readonly l2?: number;
  /** Whether each table has `dedup`. @default none */
  readonly dedup?: readonly boolean[];
  /** Features whose lists repeat, and are deduplicated. */
  readonly ikjt?: IkjtGroups;
  /** Storage below device memory, for tables that the plan puts there. */
  readonly tiers?: TiersSpec;
  /** Slices of each device. @default even */
  readonly sliceCounts?: readonly number[];
}

const layers = [{ interacted: 2, compressed: 2, rank: 3, hidden: [8] }];

/** Target attention of mixed models: a target for each sequence, projected to one width. */
const attention = [
  { target: "T0", sequence: "T1", hidden: [6] },
  { target: "T2", sequence: "U3", hidden: [], softmax: true },
];

/** Model options that differ between architectures. */
function architectureOf({ isWukong, isMixed }: Choice) {
  if (isWukong !== true) return { kind: "dlrm", bottom: [8, dim], ...(isMixed && { features }) };
  if (isMixed !== true) return { kind: "wukong", layers, batchNorm: true, bottom: [8, dim] };
  const pairable = features.map(({ column, ...own }) => {
    return column === "T2" ? { column } : { column, ...own };
  });
  return { kind: "din", attention, batchNorm: true, dim: 8, features: pairable };
}

const modelOf = (choice: Choice) => {
  const { precision = "float32", l2 = 0, dedup = [], isMixed } = choice;
  return modelOptions.parse({
    ...architectureOf(choice),
    dense,
    tables: rows.map((count, i) => ({
      name: `T${i}`,
      rows: count,
      dim: isMixed === true ? dims[i] : dim,
      rowBlocks: blocks[i],
      pooling: i % 2 === 1 ? "mean" : "sum",
      initScale: 0.1,
      precision,
      l2,
      dedup: dedup[i] ?? false,
    })),
    ...(isMixed === true ? { groups } : {}),
    top: [16, 1],
  });
};

/** The number of rows of the table of each feature. */
const rowsOf = ({ isMixed = false }: Choice) =>
  isMixed ? tableOf.map((table) => rows[table] ?? 0) : rows;

/** Starts devices. `hostOf`: by default, the plan's hosts. */
function start(choice: Choice, plan: Plan, hostOf = hostsOf(plan)): LocalDevices {
  const { sparse = rowWiseAdagrad({ learningRate: 0.1 }), exchange, isWeighted = false } = choice;
  const input = { batchSize: samples, slices: 8, idsMax: rowsOf(choice).map(() => 2), plan };
  return startLocalDevices({
    input: {
      ...input,
      model: modelOf(choice),
      weighted: rowsOf(choice).map((_, i) => isWeighted && i % 2 === 0),
      tiers: choice.tiers,
      sliceCounts: choice.sliceCounts,
      ikjt: choice.ikjt,
      ...(exchange === undefined ? {} : { exchange }),
    },
    recipe: {
      optimizer: optimizerOf(adagrad({ learningRate: 0.05 }), sparse),
      seed: 3,
    },
    devices: hostOf.length,
    hostOf,
    kernels: () => (choice.isNative === true ? openKernels("auto") : createReference()),
  });
}

function hostsOf({ devices: { hosts, perHost } }: Plan): number[] {
  return Array.from({ length: hosts * perHost }, (_, device) => Math.floor(device / perHost));
}

function batchOf(step: number, choice: Choice): WholeBatch {
  const { isWeighted = false, ikjt } = choice;
  const plain = learnableBatch({ samples, dense, rows: rowsOf(choice) }, step);
  const stream = new RandomStream(8, 9, step);
  const weights = isWeighted ? Float32Array.from(plain.ids, () => stream.uniform()) : undefined;
  const batch = { ...plain, weights };
  return ikjt === undefined ? batch : withRepeatedLists(batch, ikjt, step);
}

/** Trains some steps; returns their losses and the digest after them. */
async function train(local: LocalDevices, choice: Choice, from = 0, to = steps) {
  const losses: number[] = [];
  for (let step = from; step < to; step++)
    losses.push(await local.train(batchOf(step, choice), step));
  return { losses, digest: await local.digest() };
}

/**
 * The same plan with some of its sharded tables below device memory, half of the time with caches
 * sized by the plan; replicated tables stay in device memory.
 */
function tiered(plan: Plan, stream: RandomStream): Plan {
  const backing = rows.map(() => stream.below(3) > 0);
  const isSized = stream.below(2) === 0;
  const shards = plan.shards.map((shard): PlacedShard => {
    const isBelow = shard.device !== "all" && backing[Number(shard.table.slice(1))] === true;
    const cache = isSized ? { hbmBytes: 1 + stream.below(9), ddrBytes: 1 } : undefined;
    return isBelow ? { ...shard, tier: "cached", cache } : { ...shard, tier: "memory" };
  });
  return { ...plan, shards };
}

/** Caches of one set per shard, or of a few of its rows. */
const tiersOf = (stream: RandomStream): TiersSpec =>
  tiersOptions.parse({
    hbmBytes: stream.below(2) === 0 ? 1 : 60_000,
    policy: cachePolicies[stream.below(2)],
  });

const planned = (choice: Choice, scheme: Scheme, hosts: number, perHost: number): Plan => {
  const tables = modelOf(choice).tables.map((table) => ({ ...table, scheme, cost: 1 }));
  return place(tables, { hosts, perHost });
};

const exchanges: readonly ExchangeSpec[] = [
  exactExchange,
  { forward: "float16", backward: "bfloat16", dense: "bfloat16", denseParts: 2 },
  { forward: "int8", backward: "int8", dense: "float16", denseParts: 4 },
  { ...exactExchange, backward: "int8" },
  { ...exactExchange, forward: "float8e4m3", backward: "float8e5m2" },
];

const cases: Record<string, Choice> = {
  SGD: { sparse: sgd({ learningRate: 20 }) },
  Adagrad: { sparse: adagrad({ learningRate: 0.1 }) },
  "row-wise Adagrad with l2": { l2: 0.01 },
  "row-wise Adagrad with decoupled decay": {
    sparse: rowWiseAdagrad({
      learningRate: 0.1,
      weightDecay: 0.01,
      weightDecayMode: "decoupled",
    }),
  },
  Adam: { sparse: adam({ learningRate: 0.01 }) },
  "partial row-wise Adam": { sparse: partialRowWiseAdam({ learningRate: 0.01 }), l2: 0.01 },
  LAMB: { sparse: lamb({ learningRate: 0.01, weightDecay: 0.01 }) },
  "partial row-wise LAMB": { sparse: partialRowWiseLamb({ learningRate: 0.01 }), l2: 0.01 },
  FTRL: { sparse: ftrl({ learningRate: 0.5, l1: 0.01 }) },
  "clipped rows": {
    sparse: rowWiseAdagrad({ learningRate: 0.1, clip: { value: 0.002 } }),
    l2: 0.01,
  },
  "clipped rows in float16, under LAMB": {
    sparse: lamb({ learningRate: 0.01, clip: { value: 0.002 } }),
    precision: "float16",
  },
  "weighted bags": { isWeighted: true },
  "rows in float16": { precision: "float16" },
  "rows in bfloat16, under Adam": { precision: "bfloat16", sparse: adam({ learningRate: 0.01 }) },
  "rows in int8": { precision: "int8" },
  "vectors in float16, gradients in bfloat16, dense ones too": { exchange: exchanges[1] },
  "vectors and gradients in int8, weighted": { exchange: exchanges[2], isWeighted: true },
  "vectors and gradients in float8, some tables with dedup": {
    exchange: exchanges[4],
    dedup: [true, false, true, true, false],
  },
  "gradients alone in float16": { exchange: { ...exactExchange, backward: "float16" } },
};

/** Clusters: the host of each device. */
const clusters = [
  [0, 0, 0],
  [0, 0, 1, 1],
  [0, 0, 0, 1, 1],
  [0, 1, 1, 2, 2, 2],
];

/**
 * Asserts that a random plan on each of these clusters trains like whole tables on one device: as
 * it is, through tiers, and with `dedup`.
 */
async function anyPlanIsEqual(
  t: ExecutionContext,
  own: Choice,
  stream: RandomStream,
  drawn: readonly number[],
): Promise<void> {
  const expected = await train(start(own, planned(own, "table-wise", 1, 1)), own);
  t.true(expected.losses.every(Number.isFinite));
  for (const i of drawn) {
    const { plan, hostOf, dedup, what } = await drawnPlanIsEqual(t, own, { stream, i, expected });
    t.deepEqual(await train(start(own, plan, hostOf), own), expected, what);
    if (!dedup.includes(true)) continue;
    t.deepEqual(await train(start({ ...own, dedup }, plan, hostOf), own), expected, `${dedup}`);
  }
}

/** Asserts the same through tiers, with `dedup` and servers, for a random plan on cluster `i`. */
async function drawnPlanIsEqual(
  t: ExecutionContext,
  own: Choice,
  drawn: { stream: RandomStream; i: number; expected: Awaited<ReturnType<typeof train>> },
) {
  const { stream, i, expected } = drawn;
  const hostOf = clusters[i] ?? [];
  const { tables } = modelOf(own);
  // `dedup` tables are not copied: copies send no rows, so the exchange would not round them.
  const copyable = new Set(tables.flatMap(({ name, dedup }) => (dedup ? [] : name)));
  const plan = randomPlan(tables, hostOf.length, stream, { ...usual, copyable });
  const what = `${hostOf} ${JSON.stringify(plan)}`;
  // A quantised exchange rounds other values with `dedup`, so it is that of the reference run.
  const drawnDedup = rows.map(() => i % 2 === 1 && stream.below(3) > 0);
  const dedup = own.exchange === undefined ? drawnDedup : (own.dedup ?? []);
  const sliceCounts = randomSlices(8, hostOf.length, stream);
  const backing = { ...own, dedup, tiers: tiersOf(stream), sliceCounts };
  const through = await train(start(backing, tiered(plan, stream), hostOf), own);
  t.deepEqual(through, expected, `through tiers, ${dedup} ${sliceCounts} ${what}`);
  return { plan, hostOf, dedup, what };
}

/** Groups of deduplicated features. Mixed: lookups of one table or projection have several axes. */
const ikjtOf = (isMixed: boolean) => (isMixed ? [[1, 5], [2], [6]] : [[0, 2], [3]]);

// On every change, each case has one random plan on one cluster; every other pair has deduplicated
// lists, every sixth case the reference kernels. The tests below try all of them on all clusters.
for (const [at, [title, choice]] of Object.entries(cases).entries()) {
  test(`a random plan trains the bits of whole tables on one device: ${title}`, async (t) => {
    const isMixed = at % 2 === 0;
    const kind = { isMixed, isWukong: at % 3 === 1, isNative: at % 6 !== 3 };
    const own = { ...choice, ...kind, ...(at % 4 < 2 && { ikjt: ikjtOf(isMixed) }) };
    const i = (at + (at >> 2)) % 4;
    const expected = await train(start(own, planned(own, "table-wise", 1, 1)), own);
    t.true(expected.losses.every(Number.isFinite));
    await drawnPlanIsEqual(t, own, { stream: new RandomStream(3, title.length, at), i, expected });
  });
}

for (const [at, [title, choice]] of Object.entries(cases).entries()) {
  for (const isNative of [false, true]) {
    const isMixed = isNative === (at % 2 === 0);
    const isWukong = at % 3 === 1;
    const kinds = `${isMixed ? ", shared" : ""}${isWukong ? ", of another architecture" : ""}`;
    const how = `${kinds}${isNative ? ", native" : ""}`;
    testIf(testAll)(
      `any plan trains the bits of whole tables on one device: ${title}${how}`,
      async (t) => {
        const own = { ...choice, isNative, isMixed, isWukong };
        const stream = new RandomStream(1, title.length, isNative ? 1 : 0);
        await anyPlanIsEqual(t, own, stream, [0, 1, 2, 3]);
      },
    );
  }
}

for (const [at, [title, choice]] of Object.entries(cases).entries()) {
  const isMixed = at % 2 === 0;
  const isWukong = at % 3 === 1;
  const isNative = at % 4 < 2;
  testIf(testAll)(
    `any plan trains the same bits where lists are deduplicated: ${title}`,
    async (t) => {
      const own = { ...choice, isNative, isMixed, isWukong, ikjt: ikjtOf(isMixed) };
      const stream = new RandomStream(2, title.length, isNative ? 1 : 0);
      await anyPlanIsEqual(t, own, stream, [0, 1, 2, 3]);
    },
  );
}

for (const [at, scheme] of schemes.entries()) {
  test(`every table ${scheme} over two hosts trains the bits of one device`, async (t) => {
    const isCutByRows = ["row-wise", "table-row-wise", "grid"].includes(scheme);
    const some = exchanges.slice(at % 4, (at % 4) + 1);
    for (const exchange of someOrAll(`exchanges of ${scheme} tables`, some, exchanges)) {
      const isNative = exchange.forward !== "float32";
      const choice: Choice = { exchange, isNative, isMixed: exchange.backward !== "int8" };
      const expected = await train(start(choice, planned(choice, "table-wise", 1, 1)), choice);
      for (const perHost of someOrAll(`devices of ${scheme} tables`, [2 + (at % 2)], [2, 3])) {
        const local = start(choice, planned(choice, scheme, 2, perHost));
        t.is(local.topology.hostSumsOf.flat().length > 0, isCutByRows);
        t.deepEqual(await train(local, choice), expected);
      }
    }
  });
}

for (const [title, choice] of Object.entries({
  "row-wise Adagrad": {},
  "partial row-wise LAMB in int8": {
    sparse: partialRowWiseLamb({ learningRate: 0.01 }),
    precision: "int8" as const,
  },
  Adam: { sparse: adam({ learningRate: 0.01 }) },
})) {
  test(`a checkpoint of one plan resumes under another: ${title}`, async (t) => {
    const own: Choice = { ...choice, isNative: true, isMixed: title !== "Adam" };
    const expected = await train(start(own, planned(own, "table-wise", 1, 1)), own);
    const stream = new RandomStream(4, 2, title.length);
    for (let i = 0; i < rounds(`pairs of plans of ${title}`, 1, 4); i++) {
      const [before, after] = [3, 2].map((devices) => {
        const plan = randomPlan(modelOf(own).tables, devices, stream);
        const tiers = tiersOf(stream);
        return start({ ...own, tiers }, i % 2 === 1 ? plan : tiered(plan, stream));
      });
      if (before === undefined || after === undefined) return t.fail();
      await train(before, own, 0, 2);
      const parts = await bytesOfParts(before.states);
      for (const state of after.states) {
        for (const name of partsNeeded(state, [...parts.keys()])) {
          await restorePart(state, name, [[parts.get(name) ?? new Uint8Array()]]);
        }
      }
      t.is(await after.digest(), await before.digest());
      t.is((await train(after, own, 2)).digest, expected.digest);
    }
  });
}
