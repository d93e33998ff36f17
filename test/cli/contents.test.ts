// From a shell: a repeated command with the same data and with other data under the same name; then
// the history and the best model from the checkpoints.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { startDirectory } from "../data/data-files.ts";
import { clicksData, clicksModel, otherWarnings, writeClicks } from "../helpers/clusters/clicks.ts";
import { runCli, runOk } from "../helpers/processes/cli.ts";
import { lastJson } from "../helpers/processes/start-cli.ts";

interface TrainReport {
  readonly alreadyFinished: boolean;
  readonly digest: string;
  readonly warnings: readonly { readonly code: string }[];
  readonly evaluations: { readonly best: { readonly step: number; readonly manifest: string } };
}

test.serial("a repeated train trains nothing, and refuses changed data", async (t) => {
  const directory = startDirectory(t);
  writeClicks(join(directory, "train.csv"), 300, 1);
  writeClicks(join(directory, "valid.csv"), 300, 2);
  const job = {
    model: clicksModel,
    data: { ...clicksData(["train.csv"], "cache"), epochs: 4 },
    evaluation: { data: { paths: ["valid.csv"] }, keepBest: "auc" },
    checkpoint: { directory: "run", everySteps: 1000 },
  };
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  const train = ["train", "job.json", "--history", "curve.csv"];

  const first = await runOk(t, [...train, "--json"], directory);
  const { digest, alreadyFinished, warnings, evaluations } = lastJson<TrainReport>(first);
  t.deepEqual([alreadyFinished, otherWarnings(warnings)], [false, []]);
  const curve = readFileSync(join(directory, "curve.csv"), "utf8");
  t.regex(curve, /^epoch,step,samples,loss,logLoss,auc,normalizedEntropy\n1,6,300,0\.\d+,/);
  for (const from of ["run", "job.json"]) {
    const printed = await runCli(["history", from], directory);
    t.deepEqual([printed.code, printed.stdout], [0, curve]);
  }
  // A glob pattern stands for the files that it matches, so the plan finds the run's cache.
  const byPattern = { ...job, data: clicksData(["trai?.csv"], "cache") };
  writeFileSync(join(directory, "pattern.json"), JSON.stringify(byPattern));
  const planned = await runCli(["plan", "pattern.json", "--json"], directory);
  t.like(lastJson(planned), { statistics: { from: "cache", samples: 300 } }, planned.stderr);
  const best = ["eval", "run", "--data", "valid.csv", "--manifest", "best", "--json"];
  await runOk(t, best, directory);

  const again = await runOk(t, train, directory);
  t.regex(again.stdout, /^Already finished, from run \(step 24\): nothing was trained\.$/m);
  t.regex(
    again.stdout,
    new RegExp(`^Best evaluation {6}step ${evaluations.best.step}: AUC 0`, "m"),
  );
  t.true(again.stdout.includes(digest));

  writeClicks(join(directory, "train.csv"), 300, 3);
  const changed = await runCli([...train, "--json"], directory);
  t.is(changed.code, 2);
  t.like(lastJson(changed), { report: "error", code: "DATA_CHANGED" });
  t.regex(
    changed.stderr,
    /osiris: The training file train\.csv has other contents .* since the checkpoints in run were/,
  );

  const unwritable = await runCli(["train", "job.json", "--history", "no/such/file"], directory);
  t.is(unwritable.code, 2);
  t.regex(unwritable.stderr, /^osiris: Cannot write the curve no\/such\/file: /m);
  t.notRegex(unwritable.stdout, /Data:/);
});
