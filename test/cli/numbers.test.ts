// From a shell: a numeric label is inspected, trained on, evaluated and predicted.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import type { JobOptions } from "../../index.ts";
import { startDirectory } from "../data/data-files.ts";
import { runCli, runOk } from "../helpers/processes/cli.ts";
import { lastJson } from "../helpers/processes/start-cli.ts";
import { drawModel } from "../helpers/stores/drawn-model.ts";

const job = {
  model: { kind: "fm", table: { rows: 50, dim: 5 } },
  data: {
    ...{ kind: "csv", paths: ["ratings.csv"], label: "stars", categorical: ["user", "item"] },
    ...{ batchSize: 32, epochs: 6, cache: "cache", rejectedMax: 0.05 },
  },
  loss: { kind: "mse" },
  optimizer: { dense: { kind: "adagrad" }, sparse: { kind: "rowWiseAdagrad", learningRate: 0.1 } },
  evaluation: { keepBest: "r2", test: {} },
  checkpoint: { directory: "run", everySteps: 1000 },
};

interface Figures {
  readonly rmse: number;
  readonly r2: number;
  readonly auc: number | null;
}

test.serial("ratings are inspected, trained on, evaluated and predicted", async (t) => {
  const directory = startDirectory(t);
  const lines = Array.from({ length: 600 }, (_, i) => {
    const [user, item] = [(i * 7) % 20, (i * 13) % 19];
    return `${(user - item) / 4 + ((i * 31) % 11) / 50},u${user},i${item}`;
  });
  const text = `stars,user,item\n${["many,u1,i1", ...lines].join("\n")}\n`;
  writeFileSync(join(directory, "ratings.csv"), text);
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));

  const looked = await runOk(t, ["train", "job.json", "--dry-run", "--devices", "1"], directory);
  t.regex(
    looked.stdout,
    /of the first 601 lines 600 have labels from -4\.\d+ to 4\.\d+, 1 are bad/,
  );
  t.regex(looked.stdout, /1 × expected the label `stars` to be a finite number/);

  const trained = await runOk(t, ["train", "job.json", "--devices", "1"], directory);
  t.regex(trained.stdout, /^ {2}step 15 · RMSE \d\.\d+ · MAE \d\.\d+ · R² -?\d\.\d+$/m);
  t.regex(trained.stdout, /^ {5}step {4}loss {4}RMSE {2}0 +[\d.]+$/m);
  t.regex(trained.stdout, /^RMSE {17}\d\.\d+\nMSE {18}.*\nMAE {18}.*\nR² {19}0\.\d+\nCalibration/m);
  t.regex(trained.stdout, /^Best evaluation {6}step \d+: R² 0\.\d+/m);
  t.regex(
    trained.stdout,
    /^Test {17}RMSE \d\.\d+, MAE \d\.\d+, R² 0\.\d+ \(step 90, 60 samples\)$/m,
  );
  t.notRegex(trained.stdout, /AUC|entropy/);

  const result = await runCli(["train", "job.json", "--devices", "1", "--json"], directory);
  const { rmse, r2, auc } = lastJson<Figures>(result);
  t.deepEqual([rmse > 0, r2 > 0.5, auc], [true, true, null]);
  const evaluated = await runCli(["eval", "run", "--test", "--json"], directory);
  t.like(lastJson(evaluated), { report: "eval", samples: 60, auc: null, warnings: [] });
  const shown = await runCli(["eval", "run", "--data", "ratings.csv"], directory);
  t.regex(shown.stdout, /^Samples {14}600\nRMSE {17}\d\.\d+$/m);
  const refused = await runCli(["eval", "run", "--test", "--thresholds", "0.5"], directory);
  t.is(refused.code, 2);
  t.regex(refused.stderr, /^osiris: Expected `thresholds` to be left out, as the model predicts/m);

  const args = ["predict", "run", "--data", "ratings.csv", "--out", "scored.csv"];
  t.is((await runCli(args, directory)).code, 0);
  t.regex(
    readFileSync(join(directory, "scored.csv"), "utf8"),
    /^stars,user,item,prediction\nmany,/,
  );
  await runOk(t, [...args.slice(0, 5), "named.csv", "--column", "p"], directory);
  t.regex(readFileSync(join(directory, "named.csv"), "utf8"), /^stars,user,item,p\n/);
});

test.serial("an evaluation may choose other thresholds than the job", async (t) => {
  const directory = startDirectory(t);
  const { evaluation: _, loss: _mse, ...plain } = job;
  const data = { kind: "synthetic", samples: 600, batchSize: 32, cache: "cache" };
  const tables = ["a", "b"].map((name) => ({ name, rows: 50, dim: 5 }));
  const own = { ...plain, data, model: { kind: "fm", tables, dense: 2 }, evaluation: { test: {} } };
  const place = (name: string) => join(directory, name);
  await drawModel({
    ...own,
    data: { ...data, cache: place("cache") },
    checkpoint: { directory: place("run") },
  } as JobOptions);
  const args = ["eval", "run", "--test", "--thresholds"];
  const shown = await runCli([...args, "0.25,0.75"], directory);
  t.regex(shown.stdout, /^From 0\.25 on +precision .*\nFrom 0\.75 on/m);
  const wrong = await runCli([...args, "0.5,half"], directory);
  t.is(wrong.code, 2);
  t.regex(wrong.stderr, /^osiris: Expected `thresholds` to be numbers between 0 and 1, got/m);
});

test.serial("a first task with one class still allows stopping by another task", async (t) => {
  const directory = startDirectory(t);
  const lineOf = (i: number, click: number) => `${click},${((i * 7) % 20) / 4},u${i % 20}`;
  const write = (name: string, clickOf: (i: number) => number) => {
    const lines = Array.from({ length: 200 }, (_, i) => lineOf(i, clickOf(i)));
    writeFileSync(join(directory, name), `click,seconds,user\n${lines.join("\n")}\n`);
  };
  write("train.csv", (i) => (i % 3 === 0 ? 1 : 0));
  write("held.csv", () => 0);
  const tasks = [{ name: "click" }, { name: "seconds", loss: { kind: "mse" } }];
  const data = { kind: "csv", paths: ["train.csv"], label: ["click", "seconds"] };
  const earlyStopping = (task: string, metric: string) => ({
    data: { paths: ["held.csv"] },
    earlyStopping: { metric, task, patience: 2 },
  });
  const own = {
    model: { kind: "sharedBottom", table: { rows: 30, dim: 4 }, shared: [8], tasks },
    data: { ...data, categorical: ["user"], batchSize: 32, epochs: 3, cache: "cache" },
    checkpoint: { directory: "run" },
  };
  const train = async (evaluation: object) => {
    writeFileSync(join(directory, "job.json"), JSON.stringify({ ...own, evaluation }));
    return await runCli(["train", "job.json", "--devices", "1"], directory);
  };
  const refused = await train(earlyStopping("click", "auc"));
  t.is(refused.code, 2);
  t.regex(refused.stderr, /Expected a metric that evaluation data of one class have, got auc/);
  const trained = await train(earlyStopping("seconds", "rmse"));
  t.is(trained.code, 0, trained.stderr);
  t.regex(trained.stdout, /^Best evaluation {6}step \d+: RMSE of seconds \d/m);
  t.regex(trained.stdout, /^Task seconds {9}RMSE \d\.\d+, MAE \d\.\d+, R² -?\d/m);
  t.regex(trained.stdout, /^Warning {14}There is no AUC and no normalized entropy: all 200 lines/m);
});
