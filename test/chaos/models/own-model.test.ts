// A model module of the user keeps the promises of the built-in models: the same digest on any
// number of devices and after a lost device. A run fails rather than continues with a changed
// module.

import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { addJob } from "../../../chaos/simulation/jobs.ts";
import { type JobOptions, verifyRun } from "../../../index.ts";
import { startDirectory } from "../../data/data-files.ts";
import { runJob } from "../../helpers/clusters/clusters.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { moduleOf, twoTowers } from "../../helpers/models/own-models.ts";
import { oneModelAfterLosses, simulatedData, simulateHere } from "../../helpers/simulated.ts";
import { someOrAll } from "../../helpers/thinned.ts";

/** A model module with sequences and two tasks, and the options of its data. */
function sequencesWithTwoTasks(t: ExecutionContext) {
  const path = moduleOf(
    startDirectory(t),
    `export default defineModel({
      build(graph, features) {
        const vector = blocks.reshape(features.vectors({ of: ["a"] }), [8]);
        const options = { name: "pooled", hidden: [6] };
        const pooled = blocks.targetAttention(graph, vector, features.sequence("seen"), options);
        const x = blocks.concat(graph, [vector, pooled, features.rows({ of: ["b"] })]);
        return blocks.mlp(graph, x, { name: "top", widths: [8, features.tasks.length] });
      },
    });`,
  );
  const model: JobOptions["model"] = {
    ...{ kind: "custom", path, dense: 0, tables: twoTowers.tables.slice(0, 2), dim: 8 },
    features: [
      { column: "a" },
      { column: "seen", table: "a", pooling: "none", maxLength: 4, kept: "last" },
      { column: "b" },
    ],
    tasks: [{ name: "label" }, { name: "label2" }],
  };
  const perFeature = { seen: { idsPerBag: { min: 0, max: 9 } } };
  return {
    model,
    data: { ...simulatedData, dense: 0, labels: 2, perFeature } as JobOptions["data"],
  };
}

test.serial(
  "a simulated model module with sequences and two tasks is the same on 1, 2 and 3 devices",
  async (t) => {
    const { result, generations } = await oneModelAfterLosses(sequencesWithTwoTasks(t));
    t.deepEqual(Object.keys(result.tasks ?? {}), ["label", "label2"]);
    t.deepEqual(generations, [2, 2]);
  },
);

test.serial(
  "a run whose model module changes fails, and resumes once the old contents are back",
  async (t) => {
    const path = join(startDirectory(t), "two-towers.ts");
    copyFileSync(twoTowers.path, path);
    await using place = await startCluster(2);
    const job = place.job({ model: { ...twoTowers, path } });
    const exit = { actor: "device:1", generation: 1, step: 24, point: 3, effect: "exit" } as const;
    place.threads.plan([exit]);
    const changed = runJob(place, job, ({ type }) => {
      if (type === "run.checkpointed") writeFileSync(path, "export default 1;");
    });
    await t.throwsAsync(changed, {
      code: "INVALID_OPTION",
      message:
        /`model.path` to be the module that the job began with, whose contents have the SHA-256/,
    });
    // A module with other contents is another model: the checkpoints do not belong to it.
    copyFileSync(twoTowers.path, path);
    writeFileSync(path, "\n// Another module.\n", { flag: "a" });
    await t.throwsAsync(runJob(place, job), {
      code: "CHECKPOINT_FOREIGN",
      message: /other `model`/,
    });
    copyFileSync(twoTowers.path, path);
    const { result } = await runJob(place, job);
    t.true((await verifyRun(result.directory)).isEqual, "its checkpoints can be verified");
  },
);

test.serial(
  "under simulated faults a run of a user's model module ends as its reference run",
  async (t) => {
    const job = addJob({ model: { ...twoTowers, dense: 2 } });
    const seeds = someOrAll("seeds of a user's model module", [3], [3, 4, 5]);
    const { failures } = await simulateHere(seeds, undefined, () => ({ job }));
    t.deepEqual(failures, []);
  },
);
