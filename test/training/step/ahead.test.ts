// Tables that are read ahead train the same bits, whatever share of a batch's rows the batch before
// changes: under any plan, optimizer, precision, tier and interleaving.

import test, { type ExecutionContext } from "ava";
import { randomPlan, usual } from "../../../bench/planner/random-plan.ts";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import type {
  SparseOptimizerOptions,
  TableOptions,
} from "../../../src/embedding/tables/options.ts";
import { tiersOptions } from "../../../src/embedding/tables/tier-options.ts";
import { IdOutOfRangeError, InvalidOptionError } from "../../../src/errors/errors.ts";
import type { ExchangeSpec } from "../../../src/exchange/options.ts";
import { type JobOptions, jobIdentity, resolveJob } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { adam, lamb, modelOptions } from "../../../src/model/options.ts";
import type { PlacedShard, Plan } from "../../../src/planner/shards.ts";
import { purposes, RandomStream } from "../../../src/ports/random.ts";
import { exactExchange, topologyOf } from "../../../src/training/topology/topology.ts";
import * as dynamic from "../../helpers/batches/dynamic-scene.ts";
import { withRepeatedLists } from "../../helpers/batches/repeated-lists.ts";
import type { WholeBatch } from "../../helpers/devices/local-devices.ts";
import { trainPiped } from "../../helpers/devices/piped-training.ts";
import { rounds } from "../../helpers/thinned.ts";

const rows = [300, 90, 40, 400, 9];
const rowBlocks = [8, 4, 1, 8, 2] as const;
const idsMax = [3, 1, 4, 2, 2];
const [dense, batchSize, steps, window] = [3, 24, 10, 4];

/** A batch of which about `overlap` of the ids are ids of the batch before. */
function batchesOf(overlap: number, seed: number, samples = batchSize): WholeBatch[] {
  const stream = new RandomStream(seed, purposes.syntheticIds, 7);
  let before: (readonly number[])[] = rows.map(() => []);
  return Array.from({ length: steps }, () => {
    const lengths: number[] = [];
    const own = rows.map((count, table): number[] => {
      const last = before[table] ?? [];
      const ids: number[] = [];
      for (let sample = 0; sample < samples; sample++) {
        const length = stream.below((idsMax[table] ?? 0) + 1);
        lengths.push(length);
        for (let i = 0; i < length; i++) {
          const isAgain = last.length > 0 && stream.uniform() < overlap;
          let id = isAgain ? (last[stream.below(last.length)] ?? 0) : stream.below(count);
          for (let tries = 0; !isAgain && tries < 9 && last.includes(id); tries++)
            id = stream.below(count);
          ids.push(id);
        }
      }
      return ids;
    });
    before = own;
    return {
      samples,
      dense: Float32Array.from({ length: samples * dense }, () => stream.normal()),
      labels: Float32Array.from({ length: samples }, () => stream.below(2)),
      lengths: Int32Array.from(lengths),
      ids: Int32Array.from(own.flat()),
    };
  });
}

interface Choice {
  readonly sparse?: SparseOptimizerOptions;
  readonly table?: Partial<TableOptions>;
  readonly exchange?: ExchangeSpec;
  readonly ikjt?: readonly (readonly number[])[];
  /** Tables with `dedup`. */
  readonly dedup?: readonly number[];
  /** Tables below device memory, with this many batches fetched ahead. */
  readonly prefetch?: number;
  readonly isMixed?: boolean;
}

const features = [
  { column: "T0" },
  { column: "T1", pooling: "none", maxLength: 1 },
  { column: "T2", pooling: "mean" },
  { column: "T3", vectors: 2 },
  { column: "U3", table: "T3" },
];

function inputOf(choice: Choice, plan?: Plan) {
  const { isMixed = false, dedup = [], exchange, ikjt, prefetch, table } = choice;
  const model = modelOptions.parse({
    ...{ kind: "dlrm", dense, bottom: [8, 72], top: [16, 1] },
    ...(isMixed && { features }),
    tables: rows.slice(0, isMixed ? 4 : 5).map((count, i) => ({
      ...{ name: `T${i}`, rows: count, dim: 72, rowBlocks: rowBlocks[i], initScale: 0.1 },
      ...{ pooling: i % 2 === 1 ? "mean" : "sum", dedup: dedup.includes(i), ...table },
    })),
  });
  const tiers = prefetch === undefined ? undefined : tiersOptions.parse({ hbmBytes: 1, prefetch });
  const sizes = { batchSize, slices: 8, idsMax };
  return { model, ...sizes, plan, tiers, ...(exchange && { exchange }), ...(ikjt && { ikjt }) };
}

const recipeOf = ({ sparse = { kind: "rowWiseAdagrad", learningRate: 0.1 } }: Choice) => ({
  optimizer: optimizerOf({ kind: "adam" }, sparse),
  seed: 11,
});

