// The first models of ten logs as users bring them: `osiris init` reports the role of each column,
// and the job trains a model as good as logistic regression on the same lines.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { stringify } from "yaml";
import { checkJob, type JobOptions, loadModel } from "../../../../internal.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { runJob } from "../../../../test/helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../../../test/helpers/clusters/either-cluster.ts";
import { startCluster } from "../../../../test/helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../../../test/helpers/needs.ts";
import { assignRoles, firstJobOf, profileColumns } from "../../index.ts";
import { drawLog, kinds, type Log } from "./logs.ts";
import { aucOf, regressionAuc } from "./one-hot-regression.ts";

/** Writes the files of a log to a directory. */
function filesOf(log: Log, directory: string) {
  mkdirSync(directory);
  const [train, held] = ["train", "test"].map((name) => join(directory, `${name}.${log.ending}`));
  if (train === undefined || held === undefined) throw new TypeError("two files");
  writeFileSync(train, log.train.file);
  writeFileSync(held, log.test.file);
  return { train, held };
}

/** The first job of a log; checks that a dry run accepts it. */
async function jobOf(t: ExecutionContext, log: Log, directory: string) {
  const { train, held } = filesOf(log, directory);
  const data = await profileColumns([train]);
  const roles = assignRoles(data, { label: log.label });
  const made = firstJobOf(data, roles, { vocabularies: join(directory, "vocabularies") });
  mkdirSync(join(directory, "vocabularies"));
  for (const { path, bytes } of made.vocabularies) writeFileSync(path, bytes);
  // `checkJob` below validates it as it does a job file.
  const given = made.job as unknown as JobOptions;
  const job = {
    ...given,
    data: { ...given.data, cache: join(directory, "cache") } as JobOptions["data"],
    checkpoint: { ...given.checkpoint, directory: join(directory, "run") },
  };
  const { isFit, checks } = await checkJob(job, 1);
  t.true(isFit, `${log.title}: ${stringify(checks.filter(({ state }) => state === "fail"))}`);
  return { job, data, roles, held };
}

/** The AUC of the first model on the log's test rows, and the AUC of the regression. */
async function trained(t: ExecutionContext, place: EitherCluster, log: Log, directory: string) {
  const { job, held } = await jobOf(t, log, directory);
  const { result } = await runJob(place, { ...job, stepDeadlineMs: 30_000 });
  t.not(result.status, "cancelled");
  const codes = result.warnings.map(({ code }) => code);
  t.deepEqual(
    codes.filter((code) => /DIVERGED|OVERFITTED|SHARE_ROWS|PREDICTS_LABEL/.test(code)),
    [],
    log.title,
  );
  await using model = await loadModel(result.directory);
  const { auc } = await model.evaluate({ paths: [held] });
  return { auc, regression: regressionAuc(log) };
}

/**
 * Tolerance for chance: the AUC of two equally good models on 4,000 lines differs by 0.005
 * (standard deviation), and the regression has no evaluation that stops it too early.
 */
const chance = 0.005;

testIf(testAll).serial(
  "the first models of ten logs are as good as logistic regression",
  async (t) => {
    const home = startDirectory(t);
    await using place = await startCluster(1);
    const gains: number[] = [];
    for (const [i, kind] of kinds.entries()) {
      const log = drawLog(kind, { train: 8000, test: 4000 }, 7 + i);
      const { auc, regression } = await trained(t, place, log, join(home, `${i}`));
      t.log(`${log.title}: ${auc.toFixed(4)}, logistic regression ${regression.toFixed(4)}`);
      t.true(auc > regression - chance, `${log.title}: ${auc} beside ${regression}`);
      gains.push(auc - regression);
    }
    const mean = gains.reduce((sum, gain) => sum + gain, 0) / gains.length;
    t.true(mean > 0, `on average ${mean}`);
  },
);

test.serial(
  "the first model of a log is as good as logistic regression on its lines",
  async (t) => {
    const home = startDirectory(t);
    await using place = await startCluster(1);
    const [kind] = kinds.slice(4); // Ids written as decimals, with missing values.
    if (kind === undefined) throw new TypeError("a log");
    const log = drawLog(kind, { train: 3000, test: 2000 }, 11);
    const { auc, regression } = await trained(t, place, log, join(home, "log"));
    t.true(auc > regression - 2 * chance, `${auc} beside ${regression}: of 2,000 lines`);
  },
);

test("each of ten logs gives a job that a dry run accepts, and names the columns left out", async (t) => {
  const home = startDirectory(t);
  const rolesOf: Record<string, Record<string, string>> = {};
  for (const [i, kind] of kinds.entries()) {
    const log = drawLog(kind, { train: 1500, test: 10 }, 20 + i);
    const { roles, data, job } = await jobOf(t, log, join(home, `${i}`));
    rolesOf[log.title] = Object.fromEntries(roles.map(({ profile, role }) => [profile.name, role]));
    const ignored = roles.filter(({ role }) => role === "ignored");
    t.true(
      ignored.every(({ profile }) => !log.features.includes(profile.name)),
      log.title,
    );
    if (log.title.startsWith("a line break")) t.is(data.bad, 0);
    if (log.title.includes("commas")) {
      const { dense } = job.data as { readonly dense: readonly object[] };
      t.deepEqual(dense[0], { column: "price", log: true, decimalComma: true });
    }
  }
  const usual = { click: "label", user_id: "categorical", item_id: "categorical", price: "dense" };
  t.like(rolesOf["other outcomes beside the click"], {
    ...usual,
    purchase: "ignored",
    dwell_time: "ignored",
  });
  t.like(rolesOf["ids that a program wrote as decimals"], usual);
  t.like(rolesOf["ratings of one and five stars"], { rating: "label" });
  t.like(rolesOf["a line break in a quoted field now and then"], { ...usual, ts: "time" });
});

test("the regression's AUC equals the pairwise definition", (t) => {
  const scored = Array.from({ length: 60 }, (_, i) => [(i * 7) % 11, i % 3 === 0 ? 1 : 0] as const);
  let [pairs, right] = [0, 0];
  for (const [one, label] of scored) {
    for (const [other, otherLabel] of scored) {
      if (label !== 1 || otherLabel !== 0) continue;
      pairs++;
      right += one > other ? 1 : one === other ? 0.5 : 0;
    }
  }
  t.true(Math.abs(aucOf(scored) - right / pairs) < 1e-12);
});
