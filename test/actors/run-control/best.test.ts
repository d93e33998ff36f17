// The best evaluation of a run is told beside the last one, and its checkpoint is kept where the
// job says so: the run itself is the same.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import {
  CheckpointMissingError,
  exportTable,
  type JobOptions,
  loadModel,
  type RunResult,
} from "../../../index.ts";
import { clicksData, clicksModel, writeClicks } from "../../helpers/clusters/clicks.ts";
import { startTestCluster, type TestCluster } from "../../helpers/clusters/clusters.ts";

/** Trains until the model knows its samples by heart: the last evaluation is not the best one. */
function sceneOf(t: ExecutionContext) {
  const directory = mkdtempSync(join(tmpdir(), "osiris-best-"));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const train = writeClicks(join(directory, "train.csv"), 300, 1);
  const valid = writeClicks(join(directory, "valid.csv"), 300, 2);
  let runs = 0;
  const job = (keepBest?: "auc" | "logLoss", epochs = 12, name = `run-${runs++}`): JobOptions => ({
    model: clicksModel,
    data: { ...clicksData([train], join(directory, "cache")), epochs },
    optimizer: { sparse: { kind: "adagrad", learningRate: 0.3 } },
    evaluation: { data: { paths: [valid] }, ...(keepBest ? { keepBest } : {}) },
    checkpoint: { directory: join(directory, name), everySteps: 1000, keep: 1 },
  });
  return { directory, job };
}

async function trained(place: TestCluster, job: JobOptions): Promise<RunResult> {
  return (await place.cluster.submit(job)).result();
}

test("the last and the best evaluation are told, and without keepBest the best is not kept", async (t) => {
  const { job } = sceneOf(t);
  await using place = await startTestCluster();
  const { evaluations, history, auc, directory, step } = await trained(place, job());
  const aucs = history.map(({ evaluation }) => evaluation?.auc ?? 0);
  t.like(evaluations?.last, { step, evaluation: { auc } });
  t.like(evaluations?.best, { metric: "auc", evaluation: { auc: Math.max(...aucs) } });
  t.true((evaluations?.best.step ?? step) < step);
  t.is(evaluations?.best.manifest, undefined);
  await t.throwsAsync(loadModel(directory, { manifest: "best" }), {
    instanceOf: CheckpointMissingError,
    message: /that is the best: `evaluation\.keepBest` or `evaluation\.earlyStopping` keeps one$/,
  });
});

test("keepBest keeps the best checkpoint by its metric, and changes no bit of the run", async (t) => {
  const { directory: home, job } = sceneOf(t);
  await using place = await startTestCluster();
  const plain = await trained(place, job());
  for (const metric of ["auc", "logLoss"] as const) {
    const { digest, directory, evaluations, step } = await trained(place, job(metric));
    t.is(digest, plain.digest);
    const best = evaluations?.best;
    t.is(best?.metric, metric);
    await using kept = await loadModel(directory, { manifest: "best" });
    t.is(kept.step, best?.step ?? 0);
    t.is((await kept.evaluate())[metric], best?.evaluation[metric] ?? Number.NaN);
    for (const manifest of ["last", undefined]) {
      await using last = await loadModel(directory, manifest === undefined ? {} : { manifest });
      t.deepEqual([last.step, last.digest], [step, digest]);
    }
    const file = join(home, `${metric}.csv`);
    const { cut, manifest } = await exportTable(directory, "user", file, { manifest: "best" });
    t.deepEqual([cut, manifest], [best?.step ?? 0, best?.manifest ?? ""]);
  }
});

test("a run that is asked to go on knows the best of its first part", async (t) => {
  const { job } = sceneOf(t);
  await using place = await startTestCluster();
  const whole = await trained(place, job("auc"));
  await trained(place, job("auc", 8, "parts"));
  const parts = await trained(place, job("auc", 12, "parts"));
  t.is(parts.digest, whole.digest);
  t.is(parts.evaluations?.best.step, whole.evaluations?.best.step ?? 0);
  t.not(parts.evaluations?.best.manifest, undefined);
  t.false(parts.alreadyFinished);
  t.true((await trained(place, job("auc", 12, "parts"))).alreadyFinished);
});
