// The pipeline changes no bit, at any depth, and hides the latencies that it should hide: the first
// is tested under random interleavings, the second in virtual time.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import { tiersOptions } from "../../../src/embedding/tables/tier-options.ts";
import { IdOutOfRangeError } from "../../../src/errors/errors.ts";
import { type Cells, nobody } from "../../../src/exchange/cells.ts";
import { type ChannelName, channelNames } from "../../../src/exchange/exchange.ts";
import { layoutOf } from "../../../src/exchange/layout.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { createPipeline } from "../../../src/training/loop/pipeline.ts";
import type { PipelineSpec } from "../../../src/training/loop/pipeline-options.ts";
import {
  createStepMeter,
  meterWords,
  type StepMeter,
  timesBetween,
} from "../../../src/training/meters/step-meter.ts";
import { exchangeShapeOf } from "../../../src/training/topology/exchange-shape.ts";
import { topologyOf } from "../../../src/training/topology/topology.ts";
import { randomBatch } from "../../helpers/batches/random-batch.ts";
import type { WholeBatch } from "../../helpers/devices/local-devices.ts";
import {
  type PipedDevice,
  pipedCells,
  startPipedDevices,
} from "../../helpers/devices/piped-devices.ts";
import { type Interleaving, trainPiped } from "../../helpers/devices/piped-training.ts";
import { someOrAll } from "../../helpers/thinned.ts";

type Depth = PipelineSpec["depth"];

const depths: readonly Depth[] = [1, 2, 3];
const batchSize = 16;
const rows = [30, 12, 7];
const idsMax = [3, 1, 4];
const dense = 3;
const steps = 9;
const evaluated = 40; // Samples: two full batches, and a short one.

const input = {
  model: modelOptions.parse({
    kind: "dlrm",
    dense,
    tables: rows.map((count, i) => ({ name: `T${i}`, rows: count, dim: 5, dedup: i === 2 })),
    bottom: [6, 5],
    top: [7, 1],
  }),
  batchSize,
  slices: 8,
  idsMax,
};
const recipe = {
  optimizer: optimizerOf({ kind: "adam" }, { kind: "rowWiseAdagrad", learningRate: 0.1 }),
  seed: 11,
};

const batchOf = (step: number, samples = batchSize): WholeBatch =>
  randomBatch({ rows, idsMax, dense }, step, samples);

const batches = Array.from({ length: steps }, (_, step) => batchOf(step));
const heldOut = [batchOf(100), batchOf(101), batchOf(102, evaluated % batchSize)];

/** The input, with caches of one set each if `prefetch` is given: every batch needs spare slots. */
function inputOf({ prefetch }: { readonly prefetch?: number }) {
  if (prefetch === undefined) return input;
  const tables = input.model.tables.map((table, i) => {
    return { ...table, tier: i === 1 ? ("memory" as const) : ("cached" as const) };
  });
  const tiers = tiersOptions.parse({ hbmBytes: 1, prefetch, policy: "lfu" });
  return { ...input, model: { ...input.model, tables }, tiers };
}

/** Trains in windows of four steps, with an evaluation after each. */
function train(
  options: Interleaving & {
    readonly batches?: readonly WholeBatch[];
    readonly prefetch?: number;
    readonly idsMean?: readonly number[];
  },
) {
  const { idsMean } = options;
  const own = { ...inputOf(options), idsMean };
  return trainPiped({ recipe, batches, heldOut, window: 4, ...options, input: own });
}

test("losses, scores and digest are the same at any depth, devices and interleaving", async (t) => {
  const expected = await train({ devices: 1, depth: 1 });
  t.is(expected.error, undefined);
  t.is(new Set(expected.losses).size, steps);
  t.is(expected.scores.length, evaluated);
  for (const devices of [1, 2, 3]) {
    for (const depth of depths) {
      for (const seed of someOrAll("interleavings of a pipeline", [1], [1, 2, 3])) {
        t.deepEqual(await train({ devices, depth, seed }), expected, `${devices}, ${depth}`);
      }
    }
  }
});

test("losses, scores and digest are the same if batches are longer than the room for them", async (t) => {
  const expected = await train({ devices: 1, depth: 1 });
  const idsMean = idsMax.map(() => 0.01);
  for (const devices of [1, 3]) {
    for (const [seed, depth] of [1, 2, 3, 3].entries()) {
      const prefetch = seed < 3 ? {} : { prefetch: 2 };
      const actual = await train({ devices, depth: depth as Depth, seed, idsMean, ...prefetch });
      t.deepEqual(actual, expected, `${devices} devices, ${depth}, ${seed}`);
    }
  }
});

