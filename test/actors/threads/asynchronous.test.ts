// The threads of asynchronous training, with a real broker between them.

import { join } from "node:path";
import { startAsyncThreads } from "../../../bench/step/async-threads.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { createPartTally } from "../../../src/training/checkpoint/part-names.ts";
import type { Manifest } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { startDirectory } from "../../data/data-files.ts";
import { testAll, testIf } from "../../helpers/needs.ts";

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

// In `npm test`, asynchronous-run.test.ts trains and saves with the same threads.
testIf(testAll).serial(
  "threads of two trainers share an epoch, and their checkpoint can be continued",
  async (t) => {
    const directory = startDirectory(t);
    const job = jobIn(directory);
    let saved: Pick<Manifest, "cut" | "generation" | "arithmetic" | "parts"> | undefined;
    let after: unknown;
    {
      await using all = await startAsyncThreads(job, 2);
      const { samples } = all.spec.data.training;
      const steps = Math.ceil(samples / 32);
      const before = await all.evaluate("evaluation");
      const windows = [
        { fromStep: 0, toStep: 9, plateau: 1 },
        { fromStep: 9, toStep: steps, plateau: 1 },
      ];
      const reached = [];
      for (const window of windows) reached.push(...(await all.run(window)));
      t.is(
        reached.reduce((sum, one) => sum + one.samples, 0),
        samples,
      );
      const { pushes, exchanges } = all.updates();
      t.is(pushes, 2 * steps); // Each batch has rows on both servers.
      t.true(exchanges > steps / 8);
      const parts = await all.save(steps);
      const tally = createPartTally(job.model.tables);
      for (const { name } of parts) tally.add(name);
      t.true(tally.isWhole);
      const { generation } = all.spec;
      const { arithmetic } = all;
      saved = { cut: steps, generation, arithmetic, parts };
      after = await all.evaluate("evaluation");
      t.true((before?.logLoss ?? 0) > 0.6 && (before?.samples ?? 0) > 250);
      t.notDeepEqual(after, before);
    }
    await using all = await startAsyncThreads(job, 2, saved as Manifest);
    t.deepEqual(await all.evaluate("evaluation"), after);
  },
);
