// Deduplicated lists in whole runs: `ikjt: auto` finds the groups that pay off, and no bit depends
// on the number of devices, on tiers, on the depth of the pipeline or on a kill.

import test from "ava";
import { addJob } from "../../../chaos/simulation/jobs.ts";
import { type JobOptions, loadModel } from "../../../index.ts";
import { runJob, smallData } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { oneModelAfterLosses, simulatedData, storyOf } from "../../helpers/simulated.ts";

const tables = ["user", "seen", "item"].map((name) => ({ name, rows: 400, dim: 8 }));

const sessions = {
  samples: 8,
  features: { user: { d: 1, l: 2 }, seen: { d: 0.9, l: 4 } },
};

const model: JobOptions["model"] = {
  kind: "dlrm",
  dense: 4,
  tables,
  features: [
    { column: "user" },
    { column: "seen", table: "user", pooling: "none", maxLength: 4 },
    { column: "seenBag", table: "seen" },
    { column: "item" },
  ],
  bottom: [8, 8],
  top: [16, 8, 1],
};
const features = { ...sessions.features, seenBag: { d: 0.9, l: 4 } };
const simulated = {
  ...{ ...simulatedData, order: "sessions", samples: 240 },
  sessions: { ...sessions, features },
};
const data = { ...smallData, order: "sessions", sessions: { ...sessions, features } };

function jobOn(place: EitherCluster, more: Partial<JobOptions> = {}): JobOptions {
  return place.job({ model, ...more, data: { ...data, ikjt: "auto" } as JobOptions["data"] });
}

testIf(testAll).serial(
  "deduplicated lists train to the same model on 1 and 3 devices, with tiers and after kills",
  async (t) => {
    const digests: string[] = [];
    for (const devices of [1, 3]) {
      await using place = await startCluster(devices);
      const { result, events } = await runJob(place, jobOn(place));
      digests.push(result.digest);
      const { dedupeFactor = 0 } = result.times ?? {};
      t.true(dedupeFactor > 1.5 && dedupeFactor < 8, `${dedupeFactor}`);
      const prepared = events.find(({ type }) => type === "run.prepared");
      t.like(
        prepared,
        { ikjt: [{ features: ["user"], isChosen: true }] },
        JSON.stringify(prepared),
      );
      if (devices === 1) {
        const shallow = await runJob(place, jobOn(place, { pipeline: { depth: 1 } }));
        digests.push(shallow.result.digest);
        continue;
      }
      const trained = await loadModel(result.directory);
      const { auc, logLoss } = await trained.evaluate();
      t.deepEqual([auc, logLoss], [result.auc, result.logLoss]);
      await trained.close();
      const cached = tables.map((table) => ({ ...table, tier: "cached" as const }));
      const tiered = { model: { ...model, tables: cached } } as Partial<JobOptions>;
      digests.push((await runJob(place, jobOn(place, tiered))).result.digest);
      for (const actor of ["device:1", "reader:0"] as const) {
        place.threads.plan([{ actor, generation: 1, step: 17, point: 5, effect: "exit" }]);
        const killed = await runJob(place, jobOn(place));
        t.is(killed.result.generation, actor === "device:1" ? 2 : 1);
        digests.push(killed.result.digest);
      }
    }
    t.is(new Set(digests).size, 1, digests.join("\n"));
  },
);

test.serial("simulated deduplicated lists: the same model on 1, 2 and 3 devices", async (t) => {
  const job = { model, data: { ...simulated, ikjt: "auto" } } as Partial<JobOptions>;
  const { generations, events } = await oneModelAfterLosses(job);
  t.deepEqual(generations, [2, 2]);
  const prepared = events.find(({ type }) => type === "run.prepared");
  t.like(prepared, { ikjt: [{ features: ["user"], isChosen: true }] }, JSON.stringify(prepared));
});

test.serial(
  "if no list repeats, `ikjt: auto` chooses no group, and the model is that of plain lists",
  async (t) => {
    const own = { ...simulated, sessions: { ...sessions, features: {} } };
    const jobWith = (data: object) => addJob({ model, data } as Partial<JobOptions>);
    const found = await storyOf(jobWith({ ...own, ikjt: "auto" }));
    const prepared = found.events.find(({ type }) => type === "run.prepared");
    t.like(prepared, { ikjt: [] }, JSON.stringify(prepared));
    const plain = await storyOf(jobWith(own));
    t.is(found.result.digest, plain.result.digest);
    t.is(found.result.times?.dedupeFactor, undefined);
  },
);
