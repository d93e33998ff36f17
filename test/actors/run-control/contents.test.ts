// A run goes on only with the data that it began with: the contents of its files, not their names.

import { cpSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import {
  type JobOptions,
  loadModel,
  RemoteError,
  type RunResult,
  verifyRun,
} from "../../../index.ts";
import { seal, unseal } from "../../../storage/disk/sealed-json.ts";
import { clicksData, clicksModel, writeClicks } from "../../helpers/clusters/clicks.ts";
import { startTestCluster, type TestCluster } from "../../helpers/clusters/clusters.ts";

interface Scene {
  readonly place: TestCluster;
  readonly train: string;
  readonly valid: string;
  readonly checkpoints: string;
  job(more?: Partial<JobOptions>): JobOptions;
}

/** A trained job on 600 clicks, with 200 others to evaluate on. */
async function withTrained(t: ExecutionContext, body: (scene: Scene, first: RunResult) => unknown) {
  const directory = mkdtempSync(join(tmpdir(), "osiris-contents-"));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  await using place = await startTestCluster();
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
  await body({ place, train, valid, checkpoints, job }, first);
}

async function trained(place: TestCluster, job: JobOptions): Promise<RunResult> {
  return (await place.cluster.submit(job)).result();
}

test("a finished run that is asked for again says that nothing was trained", async (t) => {
  await withTrained(t, async ({ place, train, job }, first) => {
    const again = await trained(place, job());
    t.true(again.alreadyFinished);
    t.like(again, { digest: first.digest, auc: first.auc, step: first.step });
    // A new time and another form of the same text are the same data.
    utimesSync(train, 1, 1);
    t.is((await trained(place, job())).digest, first.digest);
    writeFileSync(train, readFileSync(train, "utf8").replaceAll("\n", "\r\n"));
    t.true((await trained(place, job())).alreadyFinished);
  });
});

test("training data with other contents, of as many lines or more, is refused by name", async (t) => {
  await withTrained(t, async ({ place, train, checkpoints, job }, first) => {
    const before = readFileSync(train);
    for (const [lines, seed] of [
      [600, 7],
      [900, 1],
    ] as const) {
      writeClicks(train, lines, seed);
      const error = await t.throwsAsync(trained(place, job()), { instanceOf: RemoteError });
      t.is(error.code, "DATA_CHANGED");
      t.true(
        error.message.startsWith(`The training file ${train} has other contents (600 samples`),
      );
      t.true(error.message.includes(`the checkpoints in ${checkpoints} were trained`));
    }
    const elsewhere = { directory: `${checkpoints}-2` };
    const other = await trained(place, job({ checkpoint: elsewhere }));
    t.false(other.alreadyFinished);
    t.not(other.digest, first.digest);
    writeFileSync(train, before);
    t.is((await trained(place, job())).digest, first.digest);
  });
});

test("evaluation data with other contents is refused, under the old name and under a new one", async (t) => {
  await withTrained(t, async ({ place, valid, job }, first) => {
    const copy = `${valid}.copy`;
    cpSync(valid, copy);
    const elsewhere = await trained(place, job({ evaluation: { data: { paths: [copy] } } }));
    t.is(elsewhere.auc, first.auc);
    const other = writeClicks(`${valid}.other`, 300, 3);
    writeClicks(valid, 200, 3);
    for (const path of [other, valid]) {
      const asked = trained(place, job({ evaluation: { data: { paths: [path] } } }));
      const error = await t.throwsAsync(asked, { instanceOf: RemoteError });
      t.is(error.code, "DATA_CHANGED");
      const what = path === valid ? "has other contents" : `took the place of ${valid}, with other`;
      t.true(error.message.startsWith(`The evaluation file ${path} ${what}`));
    }
  });
});

test("a run that ended before its job asked for an evaluation has none, and says so", async (t) => {
  await withTrained(t, async ({ place, train, checkpoints, job }) => {
    const directory = `${checkpoints}-plain`;
    const { evaluation = {}, ...plain } = job({ checkpoint: { directory } });
    t.deepEqual((await trained(place, plain)).warnings, []);
    const { alreadyFinished, warnings, auc } = await trained(place, { ...plain, evaluation });
    t.deepEqual([alreadyFinished, auc], [true, undefined]);
    t.deepEqual(
      warnings.map(({ code }) => code),
      ["NOT_EVALUATED"],
    );
    const longer = { data: { ...clicksData([train], `${checkpoints}-cache`), epochs: 2 } };
    const on = await trained(place, { ...plain, ...longer, evaluation });
    t.deepEqual([on.alreadyFinished, on.warnings], [false, []]);
  });
});

test("a checkpoint of before contents were recorded still opens, and records them", async (t) => {
  await withTrained(t, async ({ place, train, checkpoints, job }, first) => {
    forgetContents(first);
    const longer = { data: { ...clicksData([train], `${checkpoints}-cache`), epochs: 2 } };
    const second = await trained(place, job(longer));
    t.false(second.alreadyFinished);
    t.is(second.step, 24);
    writeClicks(train, 600, 7);
    const error = await t.throwsAsync(trained(place, job(longer)), { instanceOf: RemoteError });
    t.is(error.code, "DATA_CHANGED");
  });
});

test("a model is not evaluated on data that its job held out and that have changed", async (t) => {
  await withTrained(t, async ({ valid, checkpoints }, first) => {
    await using model = await loadModel(checkpoints);
    t.is((await model.evaluate()).auc, first.auc ?? Number.NaN);
    writeClicks(valid, 200, 3);
    await t.throwsAsync(model.evaluate(), { code: "DATA_CHANGED" });
    t.is((await model.evaluate({ paths: [valid] })).samples, 200);
  });
});

test("a run whose data has changed is not replayed, and its directory is named", async (t) => {
  await withTrained(t, async ({ train, checkpoints }) => {
    const { isEqual } = await verifyRun(checkpoints, { from: "start" });
    t.true(isEqual);
    writeClicks(train, 600, 7);
    const error = await t.throwsAsync(verifyRun(checkpoints, { from: "start" }));
    t.true(error?.message.includes(`the checkpoints in ${checkpoints} were trained`));
  });
});

/** Makes the newest manifest one of before: without the contents of its data. */
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
