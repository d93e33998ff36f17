// The program of a thread of a trainer: takes the center of the dense weights, then executes
// commands. Its waits let the event loop run, which serves its own connection to the servers.
//
// Takes  run { fromStep, toStep, plateau } · evaluate { part } · end
// Emits  ready · reached · evaluated

import { createDenseClient, createSparseClient } from "../../../src/asynchronous/clients.ts";
import type { TrainerCommand, TrainerReport } from "../../../src/asynchronous/parameter-servers.ts";
import { serversOf, shardsOnServers } from "../../../src/asynchronous/row-shards.ts";
import { batchesOf } from "../../../src/asynchronous/samples.ts";
import { createTrainer } from "../../../src/asynchronous/trainer.ts";
import { type TrainerMemory, trainerWords } from "../../../src/asynchronous/trainer-memory.ts";
import { scoredLabelsOf } from "../../../src/data/targets.ts";
import { NonFiniteLossError } from "../../../src/errors/errors.ts";
import { createAtomicCells } from "../../../src/exchange/atomic-cells.ts";
import { createBatchIntake } from "../../../src/exchange/batch-intake.ts";
import { type Cells, nobody } from "../../../src/exchange/cells.ts";
import { asynchronousOf } from "../../../src/job/check-asynchronous.ts";
import type { Kernels } from "../../../src/kernels/contract/kernels.ts";
import { deadlinesOf } from "../../../src/ports/deadlines.ts";
import { evaluateScores } from "../../../src/training/loop/metrics.ts";
import type { Connection } from "../../runtime/mailbox.ts";
import { scheduleOfGeneration } from "../generation-layout.ts";
import { type GenerationMemory, specIn } from "../generation-memory.ts";
import type { SpecHead } from "../generation-spec.ts";
import type { ThreadPorts } from "../thread-ports.ts";
import { commandPollMs } from "./server-program.ts";
import { trainerShapeOf } from "./trainer-shape.ts";

/** The task of a thread of a trainer. */
export interface TrainerTask {
  readonly program: "trainer";
  readonly spec: SpecHead;
  readonly memory: TrainerMemory & Pick<GenerationMemory, "spec">;
  /** The trainer. */
  readonly index: number;
  readonly thread: number;
  /** The step from which the trainer's threads begin. */
  readonly fromStep: number;
  readonly cluster: string;
  readonly connection: Connection;
}

export interface TrainerPorts extends Pick<ThreadPorts, "clock" | "sleepTurning" | "dial"> {
  readonly kernels: Kernels;
  take(): TrainerCommand | undefined;
  report(report: TrainerReport): void;
}

export async function runTrainer(task: TrainerTask, ports: TrainerPorts): Promise<void> {
  const { memory, index: trainer, thread, fromStep, cluster, connection } = task;
  const { kernels, clock, sleepTurning, take, report } = ports;
  const spec = specIn(memory);
  const { job, run, generation, devices: trainers, hosts } = spec;
  const { input, layout } = trainerShapeOf(spec);
  const { ring, participants, begun } = layout;
  const threads = ring.devices;
  const cellsFor = (deadlineMs: number, sleepMsMax: number): Cells =>
    createAtomicCells({
      ...{ words: new Int32Array(memory.words), participants, participant: thread },
      ...{ generation, clock, deadlineMs },
      sleep: (words, at, seen, ms) => sleepTurning(words, at, seen, Math.min(ms, sleepMsMax)),
    });
  const cells = cellsFor(job.stepDeadlineMs, Number.POSITIVE_INFINITY);
  const idle = cellsFor(Number.POSITIVE_INFINITY, commandPollMs);
  const batches = batchesOf({ trainer, trainers, thread, threads });
  const transport = await ports.dial(connection, `osiris-${cluster}-trainer`);
  const { parameters: deadlineMs, parametersAgain: againMs } = deadlinesOf(job);
  const traffic = { sent: 0, received: 0, repeated: 0 };
  const place = { cluster, run, generation };
  const link = { transport, place, clock, deadlineMs, againMs, traffic };
  const { threads: _, servers, elastic, prefetch, pushes } = asynchronousOf(job);
  const shards = shardsOnServers(job.model.tables, serversOf({ servers }, hosts.length, trainers));
  const { optimizer, seed, loss } = job;
  const dense = {
    flat: new Float32Array(memory.weights),
    slots: memory.slots.map((slot) => new Float32Array(slot)),
  };
  const center = createDenseClient(link, trainer);
  const intake = createBatchIntake({
    ...{ shape: ring, memory: memory.ring, cells, cellBase: 0, device: thread },
    ...{ local: { first: 0, count: threads }, readers: [threads] },
  });
  const words = trainerWords(memory, thread);
  const own = createTrainer({
    ...{ input, recipe: { optimizer, seed, loss }, shards, kernels, dense, batches },
    ...{ center, intake, isFirst: batches.worker === 0 },
    spec: { everySteps: elastic.every, prefetch, pushesMax: pushes },
    words,
    sparse: createSparseClient(link, shards, batches.worker, words.pushing),
  });
  try {
    if (thread === 0) {
      const { weights, slots } = await center.center();
      dense.flat.set(weights);
      for (const [i, slot] of dense.slots.entries()) slot.set(slots[i] ?? []);
      const others = Array.from({ length: threads - 1 }, (_, other) => other + 1);
      cells.store(begun, 1, others);
      const { steps } = scheduleOfGeneration(spec);
      intake.grant("training", Math.ceil(Math.max(0, steps - fromStep) / batches.stride) + 1);
    }
    await cells.waitUntil(
      () => "the dense weights of the trainer",
      () => cells.load(begun) === 1,
      0,
    );
    const { arithmetic, set } = kernels;
    report({ type: "ready", arithmetic, set });
    for (;;) {
      let command: TrainerCommand | undefined;
      const what = () => "a command";
      const isThere = () => {
        command = take();
        return command !== undefined;
      };
      await idle.waitUntil(what, isThere, nobody);
      switch (command?.type) {
        case "run": {
          const reached = await own.run(command);
          if (!Number.isFinite(reached.lossSum)) {
            throw new NonFiniteLossError(reached.step, reached.lossSum);
          }
          report({ type: "reached", ...reached });
          break;
        }
        case "evaluate": {
          const { part } = command;
          const scores =
            batches.worker === 0
              ? await own.evaluate(part, spec.data[part]?.samples ?? 0)
              : undefined;
          const { thresholds } = job.evaluation ?? {};
          const labels = scoredLabelsOf(job.data);
          const metrics = scores ? evaluateScores(scores, labels, thresholds) : null;
          report({ type: "evaluated", metrics });
          break;
        }
        default:
          return;
      }
    }
  } finally {
    await transport.close();
  }
}
