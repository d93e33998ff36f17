// A run resumes only with the data that it started with: the contents of its files count, not their
// names.

import { cpSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import {
  type JobOptions,
  loadModel,
  RemoteError,
  type RunResult,
  verifyRun,
} from "../../../../index.ts";
import { seal, unseal } from "../../../../storage/disk/sealed-json.ts";
import { startDirectory } from "../../../data/data-files.ts";
import {
  clicksData,
  clicksModel,
  otherWarnings,
  writeClicks,
} from "../../../helpers/clusters/clicks.ts";
import type { EitherCluster } from "../../../helpers/clusters/either-cluster.ts";
import { onCluster, trained } from "./place.ts";

interface Scene {
  readonly place: EitherCluster;
  readonly train: string;
  readonly valid: string;
  readonly checkpoints: string;
  readonly first: RunResult;
  job(more?: Partial<JobOptions>): JobOptions;
}

/** A trained job on 600 clicks, with 200 other clicks as evaluation data. */
async function startTrainedRun(t: ExecutionContext, place: EitherCluster): Promise<Scene> {
  const directory = startDirectory(t);
  const train = writeClicks(join(directory, "train.csv"), 600, 1);
  const valid = writeClicks(join(directory, "valid.csv"), 200, 2);
  const checkpoints = join(directory, "run");
  const job = (more: Partial<JobOptions> = {}): JobOptions => ({
    model: clicksModel,
    data: clicksData([train], join(directory, "cache")),
    evaluation: { data: { paths: [valid] } },
    checkpoint: { directory: checkpoints, everySteps: 5 },
    ...more,
  });
  const first = await trained(place, job());
  t.false(first.alreadyFinished);
  return { place, train, valid, checkpoints, first, job };
}

onCluster.test(
  "a run resumes with unchanged data only; other contents are refused with DATA_CHANGED",
  async (t, place) => {
    const scene = await startTrainedRun(t, place);
    await asksAgain(t, scene);
    await changesTraining(t, scene);
    await changesEvaluation(t, scene);
  },
);

/** A finished run that is submitted again reports that nothing was trained. */
async function asksAgain(t: ExecutionContext, { place, train, first, job }: Scene) {
  const again = await trained(place, job());
  t.true(again.alreadyFinished);
  t.like(again, { digest: first.digest, auc: first.auc, step: first.step });
  // The modification time and the kind of line breaks do not count as contents.
  const before = readFileSync(train, "utf8");
  utimesSync(train, 1, 1);
  t.is((await trained(place, job())).digest, first.digest);
  writeFileSync(train, before.replaceAll("\n", "\r\n"));
  t.true((await trained(place, job())).alreadyFinished);
  writeFileSync(train, before);
}

/** Checks training data with other contents, of the same number of lines or more. */
async function changesTraining(t: ExecutionContext, scene: Scene) {
  const { place, train, checkpoints, first, job } = scene;
  const before = readFileSync(train);
  for (const [lines, seed] of [
    [600, 7],
    [900, 1],
  ] as const) {
    writeClicks(train, lines, seed);
    const error = await t.throwsAsync(trained(place, job()), { instanceOf: RemoteError });
    t.is(error.code, "DATA_CHANGED");
    t.true(error.message.startsWith(`The training file ${train} has other contents (600 samples`));
    t.true(error.message.includes(`the checkpoints in ${checkpoints} were trained`));
  }
  await t.throwsAsync(verifyRun(checkpoints, { from: "start" }), {
    message: new RegExp(`the checkpoints in ${checkpoints} were trained`),
  });
  writeFileSync(train, before);
  t.is((await trained(place, job())).digest, first.digest);
  t.true((await verifyRun(checkpoints, { from: "start" })).isEqual);
}

/** Checks evaluation data with other contents, under the old name and under a new one. */
async function changesEvaluation(t: ExecutionContext, scene: Scene) {
  const { place, valid, checkpoints, first, job } = scene;
  const copy = `${valid}.copy`;
  cpSync(valid, copy);
  const elsewhere = await trained(place, job({ evaluation: { data: { paths: [copy] } } }));
  t.is(elsewhere.auc, first.auc);
  await using model = await loadModel(checkpoints);
  t.is((await model.evaluate()).auc, first.auc ?? Number.NaN);
  const other = writeClicks(`${valid}.other`, 300, 3);
  writeClicks(valid, 200, 3);
  for (const path of [other, valid]) {
    const training = trained(place, job({ evaluation: { data: { paths: [path] } } }));
    const error = await t.throwsAsync(training, { instanceOf: RemoteError });
    t.is(error.code, "DATA_CHANGED");
    const what = path === valid ? "has other contents" : `took the place of ${valid}, with other`;
    t.true(error.message.startsWith(`The evaluation file ${path} ${what}`));
  }
  // An evaluation of the model refuses changed held-out data, too.
  await t.throwsAsync(model.evaluate(), { code: "DATA_CHANGED" });
  t.is((await model.evaluate({ paths: [valid] })).samples, 200);
}

onCluster.test(
  "a finished run warns of an evaluation added later, and records missing data contents",
  async (t, place) => {
    const directory = startDirectory(t);
    const train = writeClicks(join(directory, "train.csv"), 600, 1);
    const data = clicksData([train], join(directory, "cache"));
    const checkpoint = { directory: join(directory, "run"), everySteps: 5 };
    const job = { model: clicksModel, data, checkpoint };
    const first = await trained(place, job);
    t.deepEqual(otherWarnings(first.warnings), []);
    const valid = writeClicks(join(directory, "valid.csv"), 200, 2);
    const evaluation = { data: { paths: [valid] } };
    const { alreadyFinished, warnings, auc } = await trained(place, { ...job, evaluation });
    t.deepEqual([alreadyFinished, auc], [true, undefined]);
    t.deepEqual(
      otherWarnings(warnings).map(({ code }) => code),
      ["NOT_EVALUATED"],
    );
    forgetContents(first);
    const longer = { ...job, data: { ...data, epochs: 2 }, evaluation };
    const on = await trained(place, longer);
    t.deepEqual([on.alreadyFinished, otherWarnings(on.warnings), on.step], [false, [], 24]);
    writeClicks(train, 600, 7);
    const error = await t.throwsAsync(trained(place, longer), { instanceOf: RemoteError });
    t.is(error.code, "DATA_CHANGED");
  },
);

/** Removes the data contents from the newest manifest, as an older version wrote it. */
function forgetContents({ directory, step, generation }: RunResult): void {
  const name = `${String(step).padStart(9, "0")}-g${String(generation).padStart(6, "0")}`;
  const path = join(directory, "checkpoints", name, "manifest.json");
  const { sha256: _sha256, ...manifest } = unseal(readFileSync(path), path) as {
    sha256: string;
    metrics: { contents?: unknown };
  };
  delete manifest.metrics.contents;
  writeFileSync(path, seal(manifest).text);
}
