// The threads of a trainer.

import { join } from "node:path";
import test from "ava";
import { runSamples } from "../../../actors/threads/asynchronous/samples-program.ts";
import { trainerShapeOf } from "../../../actors/threads/asynchronous/trainer-shape.ts";
import { prepareData } from "../../../actors/threads/data/prepare-data.ts";
import { sharedSpec } from "../../../actors/threads/generation-memory.ts";
import { generationSpecOf } from "../../../actors/threads/generation-spec.ts";
import { abortTrainer, createTrainerMemory } from "../../../src/asynchronous/trainer-memory.ts";
import { GenerationAbortedError } from "../../../src/errors/errors.ts";
import { createAtomicCells, sleepTurning } from "../../../src/exchange/atomic-cells.ts";
import { createBatchIntake } from "../../../src/exchange/batch-intake.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { realClock } from "../../../src/ports/clock.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../../data/data-files.ts";

function jobIn(directory: string) {
  const tables = ["a", "b", "c"].map((name) => ({ name, rows: 200, dim: 8, rowBlocks: 2 }));
  return resolveJob({
    mode: "async",
    async: { threads: 2, servers: 2, elastic: { every: 4 } },
    model: { kind: "dlrm", dense: 4, tables, bottom: [8, 8], top: [8, 1] },
    data: {
      ...{ kind: "synthetic", samples: 1510, dense: 4, batchSize: 32, epochs: 1 },
      cache: join(directory, "cache"),
    },
    evaluation: { fraction: 0.2 },
    checkpoint: { everySteps: 10, directory: join(directory, "checkpoints") },
    optimizer: { dense: { kind: "adam", learningRate: 0.01 } },
    stepDeadlineMs: 10_000,
  });
}

test("a thread of a trainer gets its batches while another thread takes none", async (t) => {
  const job = jobIn(startDirectory(t));
  const { statistics: _, goOn: __, ...plan } = await prepareData(job, realDisk, () => {});
  const spec = generationSpecOf({
    ...{ scope: { run: "r", generation: 1 }, job, hosts: [{ host: 0, devices: 1 }], plan },
    ...{ step: 0, latest: undefined, sliceCounts: undefined, network: {} },
  });
  const { layout, size } = trainerShapeOf(spec);
  const { ring: shape, participants } = layout;
  const memory = { ...createTrainerMemory(layout, size), spec: sharedSpec(spec) };
  const reading = runSamples(
    {
      ...{ program: "samples", spec: { run: "r", generation: 1, devices: 1 }, memory },
      ...{ index: 0, fromStep: 0 },
    },
    { clock: realClock, disk: realDisk, sleep: sleepTurning, report: () => {} },
  );
  const cells = createAtomicCells({
    ...{ words: new Int32Array(memory.words), participants, participant: 0, generation: 1 },
    ...{ clock: realClock, deadlineMs: 10_000, sleep: sleepTurning },
  });
  const intake = createBatchIntake({
    ...{ shape, memory: memory.ring, cells, cellBase: 0, device: 0 },
    ...{ local: { first: 0, count: shape.devices }, readers: [shape.devices] },
  });
  t.is(shape.devices, 2);
  intake.grant("training", 100);
  for (let ticket = 0; ticket < 2 * shape.slots; ticket++) {
    const batch = await intake.next("training");
    t.is(batch.ticket, ticket);
    t.is(batch.samples, 32);
    intake.release("training");
  }
  abortTrainer(memory);
  await t.throwsAsync(reading, { instanceOf: GenerationAbortedError });
});
