// Law 4: the number of devices changes no bit. test/training/step has the other kinds of jobs.

import test from "ava";
import type { JobOptions, RunResult } from "../../../index.ts";
import { runJob, smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { calmRun, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { someOrAll } from "../../helpers/thinned.ts";

const tables = ["a", "b", "c"].map((name) => ({ name, rows: 200, dim: 8 }));

const adam = { kind: "adam", learningRate: 0.01 } as const;

const jobs: Record<string, Partial<JobOptions>> = {
  "dropout, L2, Adam, mean pooling, row blocks": {
    model: {
      ...smallModel,
      dropout: 0.3,
      tables: tables.map((table) => ({ ...table, pooling: "mean", rowBlocks: 4, l2: 0.01 })),
    },
    data: { ...smallData, idsPerBag: { min: 0, max: 5 }, epochs: 2 },
    optimizer: { dense: adam, sparse: adam },
  },
  "a data-parallel table with a penalty on all of it": {
    model: {
      ...smallModel,
      tables: [
        { name: "a", rows: 50, dim: 8, sharding: "data-parallel", l2: 0.1, l2Scope: "table" },
        { name: "b", rows: 500, dim: 8, pooling: "mean" },
        { name: "c", rows: 20, dim: 8, sharding: "data-parallel", rowBlocks: 4 },
      ],
    },
    data: { ...smallData, idsPerBag: { min: 0, max: 4 } },
    optimizer: { sparse: { kind: "adagrad" } },
  },
};

for (const [name, overrides] of Object.entries(jobs)) {
  test.serial(`a model is the same on any number of devices: ${name}`, async (t) => {
    await using place = await startCluster(3);
    const results: RunResult[] = [];
    for (const devices of someOrAll(`devices, ${name}`, [1, 3], [1, 2, 3])) {
      results.push((await runJob(place, place.job({ ...overrides, devices }))).result);
    }
    const [first, ...others] = results;
    if (first === undefined) throw new Error("There is no result");
    t.true((first.history.at(-1)?.trainLoss ?? 0) > 0);
    for (const other of others) {
      t.is(other.digest, first.digest);
      t.deepEqual(other.history, first.history);
    }
  });
}

test.serial("P7: a run on 3 devices may resume on another number of them", async (t) => {
  await using place = await startCluster(3);
  const job = place.job({ devices: 3 });
  const cancelled = await runJob(place, job, (event, run) =>
    event.type === "run.started" ? run.cancel() : undefined,
  );
  t.is(cancelled.result.status, "cancelled");
  const { result } = await runJob(place, { ...job, devices: 2 });
  t.is(result.digest, (await calmRun()).digest);
});
