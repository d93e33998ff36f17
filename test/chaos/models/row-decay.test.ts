// Tables whose rows decay together, in whole runs: no bit depends on the devices, on a kill or on
// when cuts are made, and the saved model predicts as the run did.

import { type JobOptions, loadModel, verifyRun } from "../../../index.ts";
import { runJob, startTestCluster, type TestCluster } from "../../helpers/clusters/clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";

const optimizer = {
  sparse: {
    kind: "rowWiseAdagrad",
    learningRate: 0.1,
    schedule: { kind: "step", everySteps: 10, factor: 0.5 },
  },
} as const satisfies JobOptions["optimizer"];

function jobOn(place: TestCluster, checkpoint: NonNullable<JobOptions["checkpoint"]> = {}) {
  const job = place.job({ optimizer, evaluation: { fraction: 0.2, everySteps: 5 } });
  const tables = job.model.tables?.map((table) => ({ ...table, l2: 0.2, l2Scope: "decayed" }));
  return {
    ...job,
    model: { ...job.model, tables } as JobOptions["model"],
    checkpoint: { ...job.checkpoint, ...checkpoint },
  };
}

testIf(testAll)(
  "decay in closed form gives one model on 1 and 3 devices, after a kill, and replayed",
  async (t) => {
    await using alone = await startTestCluster(1);
    const { result: expected } = await runJob(alone, jobOn(alone, { everySteps: 7 }));
    await using place = await startTestCluster(3);
    place.threads.plan([{ actor: "device:1", generation: 1, step: 23, point: 5, effect: "exit" }]);
    const { result } = await runJob(place, jobOn(place));
    t.is(result.generation, 2);
    t.is(result.digest, expected.digest);
    t.deepEqual([result.auc, result.logLoss], [expected.auc, expected.logLoss]);
    const model = await loadModel(result.directory);
    const { auc, logLoss } = await model.evaluate();
    t.deepEqual([auc, logLoss], [result.auc, result.logLoss]);
    await model.close();
    const { isEqual, leaves } = await verifyRun(result.directory);
    t.true(isEqual, JSON.stringify(leaves));
  },
);