const cases: Record<string, Choice> = {
  "row-wise Adagrad": {},
  "Adam, rows in bfloat16": {
    sparse: adam({ learningRate: 0.01 }),
    table: { precision: "bfloat16" },
  },
  "LAMB with l2": { sparse: lamb({ learningRate: 0.01 }), table: { l2: 0.01 } },
  "moving averages of rows": {
    sparse: { kind: "adagrad", learningRate: 0.1, ema: { decay: 0.9 } },
  },
  "decay of all rows": {
    sparse: { kind: "sgd", learningRate: 0.5 },
    table: { l2: 0.1, l2Scope: "decayed" },
  },
  "vectors in int8, gradients in bfloat16": {
    exchange: { ...exactExchange, forward: "int8", backward: "bfloat16" },
  },
  "distinct rows in float8": {
    exchange: { ...exactExchange, forward: "float8e4m3" },
    dedup: [0, 2, 3],
  },
  "vectors in float16, with distinct lists": {
    exchange: { ...exactExchange, forward: "float16" },
    ikjt: [[0, 2], [3]],
  },
  "distinct lists of shared tables, some unpooled": { isMixed: true, ikjt: [[0, 2], [4]] },
  "distinct rows": { dedup: [0, 2, 3] },
  "distinct rows below device memory": { dedup: [1, 2], prefetch: 2 },
  "rows below device memory, fetched in their step": { prefetch: 0 },
};

/** The host of each device. Only on the second and fourth do hosts add up vectors for others. */
const clusters = [
  [0, 0, 0],
  [0, 0, 1, 1],
  [0, 1],
  [0, 0, 0, 1, 1],
  [0, 1, 2],
];

/** The same plan, with every other sharded table below device memory. */
function belowMemory(plan: Plan): Plan {
  const shards = plan.shards.map((shard): PlacedShard => {
    const isBelow = shard.device !== "all" && Number(shard.table.slice(1)) % 2 === 1;
    return isBelow ? { ...shard, tier: "cached" } : shard;
  });
  return { ...plan, shards };
}

async function isEqual(t: ExecutionContext, at: number, choice: Choice, round: number) {
  const overlap = [0, 0.3, 0.9, 1][(at + round) % 4] ?? 0;
  const hostOf = clusters[(at + 2 * round) % clusters.length] ?? [];
  const stream = new RandomStream(21, at, round);
  const kernels = () => ((at + round) % 6 === 0 ? createReference() : openKernels("auto"));
  const repeat = (all: readonly WholeBatch[]) =>
    choice.ikjt === undefined
      ? all
      : all.map((one, step) => withRepeatedLists(one, choice.ikjt ?? [], step));
  const batches = repeat(batchesOf(overlap, at));
  const heldOut = repeat([...batchesOf(0, 90).slice(0, 1), ...batchesOf(0, 91, 7).slice(0, 1)]);
  const same = { recipe: recipeOf(choice), batches, heldOut, window, kernels };
  const { prefetch: _, ...inMemory } = choice;
  const whole = { ...same, input: inputOf(inMemory), devices: 1, depth: 1 } as const;
  const { ahead: __, ...expected } = await trainPiped(whole);
  t.is(expected.error, undefined);
  const { tables } = inputOf(choice).model;
  // `dedup` tables are not copied: copies send no rows, so the exchange would not round them.
  const copyable = new Set(tables.flatMap(({ name, dedup }) => (dedup ? [] : name)));
  const drawn = randomPlan(tables, hostOf.length, stream, { ...usual, copyable });
  const input = inputOf(choice, choice.prefetch === undefined ? drawn : belowMemory(drawn));
  const devices = hostOf.length;
  const own = { ...same, devices, hostOf, depth: 3, seed: at + round } as const;
  const { ahead, ...found } = await trainPiped({ ...own, input: { ...input, ahead: 1 } });
  t.deepEqual(found, expected, `overlap ${overlap}, ${hostOf}, round ${round}`);
  return { ...ahead, overlap };
}

for (const [at, [title, choice]] of Object.entries(cases).entries()) {
  test(`tables that are read ahead train the same bits: ${title}`, async (t) => {
    for (let round = 0; round < rounds(`rounds of ${title}`, 1, 20); round++) {
      const { read, deferred, overlap } = await isEqual(t, at, choice, round);
      t.log(`overlap ${overlap}: ${deferred} of ${read} deferred`);
    }
  });
}

const kernels = () => openKernels("auto");
const plain = { recipe: recipeOf({}), heldOut: batchesOf(0, 90).slice(0, 1), window, kernels };

test("dynamic ids that are new, evicted or admitted late train the same bits", async (t) => {
  const { batches, heldOut, recipe } = dynamic;
  const own = { recipe, batches, heldOut, window: 6, kernels };
  const input = dynamic.inputOf(dynamic.tables);
  const { ahead: _, ...expected } = await trainPiped({ ...own, input, devices: 1, depth: 1 });
  for (const hostOf of [
    [0, 0, 0],
    [0, 1],
  ]) {
    const on = { hostOf, devices: hostOf.length, depth: 3, seed: hostOf.length } as const;
    const { ahead, ...found } = await trainPiped({ ...own, ...on, input: { ...input, ahead: 1 } });
    t.deepEqual(found, expected, `${hostOf}`);
    t.true(ahead.deferred > 0 && ahead.deferred < ahead.read);
  }
});

