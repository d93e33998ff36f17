// The learning curve of a run as numbers: the same as in its result, with epochs and samples.

import test, { type ExecutionContext } from "ava";
import {
  CheckpointMissingError,
  type HistoryPoint,
  historyCsv,
  runHistory,
} from "../../../internal.ts";
import { startDirectory } from "../../data/data-files.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";

test.serial("the curve of a run and its model have the same metrics as its result", async (t) => {
  await using place = await startCluster();
  await checkCurve(t, place);
  await checkThresholds(t, place);
});

/** Checks that the curve has each cut of the run, with epochs, samples and evaluation metrics. */
async function checkCurve(t: ExecutionContext, place: EitherCluster): Promise<void> {
  const job = place.job({
    data: { kind: "synthetic", samples: 1000, dense: 4, batchSize: 64, epochs: 2 },
    evaluation: { fraction: 0.1, everySteps: 10 },
    checkpoint: { everySteps: 7 },
  });
  const { history, directory } = await (await place.cluster.submit(job)).result();
  const points = runHistory(directory);
  t.is(points.length, history.length);
  for (const [i, { step, trainLoss, evaluation }] of history.entries()) {
    const { auc, logLoss, normalizedEntropy } = evaluation ?? {};
    t.like(points[i], { step, loss: trainLoss, auc, logLoss, normalizedEntropy });
  }
  // 900 samples make 15 steps; the last step has 4 samples.
  const at = (step: number) => points.find((point) => point.step === step);
  t.like(at(7), { samples: 448, epoch: 448 / 900 });
  t.like(at(21), { samples: 900 + 384, epoch: (900 + 384) / 900 });
  t.like(at(30), { samples: 1800, epoch: 2 });

  const [head, ...lines] = historyCsv(points).trimEnd().split("\n");
  t.is(head, "epoch,step,samples,loss,logLoss,auc,normalizedEntropy");
  t.is(lines.length, points.length);
  t.regex(lines[0] ?? "", /^0\.49\d+,7,448,0\.\d+,,,$/);
  t.regex(lines.at(-1) ?? "", /^2,30,1800,0\.\d+,0\.\d+,0\.\d+,\d\.\d+$/);
}

/**
 * Checks that the model is the one which the result names, and that the result, the model and the
 * curve have precision, recall and F1 at the job's thresholds.
 */
async function checkThresholds(t: ExecutionContext, place: EitherCluster): Promise<void> {
  const thresholds = [0.3, 0.999];
  const job = place.job({ evaluation: { fraction: 0.2, thresholds, test: {} } });
  const run = await place.cluster.submit(job);
  const result = await run.result();
  t.deepEqual(
    result.thresholds?.map(({ threshold }) => threshold),
    thresholds,
  );
  await using model = await run.model();
  t.like(result, { digest: model.digest, step: model.step });
  const {
    thresholds: found,
    auc,
    logLoss,
    normalizedEntropy,
    calibration,
  } = await model.evaluate();
  t.like(result, { auc, logLoss, normalizedEntropy, calibration });
  t.true((found?.[0]?.recall ?? 0) > 0.2);
  t.is(found?.[0]?.f1, result.thresholds?.[0]?.f1);
  const points = runHistory(result.directory);
  t.deepEqual(points.at(-1)?.thresholds, found);
  const [head, ...lines] = historyCsv(points).trimEnd().split("\n");
  const at = (threshold: number) =>
    ["precision", "recall", "f1"].map((name) => `${name}@${threshold}`);
  const names = [...at(0.3), ...at(0.999)];
  const of = names.map((name) => `test.${name}`);
  t.true(head?.includes(`normalizedEntropy,${names},test.logLoss`));
  t.true(head?.endsWith(`test.normalizedEntropy,${of}`));
  t.is(lines.at(-1)?.split(",").length, head?.split(",").length);
  t.regex(lines.at(-1) ?? "", /,,0,0$/); // No probability reaches 0.999: recall 0.
}

test("in CSV, unknown values and NaN are empty fields", (t) => {
  const point: HistoryPoint = {
    ...{ epoch: undefined, step: 5, samples: undefined, loss: 0.5 },
    ...{ logLoss: 0.25, auc: Number.NaN, normalizedEntropy: Number.NaN },
  };
  t.is(historyCsv([point]).split("\n")[1], ",5,,0.5,0.25,,");
});

test("in CSV, each task has the columns of its label's kind, and a test those of the run", (t) => {
  const ofClasses = { logLoss: 0.25, auc: 0.75, normalizedEntropy: 0.5 };
  const none = { logLoss: Number.NaN, auc: Number.NaN, normalizedEntropy: Number.NaN };
  const stay = { ...none, mse: 4, rmse: 2, mae: 1, r2: 0.5 };
  const point: HistoryPoint = { epoch: 1, step: 5, samples: 9, loss: 0.5, ...stay, test: stay };
  t.is(
    historyCsv([point]),
    "epoch,step,samples,loss,mse,rmse,mae,r2,test.mse,test.rmse,test.mae,test.r2\n" +
      "1,5,9,0.5,4,2,1,0.5,4,2,1,0.5\n",
  );
  const { test: _, ...untested } = point;
  const [head] = historyCsv([
    { ...untested, ...ofClasses, rmse: undefined, tasks: { stay } },
  ]).split("\n");
  t.true(head?.endsWith(",loss,logLoss,auc,normalizedEntropy,stay.mse,stay.rmse,stay.mae,stay.r2"));
});

test("the history of a directory without a checkpoint is refused", (t) => {
  const empty = startDirectory(t);
  t.throws(() => runHistory(empty), { instanceOf: CheckpointMissingError });
});