test("losses, scores and digest are the same for any number of prefetched batches", async (t) => {
  const all: readonly (readonly [number, Depth])[] = [
    [0, 2],
    [1, 3],
    [2, 3],
    [3, 3],
  ];
  const interleavings = someOrAll("interleavings of batches ahead", all.slice(0, 2), all);
  const expected = await train({ devices: 1, depth: 1 });
  for (const devices of someOrAll("devices of rows ahead", [1, 3], [1, 2, 3])) {
    for (const prefetch of someOrAll("batches ahead", [0, 1, 5], [0, 1, 2, 5])) {
      for (const [seed, depth] of interleavings) {
        const actual = await train({ devices, depth, seed, prefetch });
        t.deepEqual(actual, expected, `${devices} devices, ${prefetch} ahead, ${seed}`);
      }
      if (prefetch > 1) continue; // With more batches ahead, the run may stop after its window.
      const { losses, scores, digest } = expected;
      const paused = await train({ devices, depth: 3, seed: prefetch, pauseAt: 4, prefetch });
      t.like(paused, { losses, scores, digest, error: undefined });
      const stop = paused.cuts[1] ?? 0;
      t.true(stop >= 5 && stop <= 7, `${paused.cuts}`);
    }
  }
});

test("a pause in mid-window stops all devices after one step, and changes no bit", async (t) => {
  const { losses, scores, digest } = await train({ devices: 1, depth: 1 });
  for (const devices of [1, 2, 3]) {
    for (const depth of depths) {
      const paused = await train({ devices, depth, seed: depth, pauseAt: 5 });
      t.like(paused, { losses, scores, digest, error: undefined });
      const stop = paused.cuts[1] ?? 0;
      t.true(stop === 6 || stop === 7, `${paused.cuts}`); // 7 if step 6 had begun before the pause.
    }
  }
});

test("an invalid id ends the run in its batch's step, prefetched or not", async (t) => {
  const bad = batchOf(6);
  bad.ids[0] = 30;
  const spoilt = batches.with(6, bad);
  const expected = await train({ devices: 1, depth: 1, batches: spoilt });
  t.true(expected.error instanceof IdOutOfRangeError);
  t.is(expected.losses.length, 6);
  for (const devices of [1, 2, 3]) {
    for (const depth of depths) {
      const { error, losses, digest } = await train({ devices, depth, batches: spoilt });
      t.is(`${error}`, `${expected.error}`);
      t.deepEqual(losses, expected.losses);
      // Of several devices, some may stop within step 5 (A3 of src/exchange/all-reduce.ts).
      if (devices === 1) t.is(digest, expected.digest);
    }
  }
});

// Virtual time: each device continues as soon as it can; time passes only while all wait ----

function virtualCells(clock: SimulatedClock, count: number) {
  const words = new Int32Array(count);
  let parked: { isTrue: () => boolean; resume: () => void }[] = [];
  const cells: Cells = {
    load: (cell) => words[cell] ?? 0,
    store(cell, value) {
      words[cell] = value;
    },
    waitUntil: (_, isTrue) =>
      new Promise((resume) => {
        parked.push({ isTrue, resume });
      }),
  };
  return {
    cells,
    async run(tasks: readonly (() => Promise<void>)[]) {
      let running = tasks.length;
      const all = tasks.map((task) => task().finally(() => running--));
      while (running > 0) {
        await new Promise<void>((turn) => void setImmediate(turn));
        const ready = parked.filter(({ isTrue }) => isTrue());
        parked = parked.filter((task) => !ready.includes(task));
        for (const { resume } of ready) resume();
        if (ready.length === 0 && !clock.runNext()) break;
      }
      await Promise.all(all);
    },
  };
}

/** Milliseconds to read a batch, to send ids, and for a forward and a backward pass. */
const cost = { read: 80, ids: 30, forward: 60, backward: 40 };

/** Transfer time of a message on a channel. */
type Late = Partial<Record<ChannelName, number>>;

