// Bounded staleness: stale tables are read exactly one update late, on any devices and under any
// plan, depth and interleaving; late reads are counted; and staleness costs little log loss.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import type { TableOptions } from "../../../src/embedding/tables/options.ts";
import { IdOutOfRangeError } from "../../../src/errors/errors.ts";
import { exchangeOptions } from "../../../src/exchange/options.ts";
import type { JobOptions } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { evaluate } from "../../../src/training/loop/metrics.ts";
import type { PipelineSpec } from "../../../src/training/loop/pipeline-options.ts";
import { generatedBatches } from "../../helpers/batches/generated-batches.ts";
import { randomBatch } from "../../helpers/batches/random-batch.ts";
import { withRepeatedLists } from "../../helpers/batches/repeated-lists.ts";
import { startLocalDevices, type WholeBatch } from "../../helpers/devices/local-devices.ts";
import { trainPiped } from "../../helpers/devices/piped-training.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { rounds, someOrAll } from "../../helpers/thinned.ts";

const depths: readonly PipelineSpec["depth"][] = [1, 2, 3];
const batchSize = 16;
const idsMax = [3, 1, 4, 2];
const rows = [60, 12, 24, 9];
const dense = 2;
const steps = 10;
const window = 4;

/** Tables, all stale but the second. */
const stale: readonly Partial<TableOptions>[] = [
  { rowBlocks: 4, pooling: "mean", staleness: 1 },
  {},
  { staleness: 1 },
  { staleness: 1 },
];

function inputOf(own: readonly Partial<TableOptions>[], exchange: JobOptions["exchange"] = {}) {
  const tables = rows.map((count, i) => ({
    ...{ name: `T${i}`, rows: count, dim: 40 },
    ...stale[i],
    ...own[i],
  }));
  return {
    model: modelOptions.parse({ kind: "dlrm", dense, tables, bottom: [40], top: [7, 1] }),
    ...{ batchSize, slices: 8, idsMax, exchange: exchangeOptions.parse(exchange) },
  };
}

const recipe = {
  optimizer: optimizerOf({ kind: "adam" }, { kind: "rowWiseAdagrad", learningRate: 0.1 }),
  seed: 11,
};

const batchOf = (step: number, samples = batchSize): WholeBatch =>
  randomBatch({ rows, idsMax, dense }, step, samples);

const batches = Array.from({ length: steps }, (_, step) => batchOf(step));
const heldOut = [batchOf(100), batchOf(101, 9)];
const same = { recipe, batches, heldOut, window, kernels: () => openKernels("auto") };

/** The same tables, each with another sharding. */
const shardings: readonly (readonly Partial<TableOptions>[])[] = [
  [],
  [
    { sharding: "row-wise" },
    { sharding: "data-parallel" },
    { sharding: "column-wise" },
    { sharding: "data-parallel" },
  ],
  [{ sharding: "grid" }, { dedup: true }, { sharding: "column-wise", dedup: true }, {}],
];

function rowsIn({ lengths, ids, samples }: WholeBatch, table: number): Set<number> {
  const sum = (part: Int32Array) => part.reduce((total, length) => total + length, 0);
  const from = sum(lengths.subarray(0, table * samples));
  const bags = lengths.subarray(table * samples, (table + 1) * samples);
  return new Set(ids.subarray(from, from + sum(bags)));
}

/** The count of rows of each stale table that a step and the step before it both look up. */
function pendingRows(freshSteps: readonly number[]): number[] {
  return rows.map((_, table) => {
    if (stale[table]?.staleness !== 1) return 0;
    return batches.reduce((sum, batch, step) => {
      const before = batches[step - 1];
      if (before === undefined || freshSteps.includes(step)) return sum;
      const pending = rowsIn(before, table);
      return sum + [...rowsIn(batch, table)].filter((row) => pending.has(row)).length;
    }, 0);
  });
}

test("stale training has the same bits and counts for any devices, plan and depth", async (t) => {
  for (const exchange of [{}, { forward: "int8", backward: "bfloat16" }] as const) {
    const expected = await trainPiped({
      ...same,
      input: inputOf([], exchange),
      devices: 1,
      depth: 1,
    });
    t.is(expected.error, undefined);
    t.deepEqual(expected.staleRows, pendingRows([0, 4, 8]));
    const exact = inputOf(
      stale.map(() => ({ staleness: 0 })),
      exchange,
    );
    const other = await trainPiped({ ...same, input: exact, devices: 1, depth: 1 });
    t.not(other.digest, expected.digest);
    t.deepEqual(other.losses.slice(0, 1), expected.losses.slice(0, 1));
    t.deepEqual(other.staleRows, [0, 0, 0, 0]);
    const isQuantised = "forward" in exchange;
    for (const [place, sharding] of shardings.entries()) {
      if (isQuantised && sharding.some(({ dedup }) => dedup)) continue;
      const all = [1, 2, 3];
      for (const devices of someOrAll("devices of stale tables", [1 + ((place + 1) % 3)], all)) {
        for (const depth of depths) {
          const own = {
            input: inputOf(sharding, exchange),
            devices,
            depth,
            seed: 7 * place + depth,
          };
          t.deepEqual(
            await trainPiped({ ...same, ...own }),
            expected,
            `${place} ${devices} ${depth}`,
          );
        }
      }
    }
  }
});

