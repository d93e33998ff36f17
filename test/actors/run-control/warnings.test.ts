// What a run warns of: in its events and its result, by name, with a result as before.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { JobOptions } from "../../../index.ts";
import { clicksData, clicksModel, writeClicks } from "../../helpers/clusters/clicks.ts";
import { startTestCluster, type TestCluster } from "../../helpers/clusters/clusters.ts";

function directoryOf(t: ExecutionContext): string {
  const directory = mkdtempSync(join(tmpdir(), "osiris-warnings-"));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

async function warningsOf(place: TestCluster, job: JobOptions) {
  const run = await place.cluster.submit(job);
  const result = await run.result();
  const prepared = [];
  for await (const event of run.past()) if (event.type === "run.prepared") prepared.push(event);
  return { result, told: prepared.at(-1)?.warnings };
}

test("a validation file with the samples of the training file is a warning, under any name", async (t) => {
  const directory = directoryOf(t);
  await using place = await startTestCluster();
  const train = writeClicks(join(directory, "train.csv"), 600, 1);
  const [copy, other] = [join(directory, "copy.csv"), join(directory, "other.csv")];
  cpSync(train, copy);
  writeClicks(other, 600, 2);
  const data = clicksData([train], join(directory, "cache"));
  for (const [held, codes] of [
    [copy, ["EVALUATION_EQUALS_TRAINING"]],
    [other, []],
  ] as const) {
    const evaluation = { data: { ...data, paths: [held] } };
    const directoryOfRun = join(directory, `run-${codes.length}`);
    const checkpoint = { directory: directoryOfRun };
    const job = { model: clicksModel, data, evaluation, checkpoint };
    for (const _again of [false, true]) {
      const { result, told } = await warningsOf(place, job);
      t.is(result.status, "finished");
      t.deepEqual(
        result.warnings.map(({ code }) => code),
        [...codes],
      );
      t.deepEqual(told, result.warnings);
    }
  }
});

test("a training file among the files to evaluate on is a warning that names it", async (t) => {
  const directory = directoryOf(t);
  await using place = await startTestCluster();
  const pathOf = (name: string) => join(directory, name);
  const train = [writeClicks(pathOf("a.csv"), 300, 1), writeClicks(pathOf("b.csv"), 300, 2)];
  const valid = [writeClicks(pathOf("c.csv"), 100, 3), writeClicks(pathOf("d.csv"), 300, 2)];
  const job = {
    model: clicksModel,
    data: clicksData(train, directory),
    evaluation: { data: { paths: valid } },
    checkpoint: { directory: pathOf("run") },
  };
  const [warning, ...others] = (await warningsOf(place, job)).result.warnings;
  t.deepEqual(others, []);
  t.is(warning?.code, "EVALUATION_EQUALS_TRAINING");
  t.true(warning?.message.startsWith(`The evaluation file ${valid[1]} has the text of a training`));
});

test("a model that diverged is a warning of the result", async (t) => {
  const directory = directoryOf(t);
  await using place = await startTestCluster();
  const train = writeClicks(join(directory, "train.csv"), 600, 1);
  const job = {
    model: clicksModel,
    data: clicksData([train], join(directory, "cache")),
    optimizer: { dense: { kind: "sgd" as const, learningRate: 1000 } },
    evaluation: { fraction: 0.2 },
    checkpoint: { directory: join(directory, "run") },
  };
  const { result } = await warningsOf(place, job);
  t.is(result.status, "finished");
  t.deepEqual(
    result.warnings.map(({ code }) => code),
    ["MODEL_DIVERGED"],
  );
});

test("generated evaluation data from the training data's stream are a warning", async (t) => {
  await using place = await startTestCluster();
  const { result } = await warningsOf(place, place.job({ evaluation: { data: { samples: 500 } } }));
  const [warning] = result.warnings;
  t.is(warning?.code, "EVALUATION_EQUALS_TRAINING");
  t.regex(warning?.message ?? "", /drawn from one stream/);
  const held = { samples: 500, zipf: 0.5 };
  const other = await warningsOf(place, place.job({ evaluation: { data: held } }));
  t.deepEqual(other.result.warnings, []);
});

test("evaluation data with other dense features than the model are refused, also where meant", async (t) => {
  const directory = directoryOf(t);
  await using place = await startTestCluster();
  const data = clicksData([writeClicks(join(directory, "train.csv"), 600, 1)], directory);
  const evaluation = {
    data: { paths: [writeClicks(join(directory, "valid.csv"), 60, 2)], dense: [] },
    dataDiffers: true,
  };
  const checkpoint = { directory: join(directory, "run") };
  const run = await place.cluster.submit({ model: clicksModel, data, evaluation, checkpoint });
  await t.throwsAsync(run.result(), {
    message:
      "Expected `evaluation.data.dense` to be as many columns as the model has dense features, 1, got `0` (number)",
  });
});
