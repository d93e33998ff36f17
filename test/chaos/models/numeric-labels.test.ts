// Numeric labels (regression), from generated data and from a file to the model, its metrics and
// its predictions: no bit depends on the number of devices or on a kill. Also models with one task
// of each kind.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { csv, type JobOptions, loadModel, predictFile, runHistory } from "../../../index.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { historyCsv } from "../../../storage/checkpoints/run-history.ts";
import { startDirectory } from "../../data/data-files.ts";
import { runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { oneModelAfterLosses, simulatedData } from "../../helpers/simulated.ts";

const tables = ["a", "b", "c"].map((name) => ({ name, rows: 200, dim: 8 }));

const data = { kind: "synthetic", samples: 4000, dense: 4, batchSize: 64, epochs: 2 } as const;

function numberJob(place: EitherCluster): JobOptions {
  return place.job({
    data,
    model: { kind: "dlrm", dense: 4, tables, bottom: [8], top: [8, 1] },
    loss: { kind: "mse" },
    optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.05 } },
    evaluation: {
      everySteps: 10,
      earlyStopping: { metric: "rmse", patience: 4 },
      reduceOnPlateau: { metric: "mae", factor: 0.5 },
      test: {},
    },
  });
}

const taskOptions = {
  model: {
    ...{ kind: "sharedBottom", dense: 4, tables, shared: [16] },
    tasks: [
      { name: "label", tower: [8] },
      { name: "label2", weight: 0.25, loss: { kind: "mse" } },
    ],
  },
  optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.05 } },
} as const satisfies Partial<JobOptions>;

function taskJob(place: EitherCluster): JobOptions {
  return place.job({
    ...taskOptions,
    data: { ...data, labels: 2 },
    evaluation: {
      everySteps: 10,
      thresholds: [0.5],
      earlyStopping: { metric: "r2", task: "label2", patience: 50 },
    },
  });
}

test.serial(
  "a simulated model with a task of each kind is the same on 1 to 3 devices and after a loss",
  async (t) => {
    const { result, generations } = await oneModelAfterLosses({
      ...taskOptions,
      data: { ...simulatedData, labels: 2 },
      evaluation: {
        everySteps: 2,
        reduceOnPlateau: { metric: "rmse", task: "label2", factor: 0.5 },
      },
    });
    t.deepEqual(Object.keys(result.tasks ?? {}), ["label", "label2"]);
    t.deepEqual(generations, [2, 2]);
  },
);

testIf(testAll).serial(
  "numeric labels in whole runs: a regression, a task of each kind, and a file of ratings",
  async (t) => {
    await using place = await startCluster(2);
    await numberIsPredicted(t, place);
    await eachTaskIsOfItsKind(t, place);
    await ratingsArePredicted(t, place);
  },
);

/** Checks that a regression predicts plain numbers, and has the metrics of regression. */
async function numberIsPredicted(t: ExecutionContext, place: EitherCluster): Promise<void> {
  const { result } = await runJob(place, numberJob(place));
  t.true((result.r2 ?? 0) > 0.1, `R² ${result.r2}`);
  t.is(result.rmse, Math.sqrt(result.mse ?? 0));
  t.false(Number.isFinite(result.auc), "no AUC: JSON has null");
  t.is(result.evaluations?.best.metric, "rmse");
  const evaluated = result.history.flatMap(({ evaluation }) => evaluation?.rmse ?? []);
  t.is(result.evaluations?.best.evaluation.rmse, Math.min(...evaluated));
  t.deepEqual(result.warnings, []);
  const model = await loadModel(result.directory);
  const { mse, rmse, mae, r2, calibration } = await model.evaluate();
  t.like(result, { mse, rmse, mae, r2, calibration });
  const records = Array.from({ length: 60 }, (_, i) => ({ I1: i / 10 - 3, a: i, b: i, c: i }));
  const values = [...(await model.predict(records))];
  t.true(
    values.some((value) => value < 0 || value > 1),
    `no probabilities: ${values}`,
  );
  await t.throwsAsync(model.evaluate(undefined, { thresholds: [0.5] }), {
    message: /`thresholds` to be left out, as the model predicts no class, got `\[0.5\]` \(list\)/,
  });
  await model.close();
  const [head] = historyCsv(runHistory(result.directory)).split("\n");
  t.is(head, "epoch,step,samples,loss,mse,rmse,mae,r2,test.mse,test.rmse,test.mae,test.r2");
}

