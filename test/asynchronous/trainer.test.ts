// Asynchronous training over the memory transport, against exact training, and which trainer
// trains which samples.

import test from "ava";
import { type AsyncRunOptions, startAsyncRun } from "../../bench/step/async-run.ts";
import { optimizerOf } from "../../bench/step/optimizers.ts";
import { startSoloDevice } from "../../bench/step/solo-device.ts";
import { batchesOf } from "../../src/asynchronous/samples.ts";
import { modelOptions } from "../../src/model/options.ts";
import { digestOf } from "../../src/training/checkpoint/part-names.ts";
import { type CutPart, type Part, partsOf } from "../../src/training/checkpoint/parts.ts";
import { placesOf, scheduleOf } from "../../src/training/loop/schedule.ts";
import { forwardStep, trainStep } from "../../src/training/step/step.ts";
import { topologyOf } from "../../src/training/topology/topology.ts";
import { randomBatch } from "../helpers/batches/random-batch.ts";
import { localPart } from "../helpers/devices/local-devices.ts";
import { bytesOf } from "../helpers/devices/parts.ts";

const rows = [50, 400, 7];
const idsMax = [1, 5, 3];
const batchSize = 24;

/** Tables: plain, with row blocks on all servers and means, and with half floats. */
function inputOf(rowBlocks: number) {
  const model = modelOptions.parse({
    ...{ kind: "dlrm", dense: 4, bottom: [8, 16], top: [16, 1], interaction: "dot" },
    tables: [
      { name: "plain", rows: 50, dim: 16, l2: 0.01 },
      { name: "blocks", rows: 400, dim: 16, pooling: "mean", rowBlocks },
      { name: "half", rows: 7, dim: 16, precision: "float16" },
    ],
  });
  return { model, batchSize, slices: 1, idsMax };
}

const recipe = {
  optimizer: optimizerOf(
    { kind: "adam", learningRate: 0.01, clip: { norm: 1 } },
    { kind: "rowWiseAdagrad", learningRate: 0.05 },
  ),
  seed: 3,
};

const alone = topologyOf(inputOf(1), 1);

function batchAt(step: number) {
  return localPart(alone, 0, randomBatch({ rows, idsMax, dense: 4 }, step, batchSize));
}

function start(options: Partial<AsyncRunOptions> = {}) {
  const spec = { everySteps: 1, elasticity: 0, prefetch: 0, pushesMax: 1 };
  const run = { input: inputOf(4), recipe, spec, trainers: 1, servers: 2, batchAt };
  return startAsyncRun({ ...run, ...options });
}

async function digestOfParts(parts: readonly (Part | CutPart)[], isCut: boolean) {
  const leaves = new Map<string, readonly string[]>();
  for (const part of parts) {
    if (isCut) await bytesOf(part.bytes());
    leaves.set(part.name, await part.leaves());
  }
  return digestOf(leaves, inputOf(isCut ? 4 : 1).model.tables);
}

for (const frameBytesMax of [1024 * 1024, 1700]) {
  test(`one thread trains bit by bit what exact training does, in frames of ${frameBytesMax} bytes`, async (t) => {
    const exact = startSoloDevice(inputOf(1), recipe);
    let lossSum = 0;
    for (let step = 0; step < 12; step++) {
      lossSum += (await trainStep(exact, batchAt(step), step, -1)).loss;
    }
    const faults = { delayMs: [1, 20] as const, drop: 0.1, duplicate: 0.2 };
    const run = start({ faults, frameBytesMax });
    const [reached] = await run.run({ fromStep: 0, toStep: 12, plateau: 1 });
    t.is(reached?.lossSum, lossSum);
    t.true(run.traffic.repeated > 0, "frames were lost");
    const [counts] = run.sparse.map((server) => server.counts);
    t.is((counts?.updates ?? 0) > 12, frameBytesMax < 2000, "small frames split pushes");
    const [device] = run.threads.map((one) => one.device);
    const [dense] = device ? partsOf(device) : [];
    const parts = run.sparse.flatMap((server) => server.cut());
    t.true(parts.length > 3, "row blocks lie on both servers");
    const digest = await digestOfParts(dense ? [dense, ...parts] : parts, true);
    t.is(digest, await digestOfParts(partsOf(exact), false));
    const batch = batchAt(99);
    const [own, wanted] = [device ?? exact, exact].map((one) => forwardStep(one, batch));
    const logits = async (of: typeof own) => exact.kernels.read((await of) ?? exact.network.flat);
    t.deepEqual((await run.drive(logits(own))).slice(0, 24), (await logits(wanted)).slice(0, 24));
  });
}

