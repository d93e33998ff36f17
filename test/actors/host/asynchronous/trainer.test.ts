// The trainer actor: where its threads pause, however far each of them is.

import test from "ava";
import { trainerMachine } from "../../../../actors/host/asynchronous/trainer.ts";
import { createSeat } from "../../../../actors/host/asynchronous/trainer-seat.ts";
import { trainerShapeOf } from "../../../../actors/threads/asynchronous/trainer-shape.ts";
import { trainerWords } from "../../../../src/asynchronous/trainer-memory.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import {
  createFakeLauncher,
  smallGenerationSpec,
  startActor,
  startSimulatedNetwork,
} from "../../../helpers/clusters/actors.ts";
import { smallData, smallModel } from "../../../helpers/clusters/clusters.ts";

const self = { role: "device", index: 0 } as const;
const toStep = 40;
const run = { command: 3, toStep, lossSum: 0, plateau: 1 };
const pause = { command: 3, afterStep: 0 };

/** A trainer with two threads, the only one of its run: they have the even and the odd steps. */
function startTrainer() {
  const place = startSimulatedNetwork();
  const async = { threads: 2 };
  const job = resolveJob({ model: smallModel, data: smallData, mode: "async", async });
  const spec = { ...smallGenerationSpec(), devices: 1, job };
  const { layout, size } = trainerShapeOf(spec);
  const seat = createSeat({ device: 0, trainers: 1, fromStep: 0, layout, size });
  const startThreads = async () => {
    const { launcher, threads } = createFakeLauncher();
    const tasks = ["a", "b"].map((name) => ({ name, task: {} as never }));
    const input = { network: place.network, launcher, spec, seat, tasks, storeBytes: 0 };
    const { actor } = startActor(place, trainerMachine, input);
    for (const thread of threads) thread.report({ type: "ready", arithmetic: "", set: "" });
    await place.pass(0);
    return { actor, threads };
  };
  /** Trains batches of a thread from a step; returns their steps, up to the pause. */
  const train = (thread: number, from: number, end = toStep) => {
    const words = trainerWords(seat.memory, thread);
    const steps: number[] = [];
    for (let step = from; step < end && words.begins(step); step += 2) {
      words.trained(step, 10, 0);
      steps.push(step);
    }
    return steps;
  };
  const answer = () => place.heard({ role: "coordinator", index: 0 }).at(-1)?.body;
  return { ...place, seat, startThreads, train, answer };
}

/** The report of a thread that has trained `batches` batches when the trainer pauses. */
function pausedBefore(step: number, batches: number) {
  const sums = { lossSum: 0, batches, samples: 10 * batches, repairedIds: [0] };
  return { type: "reached", step, isPaused: true, ...sums };
}

test("threads behind a pause train up to the thread that is furthest", async (t) => {
  const { say, pass, startThreads, train, answer } = startTrainer();
  const { threads } = await startThreads();
  say(self, "device.run", run);
  t.deepEqual([train(0, 0, 10), train(1, 1, 2)], [[0, 2, 4, 6, 8], [1]]);
  say(self, "device.pause", pause);
  t.deepEqual([train(0, 10), train(1, 3)], [[], [3, 5, 7]]);
  for (const [i, batches] of [5, 4].entries()) threads[i]?.report(pausedBefore(9, batches));
  await pass(0);
  t.like(answer(), { command: 3, step: 9, steps: 9, samples: 90, isPaused: true });
  // A pause that comes before its window leaves each thread a batch.
  say(self, "device.pause", { ...pause, command: 4 });
  say(self, "device.run", { ...run, command: 4 });
  t.deepEqual([train(0, 10), train(1, 9)], [[10], [9]]);
});

test("a trainer that is replaced during a pause pauses too, and trains no batch again", async (t) => {
  const { say, pass, seat, startThreads, train, answer } = startTrainer();
  const { actor } = await startThreads();
  say(self, "device.run", run);
  t.deepEqual([train(0, 0, 10), train(1, 1, 2)], [[0, 2, 4, 6, 8], [1]]);
  say(self, "device.pause", pause);
  actor.stop();
  seat.empty(4);
  t.deepEqual(seat.fromSteps, [9, 2]);
  const { threads } = await startThreads();
  say(self, "device.run", run);
  t.deepEqual([train(0, 10), train(1, 3)], [[10], [3, 5, 7, 9]]);
  for (const [i, batches] of [1, 4].entries()) threads[i]?.report(pausedBefore(11, batches));
  await pass(0);
  t.like(answer(), { command: 3, step: 11, steps: 11, samples: 110, isPaused: true });
});