test("stale tables with deduplicated lists train the same bits on any devices", async (t) => {
  const groups = [[0, 2], [3]];
  const repeated = (all: readonly WholeBatch[]) =>
    all.map((batch, step) => withRepeatedLists(batch, groups, step));
  const own = { ...same, batches: repeated(batches), heldOut: repeated(heldOut) };
  const input = { ...inputOf([]), ikjt: groups };
  const expected = await trainPiped({ ...own, input, devices: 1, depth: 1 });
  t.is(expected.error, undefined);
  for (const [place, sharding] of shardings.entries()) {
    const other = { ...inputOf(sharding), ikjt: groups };
    const { staleRows: _, ...found } = await trainPiped({
      ...own,
      ...{ input: other, devices: 1 + ((place + 1) % 3), depth: depths[place] ?? 3, seed: place },
    });
    const { staleRows: _counted, ...wanted } = expected;
    t.deepEqual(found, wanted, `${place}`);
  }
});

test("with a penalty on the whole table, each row read has a pending update", async (t) => {
  const whole = { sharding: "data-parallel", l2: 0.1, l2Scope: "table" } as const;
  const input = inputOf([{}, {}, {}, whole]);
  const { staleRows } = await trainPiped({ ...same, input, devices: 2, depth: 3 });
  const read = batches.map((batch) => rowsIn(batch, 3).size);
  const late = read.filter((_, step) => step % window > 0);
  t.deepEqual(staleRows, [
    ...pendingRows([0, 4, 8]).slice(0, 3),
    late.reduce((sum, own) => sum + own, 0),
  ]);
});

// A float64 reference implementation of the training ----

/**
 * Losses of a model that adds one weight per row, of tables of dim 1, times one weight per table.
 */
function lossesByHand(input: ReturnType<typeof linearInput>, lag: (step: number) => boolean) {
  const [start] = startLocalDevices({
    input,
    recipe: sgd,
    devices: 1,
    kernels: createReference,
  }).states;
  if (start === undefined) throw new Error("There is no device");
  const { kernels, network, slab, topology } = start;
  const flat = [...kernels.read(network.flat)];
  const weightsAt = topology.graph.layout.parameters.find(({ length }) => length === rows.length);
  const first = weightsAt?.first ?? -1;
  const bias = first === 0 ? rows.length : 0;
  const tables: number[][] = [];
  for (const [i, { table }] of slab.shards.entries()) {
    const own = slab.rowsOf[i];
    if (own !== undefined) tables[table] = [...kernels.readRows(own, 0, own.rows)];
  }
  let before = tables.map((own) => [...own]);
  return batches.map(({ samples, lengths, ids, labels }, step) => {
    const now = tables.map((own) => [...own]);
    const read = tables.map((_, table) => {
      return (stale[table]?.staleness === 1 && lag(step) ? before : now)[table] ?? [];
    });
    const bags: number[][][] = [];
    let at = 0;
    for (let table = 0; table < rows.length; table++) {
      bags[table] = Array.from({ length: samples }, (_, sample) => {
        const from = at;
        at += lengths[table * samples + sample] ?? 0;
        return [...ids.subarray(from, at)];
      });
    }
    const used = flat.slice();
    let loss = 0;
    for (let sample = 0; sample < samples; sample++) {
      const pooled = bags.map((own, table) => {
        const bag = own[sample] ?? [];
        const sum = bag.reduce((total, row) => total + (read[table]?.[row] ?? 0), 0);
        return stale[table]?.pooling === "mean" ? sum / bag.length : sum;
      });
      const logit = pooled.reduce((sum, x, i) => sum + x * (used[first + i] ?? 0), used[bias] ?? 0);
      const label = labels[sample] ?? 0;
      loss +=
        (Math.log1p(Math.exp(-Math.abs(logit))) + Math.max(logit, 0) - logit * label) / samples;
      const dLogit = (learningRate * (1 / (1 + Math.exp(-logit)) - label)) / samples;
      flat[bias] = (flat[bias] ?? 0) - dLogit;
      for (const [table, x] of pooled.entries()) {
        flat[first + table] = (flat[first + table] ?? 0) - dLogit * x;
        const bag = bags[table]?.[sample] ?? [];
        const share = stale[table]?.pooling === "mean" ? bag.length : 1;
        for (const row of bag) {
          const own = tables[table] ?? [];
          own[row] = (own[row] ?? 0) - (dLogit * (used[first + table] ?? 0)) / share;
        }
      }
    }
    before = now;
    return loss;
  });
}

const learningRate = 2;
const sgd = {
  optimizer: optimizerOf({ kind: "sgd", learningRate }, { kind: "sgd", learningRate }),
  seed: 11,
};