test("a push that arrives twice is applied once, and a lost one is sent again", async (t) => {
  const faults = { delayMs: [1, 30] as const, drop: 0.05, duplicate: 0.5, reorder: 0.2 };
  const spec = { everySteps: 2, elasticity: 0.2, prefetch: 2, pushesMax: 4 };
  const run = start({ faults, spec, trainers: 3, servers: 2, threads: 2 });
  const reached = await run.run({ fromStep: 0, toStep: 60, plateau: 1 });
  t.is(sum(reached, "batches"), 60);
  const counts = run.sparse.map(({ counts }) => counts);
  t.true(sum(counts, "duplicates") > 10);
  // Of 24 samples of three tables, each server has some rows in each batch.
  for (const { updates, updatesSinceCut } of counts)
    t.deepEqual([updates, updatesSinceCut], [60, 60]);
  t.true(run.dense.exchanges >= 27, "each trainer exchanges after two batches of its 20");
});

test("trainers train each sample of an epoch once, whichever windows they are given", async (t) => {
  const schedule = scheduleOf({ samples: 250, batchSize, passes: 2 });
  const seen = new Map<number, number>();
  const counted = (step: number) => {
    const { first, count } = placesOf(schedule, step);
    for (let i = first; i < first + count; i++) seen.set(i, (seen.get(i) ?? 0) + 1);
    return localPart(alone, 0, randomBatch({ rows, idsMax, dense: 4 }, step, count));
  };
  const spec = { everySteps: 3, elasticity: 0.1, prefetch: 2, pushesMax: 2 };
  const run = start({ batchAt: counted, spec, trainers: 4, servers: 3 });
  let [samples, step] = [0, 0];
  for (const toStep of [1, 9, 10, schedule.steps]) {
    const reached = await run.run({ fromStep: step, toStep, plateau: 1 });
    t.true(reached.every((one) => one.step === toStep && !one.isPaused));
    samples += sum(reached, "samples");
    step = toStep;
  }
  t.is(samples, 500);
  t.deepEqual(new Set(seen.values()), new Set([2]));
  t.is(seen.size, 250);
  const own = [0, 1, 2, 3].map((trainer) =>
    batchesOf({ trainer, trainers: 4, thread: 0, threads: 1 }),
  );
  t.deepEqual(
    own.map((one) => one.from(6)),
    [8, 9, 6, 7],
  );
});

test("all threads of a trainer pause after the furthest batch that one of them has begun", async (t) => {
  const faults = { delayMs: [1, 50] as const };
  const spec = { everySteps: 2, elasticity: 0.1, prefetch: 1, pushesMax: 2 };
  for (const at of [7, 14, 21]) {
    const pausing = (step: number) => {
      if (step === at) run.pause();
      return batchAt(step);
    };
    const run = start({ faults, spec, batchAt: pausing, threads: 3 });
    const window = { fromStep: 0, toStep: 60, plateau: 1 };
    const paused = await run.run(window);
    const [{ step = 0 } = {}] = paused;
    t.true(step > 0 && step < 60);
    t.true(paused.every((one) => one.isPaused && one.step === step));
    t.is(sum(paused, "batches"), step, "no thread has passed the pause");
    t.is(sum(await run.run({ ...window, fromStep: step }), "batches"), 60 - step);
  }
});

test("batches that were pulled before a pause are trained after it, whatever is evaluated", async (t) => {
  const spec = { everySteps: 1, elasticity: 0, prefetch: 2, pushesMax: 1 };
  const digests: string[] = [];
  for (const isEvaluated of [false, true]) {
    const pausing = (step: number) => {
      if (step === 5) run.pause(); // Batches 0 to 2 are trained, 3 and 4 are pulled.
      return batchAt(step);
    };
    const run = start({ spec, batchAt: pausing });
    const window = { fromStep: 0, toStep: 9, plateau: 1 };
    t.like((await run.run(window))[0], { step: 3, isPaused: true, batches: 3 });
    const [first] = run.threads;
    if (isEvaluated && first !== undefined) {
      const { logits } = await run.drive(first.evaluate("evaluation", batchSize));
      t.true(logits.every((logit) => logit !== 0));
    }
    t.like((await run.run({ ...window, fromStep: 3 }))[0], {
      step: 9,
      isPaused: false,
      batches: 6,
    });
    digests.push(
      await digestOfParts(
        run.sparse.flatMap((server) => server.cut()),
        true,
      ),
    );
  }
  t.is(digests[0], digests[1]);
});

function sum<Name extends string>(all: readonly Record<Name, number>[], name: Name): number {
  return all.reduce((total, one) => total + one[name], 0);
}