/** Trains on two devices with these stage times; returns the time of a step, and its parts. */
async function time(depth: Depth, job = input, lateMs: Late = { ids: cost.ids }) {
  const clock = new SimulatedClock();
  const { cells, run } = virtualCells(clock, pipedCells(job, 2));
  const { channels } = layoutOf(exchangeShapeOf(topologyOf(job, 2)));
  const lateOf = new Map(
    channelNames.flatMap((name) => {
      const { published } = channels[name];
      return [published(0, 1), published(1, 0)].map((cell) => [cell, lateMs[name] ?? 0] as const);
    }),
  );
  const sleep = async (ms: number) => {
    const dueMs = clock.now() + ms;
    clock.after(ms, () => {});
    await cells.waitUntil(
      () => "time",
      () => clock.now() >= dueMs,
      nobody,
    );
  };
  /** Wraps cells so that computation takes time after vectors or their gradients arrive. */
  const slow = (metered: Cells): Cells => ({
    ...metered,
    store(cell, value, wake) {
      const ms = lateOf.get(cell) ?? 0;
      if (ms === 0) return metered.store(cell, value, wake);
      clock.after(ms, () => metered.store(cell, value, wake));
    },
    async waitUntil(wait, isTrue, of) {
      await metered.waitUntil(wait, isTrue, of);
      if (/^the (stale )?pooled embeddings of/.test(wait())) await sleep(cost.forward);
      if (wait().startsWith("the gradients of pooled embeddings of")) await sleep(cost.backward);
    },
  });
  const words = [0, 1].map(() => new BigInt64Array(meterWords));
  const meters = words.map((own): StepMeter => {
    const meter = createStepMeter(own, clock);
    return { ...meter, cellsFor: (channel, own) => slow(meter.cellsFor(channel, own)) };
  });
  const place = startPipedDevices({
    ...{ input: job, recipe, devices: 2, kernels: createReference },
    cellsOf: () => cells,
    meterOf: (rank) => found(meters[rank]),
  });
  const many = Array.from({ length: 6 }, () => batches).flat();
  const total = many.length;
  const trainOn = async ({ state, intake }: PipedDevice) => {
    const meter = found(meters[state.rank]);
    const pipeline = createPipeline({ device: state, intake, depth, steps: total, meter });
    for (let step = 0; step < total; step++) await pipeline.run(step, total, () => -1);
  };
  await run([
    ...place.devices.map((device) => () => trainOn(device)),
    () => place.serve("training", many, () => sleep(cost.read)),
  ]);
  const devices = words.map((own) => Array.from(own, Number));
  const to = { devices, reading: [total, 1000 * cost.read * total] };
  return { ...found(timesBetween([{ from: undefined, to }])), wallMs: clock.now() / total };
}

function found<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("There is nothing");
  return value;
}

test("a step takes the time predicted for its depth, and the meter shows its parts", async (t) => {
  const within = (value: number, expected: number, share: number) =>
    t.true(Math.abs(value - expected) <= share * expected, `${value}, expected ${expected}`);
  const { read, ids, forward, backward } = cost;
  const compute = forward + backward;
  const expected = [read + ids + compute, Math.max(read, ids + compute), Math.max(read, compute)];
  for (const [i, depth] of depths.entries()) {
    const { wallMs, steps, stepMs, readMs, shares, batchesThere } = await time(depth);
    const ms = expected[i] ?? 0;
    within(wallMs, ms, 0.1);
    within(stepMs, wallMs, 1e-3);
    t.is(steps, 6 * batches.length);
    t.is(readMs, read);
    within(
      Object.values(shares).reduce((sum, share) => sum + share, 0),
      1,
      1e-6,
    );
    within(shares.computing * stepMs, compute, 1e-3);
    // Reading, then the transfer of ids, disappear from the critical path.
    if (depth === 1) within(shares.batch * stepMs, read, 1e-3);
    else t.true(shares.batch < 0.02, `${shares.batch}`);
    if (depth < 3) within(shares.ids * stepMs, ids, 1e-3);
    else t.true(shares.ids < 0.02, `${shares.ids}`);
    t.is(batchesThere > 0.9, depth > 1);
  }
});

test("the transfer of stale tables' vectors overlaps the step before, and costs nothing", async (t) => {
  const tables = input.model.tables.map((table) => ({ ...table, staleness: 1 as const }));
  const stale = { ...input, model: { ...input.model, tables } };
  const way = cost.backward - 5; // Fits into the wait for gradients and the update.
  const vectors = { pooled: way, stalePooled: way, rows: way, staleRows: way };
  const compute = cost.forward + cost.backward;
  const { wallMs: freshMs } = await time(3, input, vectors);
  const { wallMs: staleMs, shares } = await time(3, stale, vectors);
  t.true(Math.abs(freshMs - compute - way) < 0.03 * freshMs, `${freshMs}`);
  t.true(Math.abs(staleMs - compute) < 0.03 * staleMs, `${staleMs}`);
  t.true(shares.pooled < 0.02 && shares.rows < 0.02, `${shares.pooled}, ${shares.rows}`);
});