test("tables are not read ahead across a pause, which changes no bit", async (t) => {
  const batches = batchesOf(0.3, 50);
  const same = { ...plain, batches };
  const expected = await trainPiped({ ...same, input: inputOf({}), devices: 1, depth: 1 });
  const { losses, scores, digest } = expected;
  for (const seed of [1, 2]) {
    const input = { ...inputOf({}), ahead: 1 };
    const own = { ...same, input, devices: 3, depth: 3, pauseAt: 4, seed } as const;
    const paused = await trainPiped(own);
    t.like(paused, { losses, scores, digest, error: undefined });
    const stop = paused.cuts[1] ?? 0;
    t.true(stop >= 5 && stop <= 7, `${paused.cuts}`);
  }
});

test("beside stale tables, tables that are read ahead are not late", async (t) => {
  const batches = batchesOf(0.3, 51);
  const { model, ...sizes } = inputOf({});
  const tables = model.tables.map((table, i) => {
    return { ...table, staleness: i % 2 === 0 ? (1 as const) : (0 as const) };
  });
  const input = { model: { ...model, tables }, ...sizes };
  const same = { ...plain, batches };
  const { ahead: _, ...expected } = await trainPiped({ ...same, input, devices: 1, depth: 1 });
  const exact = await trainPiped({ ...same, input: inputOf({}), devices: 1, depth: 1 });
  t.not(expected.digest, exact.digest);
  const own = { ...same, devices: 3, depth: 3, input: { ...input, ahead: 1 } } as const;
  const { ahead, ...found } = await trainPiped(own);
  t.deepEqual(found, expected);
  t.true(ahead.deferred > 0);
});

test("an invalid id of a table that is read ahead ends the run one step early", async (t) => {
  const batches = batchesOf(0.3, 52);
  const ids = batches[6]?.ids.slice() ?? new Int32Array(0);
  ids[0] = 300;
  const spoilt = batches.map((batch, step) => (step === 6 ? { ...batch, ids } : batch));
  const input = { ...inputOf({}), ahead: 1 };
  const { error, losses } = await trainPiped({
    ...{ ...plain, batches: spoilt, input, devices: 2, depth: 3 },
  });
  t.true(error instanceof IdOutOfRangeError, `${error}`);
  t.is(losses.length, 5);
});

test("tables are read ahead if few bags are expected to collide and no host adds parts", (t) => {
  const aheadOn = (ahead: number, hostOf: readonly number[], own: Partial<TableOptions> = {}) => {
    const { reads } = topologyOf({ ...inputOf({ table: own }), ahead }, hostOf.length, hostOf);
    return rows.flatMap((_, table) => (reads.ahead.has({ table }) ? table : []));
  };
  const two = [0, 1];
  t.deepEqual(aheadOn(0, two), []);
  t.deepEqual(aheadOn(1, [0]), []);
  t.deepEqual(aheadOn(1, two), [0, 1, 2, 3, 4]);
  // A bag of m ids has m * 24 * m / rows rows of the batch before: 0.72, 0.27, 9.6, 0.24, 10.7.
  t.deepEqual(aheadOn(0.8, two), [0, 1, 3]);
  t.deepEqual(aheadOn(0.3, two), [1, 3]);
  t.deepEqual(aheadOn(1, two, { sharding: "data-parallel" }), []);
  t.deepEqual(aheadOn(1, two, { sharding: "row-wise" }), [0, 1, 2, 3, 4]);
  t.deepEqual(aheadOn(1, [0, 0, 0, 0], { sharding: "row-wise" }), [0, 1, 2, 3, 4]);
  // Only the first of the hosts' devices have blocks of the last table.
  t.deepEqual(aheadOn(1, [0, 0, 1, 1], { sharding: "row-wise" }), [2, 4]);
});

test("a job reads tables ahead only at depth 3, and its identity stays", (t) => {
  const jobWith = (pipeline: JobOptions["pipeline"]) =>
    resolveJob({
      model: {
        kind: "dlrm",
        dense: 1,
        bottom: [4],
        tables: [{ name: "a", rows: 9, dim: 4 }],
        top: [1],
      },
      data: { kind: "synthetic", samples: 9, dense: 1, batchSize: 3, cache: "c" },
      checkpoint: { directory: "d" },
      pipeline,
    });
  t.is(jobIdentity(jobWith({ ahead: 0.5 })), jobIdentity(jobWith({})));
  t.throws(() => jobWith({ ahead: 0.5, depth: 2 }), {
    instanceOf: InvalidOptionError,
    message:
      "Expected `pipeline.ahead` to be 0 where `pipeline.depth` is below 3: ids come too late, " +
      "got `0.5` (number)",
  });
});