function linearInput(staleness: 0 | 1) {
  const tables = rows.map((count, i) => {
    const own = stale[i]?.staleness === 1 ? staleness : 0;
    const { pooling } = { pooling: "sum" as const, ...stale[i] };
    return { name: `T${i}`, rows: count, dim: 1, pooling, staleness: own, initScale: 1 };
  });
  const model = modelOptions.parse({ kind: "dlrm", tables, interaction: "cat", top: [1] });
  return { model, batchSize, slices: 8, idsMax };
}

test("rows are exactly one update late, except for the first step of a window", async (t) => {
  const plain = (batch: WholeBatch) => ({ ...batch, dense: new Float32Array(0) });
  const own = { recipe: sgd, batches: batches.map(plain), heldOut: heldOut.map(plain), window };
  for (const staleness of [0, 1] as const) {
    const input = linearInput(staleness);
    const { losses, error } = await trainPiped({ ...own, input, devices: 2, depth: 3 });
    t.is(error, undefined);
    const lag = (step: number) => staleness === 1 && step % window > 0;
    const gap = (expected: readonly number[]) =>
      Math.max(...losses.map((loss, step) => Math.abs(loss - (expected[step] ?? Number.NaN))));
    t.true(gap(lossesByHand(input, lag)) < 1e-5, `${gap(lossesByHand(input, lag))}`);
    // The comparison detects any other lag.
    t.true(gap(lossesByHand(input, (step) => !lag(step))) > 1e-3);
    t.true(
      gap(lossesByHand(input, (step) => step > 0 && staleness === 1)) > 1e-3 === (staleness === 1),
    );
  }
});

test("a pause makes the next step fresh, like a cut, and the count of stale rows shows it", async (t) => {
  for (const devices of [1, 2]) {
    for (const depth of depths) {
      const paused = await trainPiped({ ...same, input: inputOf([]), devices, depth, pauseAt: 5 });
      t.is(paused.error, undefined);
      const stop = paused.cuts[1] ?? 0;
      t.true(stop === 6 || stop === 7, `${paused.cuts}`);
      t.deepEqual(paused.staleRows, pendingRows([0, 4, stop, 8]));
    }
  }
});

test("with stale tables an invalid id ends the run one step early", async (t) => {
  const bad = batchOf(6);
  bad.ids[bad.ids.length - 1] = 9;
  for (const devices of someOrAll("devices, a refused id", [2], [1, 2, 3])) {
    for (const depth of depths) {
      const spoilt = { ...same, batches: batches.with(6, bad) };
      const { error, losses } = await trainPiped({ ...spoilt, input: inputOf([]), devices, depth });
      t.true(error instanceof IdOutOfRangeError, `${error}`);
      t.is(losses.length, 5);
    }
  }
});

testIf(testAll)(
  "reading one update late costs little log loss beside what a model learns",
  async (t) => {
    const tables = [400, 400, 20, 8].map((count, i) => {
      return { name: `T${i}`, rows: count, dim: 8, initScale: 0.05 };
    });
    const shape = { batchSize: 256, batches: 256, dense: 4, tables };
    const optimizer = optimizerOf(
      { kind: "adagrad", learningRate: 0.02 },
      { kind: "adagrad", learningRate: 0.05 },
    );
    const labels = (own: readonly WholeBatch[]) => own.flatMap((batch) => [...batch.labels]);
    const logLoss = (logits: readonly number[], own: readonly WholeBatch[]) =>
      evaluate(Float32Array.from(logits), Float32Array.from(labels(own))).logLoss;
    // The cost of a single seed varies by up to 0.02.
    const count = rounds("seeds of the cost of staleness", 2, 10);
    const seeds = Array.from({ length: count }, (_, i) => i + 1);
    let [learned, lost] = [0, 0];
    for (const seed of seeds) {
      const all = generatedBatches(shape, seed);
      const [own, unseen] = [all.slice(0, 240), all.slice(240)];
      // One window: only the first step is fresh.
      const after = async (staleness: 0 | 1) => {
        const model = modelOptions.parse({
          ...{ kind: "dlrm", dense: 4, bottom: [16, 8], top: [32, 16, 1] },
          tables: tables.map((table) => ({ ...table, staleness })),
        });
        const input = { model, batchSize: 256, slices: 8, idsMax: [1, 1, 1, 1] };
        const run = {
          input,
          recipe: { optimizer, seed },
          batches: own,
          heldOut: unseen,
          window: 240,
        };
        const kernels = () => openKernels("auto");
        const { scores, error } = await trainPiped({ ...run, kernels, devices: 1, depth: 3 });
        t.is(error, undefined);
        return logLoss(scores, unseen);
      };
      const exact = await after(0);
      const stale = await after(1);
      t.not(stale, exact);
      const rate = labels(own).reduce((sum, label) => sum + label, 0) / labels(own).length;
      const blind = logLoss(
        labels(unseen).map(() => Math.log(rate / (1 - rate))),
        unseen,
      );
      learned += blind - exact;
      lost += stale - exact;
    }
    t.log(`learned ${learned / seeds.length}, of which staleness lost ${lost / seeds.length}`);
    t.true(learned / seeds.length > 0.05, `learned ${learned}`);
    t.true(Math.abs(lost) < 0.05 * learned, `lost ${lost} of ${learned}`);
  },
);
