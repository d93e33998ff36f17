// Warnings about the data of a run, which the run reports by code in its events and its result, and
// again when it is submitted after its end.

import { cpSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { startDirectory } from "../../../data/data-files.ts";
import { clicksData, clicksModel, writeClicks } from "../../../helpers/clusters/clicks.ts";
import { smallData, smallModel } from "../../../helpers/clusters/clusters.ts";
import { onCluster, prepared } from "./place.ts";

onCluster.test(
  "a run warns of its data and of a diverged model, and again when submitted after its end",
  async (t, { cluster }) => {
    const directory = startDirectory(t);
    const train = writeClicks(join(directory, "train.csv"), 600, 1);
    const copy = join(directory, "copy.csv");
    cpSync(train, copy);
    const data = clicksData([train], join(directory, "cache"));
    const job = {
      model: clicksModel,
      data,
      optimizer: { dense: { kind: "sgd" as const, learningRate: 1000 } },
      evaluation: { data: { ...data, paths: [copy] } },
      checkpoint: { directory: join(directory, "run") },
    };
    for (const isAgain of [false, true]) {
      const run = await cluster.submit(job);
      const result = await run.result();
      t.is(result.alreadyFinished, isAgain);
      const codes = result.warnings.map(({ code }) => code);
      t.deepEqual(codes.sort(), [
        "EVALUATION_EQUALS_TRAINING",
        "MODEL_DIVERGED",
        "VALUES_SHARE_ROWS",
      ]);
      const prepared = [];
      for await (const event of run.past()) if (event.type === "run.prepared") prepared.push(event);
      t.deepEqual(
        prepared.at(-1)?.warnings,
        result.warnings.filter(({ code }) => code !== "MODEL_DIVERGED"),
      );
    }
  },
);

test("a validation file with the samples of the training file causes a warning, under any name", async (t) => {
  const directory = startDirectory(t);
  const train = writeClicks(join(directory, "train.csv"), 600, 1);
  const [copy, other] = [join(directory, "copy.csv"), join(directory, "other.csv")];
  cpSync(train, copy);
  writeClicks(other, 600, 2);
  const data = clicksData([train], join(directory, "cache"));
  for (const [held, codes] of [
    [copy, ["EVALUATION_EQUALS_TRAINING"]],
    [other, []],
  ] as const) {
    const job = { model: clicksModel, data, evaluation: { data: { ...data, paths: [held] } } };
    // The second time, the caches exist.
    for (const _again of [false, true]) {
      const { warnings } = await prepared({ ...job, checkpoint: { directory } });
      t.deepEqual(
        warnings.map(({ code }) => code),
        [...codes, "VALUES_SHARE_ROWS"],
      );
    }
  }
});

test("a test that equals other data of the run causes a warning that names those data", async (t) => {
  const directory = startDirectory(t);
  const [train, valid, final] = [1, 2, 3].map((seed) =>
    writeClicks(join(directory, `${seed}.csv`), 300, seed),
  ) as [string, string, string];
  const data = clicksData([train], join(directory, "cache"));
  for (const [path, codes] of [
    [final, []],
    [valid, ["TEST_EQUALS_EVALUATION"]],
    [train, ["TEST_EQUALS_TRAINING"]],
  ] as const) {
    const evaluation = { data: { paths: [valid] }, test: { data: { paths: [path] } } };
    const checkpoint = { directory };
    const { warnings } = await prepared({ model: clicksModel, data, evaluation, checkpoint });
    t.deepEqual(
      warnings.map(({ code }) => code),
      [...codes, "VALUES_SHARE_ROWS"],
    );
  }
});

test("a training file among the evaluation files causes a warning that names it", async (t) => {
  const directory = startDirectory(t);
  const pathOf = (name: string) => join(directory, name);
  const train = [writeClicks(pathOf("a.csv"), 300, 1), writeClicks(pathOf("b.csv"), 300, 2)];
  const valid = [writeClicks(pathOf("c.csv"), 100, 3), writeClicks(pathOf("d.csv"), 300, 2)];
  const { warnings } = await prepared({
    model: clicksModel,
    data: clicksData(train, directory),
    evaluation: { data: { paths: valid } },
    checkpoint: { directory: pathOf("run") },
  });
  const [warning, ...others] = warnings;
  t.deepEqual(
    others.map(({ code }) => code),
    ["VALUES_SHARE_ROWS"], // The users of clicks are hashed into a small table.
  );
  t.is(warning?.code, "EVALUATION_EQUALS_TRAINING");
  t.true(warning?.message.startsWith(`The evaluation file ${valid[1]} has the text of a training`));
});

test("generated evaluation data with the training data's seed cause a warning", async (t) => {
  const directory = startDirectory(t);
  const warningsWith = async (held: object) => {
    const data = { ...smallData, cache: join(directory, "cache") };
    const evaluation = { data: held };
    const checkpoint = { directory: join(directory, "run") };
    return (await prepared({ model: smallModel, data, evaluation, checkpoint })).warnings;
  };
  const [warning] = await warningsWith({ samples: 500 });
  t.is(warning?.code, "EVALUATION_EQUALS_TRAINING");
  t.regex(warning?.message ?? "", /drawn from one stream/);
  t.deepEqual(await warningsWith({ samples: 500, zipf: 0.5 }), []);
});

test("evaluation data with other dense features are refused, even with `dataDiffers`", async (t) => {
  const directory = startDirectory(t);
  const data = clicksData([writeClicks(join(directory, "train.csv"), 600, 1)], directory);
  const evaluation = {
    data: { paths: [writeClicks(join(directory, "valid.csv"), 60, 2)], dense: [] },
    dataDiffers: true,
  };
  const checkpoint = { directory: join(directory, "run") };
  await t.throwsAsync(prepared({ model: clicksModel, data, evaluation, checkpoint }), {
    message:
      "Expected `evaluation.data.dense` to be as many columns as the model has dense features, 1, got `0` (number)",
  });
});
