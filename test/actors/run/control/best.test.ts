// The best evaluation of a run is reported beside the last one, and its checkpoint is kept with
// `keepBest`; neither changes the run. If the job has a test, both models are tested.

import { join } from "node:path";
import type { ExecutionContext } from "ava";
import {
  CheckpointMissingError,
  type JobOptions,
  loadModel,
  runHistory,
} from "../../../../internal.ts";
import { exportTable } from "../../../../packages/formats/index.ts";
import { startDirectory } from "../../../data/data-files.ts";
import { clicksData, clicksModel, writeClicks } from "../../../helpers/clusters/clicks.ts";
import { someOrAll } from "../../../helpers/thinned.ts";
import { onCluster, trained } from "./place.ts";

/** Jobs that overfit, so that the last evaluation is not the best one. */
function sceneOf(t: ExecutionContext) {
  const directory = startDirectory(t);
  const [train, valid, final] = [1, 2, 3].map((seed) =>
    writeClicks(join(directory, `${seed}.csv`), 300, seed),
  ) as [string, string, string];
  const job = (
    name: string,
    more: NonNullable<JobOptions["evaluation"]> = {},
    epochs = 12,
  ): JobOptions => ({
    model: clicksModel,
    data: { ...clicksData([train], join(directory, "cache")), epochs },
    optimizer: { sparse: { kind: "adagrad", learningRate: 0.3 } },
    evaluation: { data: { paths: [valid] }, ...more },
    checkpoint: { directory: join(directory, name), everySteps: 1000, keep: 1 },
  });
  return { directory, job, test: { data: { paths: [final] } } };
}

onCluster.test(
  "keepBest and a test change no bit, and a resumed run knows the best of its first part",
  async (t, place) => {
    const { directory: home, job, test } = sceneOf(t);
    const plain = await trained(place, job("plain"));
    const aucs = plain.history.map(({ evaluation }) => evaluation?.auc ?? 0);
    const { step } = plain;
    t.like(plain.evaluations?.last, { step, evaluation: { auc: plain.auc } });
    t.like(plain.evaluations?.best, { metric: "auc", evaluation: { auc: Math.max(...aucs) } });
    t.true((plain.evaluations?.best.step ?? step) < step);
    t.is(plain.evaluations?.best.manifest, undefined);
    await t.throwsAsync(loadModel(plain.directory, { manifest: "best" }), {
      instanceOf: CheckpointMissingError,
      message: /that is the best: `evaluation\.keepBest` or `evaluation\.earlyStopping` keeps one$/,
    });
    // A run that finished before its job had a test has no test result, and warns of that.
    const late = await trained(place, job("plain", { test }));
    const codes = late.warnings.map(({ code }) => code);
    t.true(late.alreadyFinished && codes.includes("NOT_TESTED"), `${codes}`);

    for (const metric of someOrAll<"auc" | "logLoss">(
      "metrics of the best",
      ["auc"],
      ["auc", "logLoss"],
    )) {
      const ofBest = { keepBest: metric, test } as const;
      await trained(place, job(metric, ofBest, 8));
      const result = await trained(place, job(metric, ofBest));
      const { digest, directory, evaluations } = result;
      t.false(result.alreadyFinished);
      t.is(digest, plain.digest);
      const best = evaluations?.best;
      t.is(best?.metric, metric);
      if (metric === "auc") t.is(best?.step, plain.evaluations?.best.step);
      t.like(result.test, { step });
      t.like(result.bestTest, { step: best?.step });
      await using kept = await loadModel(directory, { manifest: "best" });
      t.is(kept.step, best?.step ?? 0);
      t.is((await kept.evaluate())[metric], best?.evaluation[metric] ?? Number.NaN);
      t.deepEqual(await kept.evaluate(undefined, { part: "test" }), result.bestTest?.metrics);
      for (const manifest of ["last", undefined]) {
        await using last = await loadModel(directory, manifest === undefined ? {} : { manifest });
        t.deepEqual([last.step, last.digest], [step, digest]);
        t.deepEqual(await last.evaluate(undefined, { part: "test" }), result.test?.metrics);
      }
      const tested = runHistory(directory).flatMap((point) => (point.test ? point.step : []));
      t.true(tested.includes(step), `${tested}`);
      const file = join(home, `${metric}.csv`);
      const { cut, manifest } = await exportTable(directory, "user", file, { manifest: "best" });
      t.deepEqual([cut, manifest], [best?.step ?? 0, best?.manifest ?? ""]);
      t.true((await trained(place, job(metric, ofBest))).alreadyFinished);
    }
  },
);