/** Checks that each task has metrics, columns and predictions of its kind. */
async function eachTaskIsOfItsKind(t: ExecutionContext, place: EitherCluster): Promise<void> {
  const { result } = await runJob(place, taskJob(place));
  const { label, label2 } = result.tasks ?? {};
  t.is(label?.auc, result.auc);
  t.true((label?.auc ?? 0) > 0.6, `AUC ${label?.auc}`);
  t.true((label2?.r2 ?? 0) > 0.1, `R² ${label2?.r2}`);
  t.is(label?.rmse, undefined);
  t.false(Number.isFinite(label2?.auc));
  const { best } = result.evaluations ?? {};
  t.like(best, { metric: "r2", task: "label2" });
  const all = result.history.flatMap(({ evaluation }) => evaluation?.tasks?.label2?.r2 ?? []);
  t.is(best?.evaluation.tasks?.label2?.r2, Math.max(...all));
  const [head = "", ...lines] = historyCsv(runHistory(result.directory)).trimEnd().split("\n");
  t.true(
    head.endsWith("label.recall@0.5,label.f1@0.5,label2.mse,label2.rmse,label2.mae,label2.r2"),
  );
  t.is(lines.at(-1)?.split(",").length, head.split(",").length);
  t.true(lines.at(-1)?.endsWith(`,${label2?.r2}`) === true);
  const model = await loadModel(result.directory);
  const records = Array.from({ length: 60 }, (_, i) => ({ I1: i / 10 - 3, a: i, b: i, c: i }));
  const predicted = await model.predict(records);
  const of = (task: number) => [...predicted.filter((_, i) => i % 2 === task)];
  t.true(of(0).every((p) => p > 0 && p < 1));
  t.true(of(1).some((value) => value < 0 || value > 1));
  const found = await model.evaluate(undefined, { thresholds: [0.2, 0.7] });
  t.deepEqual(
    found.tasks?.label?.thresholds?.map(({ threshold }) => threshold),
    [0.2, 0.7],
  );
  t.false("thresholds" in (found.tasks?.label2 ?? {}));
  await model.close();
}

/** Checks that a file of ratings leads to a file of predictions. */
async function ratingsArePredicted(t: ExecutionContext, place: EitherCluster): Promise<void> {
  const directory = startDirectory(t);
  const stream = new RandomStream(3, 4, 6);
  const lines = Array.from({ length: 800 }, () => {
    const [user, item] = [stream.below(20), stream.below(20)];
    return `${(user - item) / 4 + stream.normal() / 10},u${user},i${item}`;
  });
  const path = join(directory, "ratings.csv");
  writeFileSync(path, `stars,user,item\n${["oops,u1,i1", ...lines].join("\n")}\n`);
  const job = place.job({
    model: { kind: "fm", table: { rows: 50, dim: 5 } },
    loss: { kind: "mse" },
    optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.1 } },
  });
  const { cache } = job.data;
  const own = { label: "stars", categorical: ["user", "item"], batchSize: 32, epochs: 8, cache };
  const { result } = await runJob(place, { ...job, data: csv(path, own) });
  t.true((result.r2 ?? 0) > 0.7, `R² ${result.r2}`);
  const model = await loadModel(result.directory);
  const out = join(directory, "scored.csv");
  const report = await predictFile(model, path, out);
  t.is(report.bad, 0, "predictions need no label");
  const [head, , ...scored] = readFileSync(out, "utf8").trimEnd().split("\n");
  t.is(head, "stars,user,item,prediction");
  const off = scored.map((line) => {
    const [stars, , , prediction] = line.split(",").map(Number);
    return Math.abs((stars ?? 0) - (prediction ?? 0));
  });
  t.true(off.reduce((sum, one) => sum + one, 0) / off.length < 0.7);
  await model.close();
}
