// The logistic regression baseline of a model: its job is valid for every kind of model, and keeps
// every option that decides the samples.

import test from "ava";
import { csv, synthetic } from "../../src/data/sources.ts";
import { baselineJob, baselineTasks } from "../../src/job/baseline-job.ts";
import { resolveJob } from "../../src/job/job.ts";
import { zoo } from "../helpers/models/zoo.ts";

const of = { directory: "elsewhere", samples: 80 };

for (const [title, model] of Object.entries(zoo)) {
  test(`the baseline of ${title} is a job of logistic regression on its features`, (t) => {
    const { dense = 0, tasks } = model as { dense?: number; tasks?: readonly object[] };
    const more = tasks === undefined || tasks.length === 1 ? {} : { labels: tasks.length };
    const data = synthetic({ samples: 100, batchSize: 10, dense, ...more });
    const job = resolveJob({ model, data, evaluation: { fraction: 0.2 }, seed: 7 });
    const labels = baselineTasks(job);
    t.is(labels.length, tasks?.length ?? 1);
    for (const task of labels) {
      if (task.data === undefined) continue; // Synthetic data of several labels.
      const own = resolveJob(JSON.parse(JSON.stringify(baselineJob(job, task, of))));
      t.is(own.model.kind, "lr");
      t.is(own.seed, 7);
      t.is(own.checkpoint.directory, "elsewhere");
      t.is(own.evaluation?.fraction, 0.2);
      t.is(own.data.passes, 40);
      const names = (of: typeof job) => of.model.tables.map(({ name, rows }) => [name, rows]);
      t.deepEqual(names(own), names(job));
      t.is(own.model.features?.length, job.model.features?.length);
    }
  });
}

test("a job with two labels has two baselines, on the same rows", (t) => {
  const job = resolveJob({
    model: {
      kind: "sharedBottom",
      tables: [{ name: "user", rows: 9, dim: 4 }],
      shared: [4],
      tasks: [{ name: "click" }, { name: "seconds", loss: { kind: "mse" } }],
    },
    data: csv("clicks.csv", {
      label: ["click", "seconds"],
      numericLabels: ["seconds"],
      categorical: ["user"],
      batchSize: 8,
    }),
    evaluation: { fraction: 0.2, test: { fraction: 0.1 } },
  });
  const tasks = baselineTasks(job);
  t.deepEqual(
    tasks.map(({ name }) => name),
    ["click", "seconds"],
  );
  const [click, seconds] = tasks.map((task) => {
    return resolveJob(JSON.parse(JSON.stringify(baselineJob(job, task, of))));
  });
  t.like(click?.data, { label: "click", batchSize: 8 });
  t.like(seconds?.data, { label: "seconds", numericLabels: ["seconds"] });
  t.is(seconds?.loss.kind, "mse");
  t.is(click?.loss.kind, "binaryCrossEntropy");
  t.is(click?.data.passes, 40, "more epochs for few samples");
  const many = { directory: "elsewhere", samples: 8 * 1500 };
  const of1500 = baselineJob(job, tasks[0] as (typeof tasks)[number], many);
  t.is(of1500.data.epochs, 2, "2,000 steps at least");
  t.is(click?.evaluation?.test?.fraction, 0.1);
});
