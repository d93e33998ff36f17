// Labels that are missing for one task only: which text counts as missing, the error without the
// option, and the statistics in the cache.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { DataOptions } from "../../../src/data/options.ts";
import { csv, jsonl } from "../../../src/data/sources.ts";
import { baselineTasks } from "../../../src/job/baseline-job.ts";
import { type JobOptions, jobIdentity, resolveJob } from "../../../src/job/job.ts";
import { openCached, prepare, readPlain, startDirectory, writeText } from "../data-files.ts";

const own = { label: ["click", "buy"], dense: ["x"], batchSize: 2 };
const masked = { ...own, missingLabels: { buy: "mask" } } as const;

async function read(t: ExecutionContext, options: DataOptions) {
  const report = await prepare(options, []);
  const dataset = openCached(t, report.path);
  return { report, labels: readPlain(dataset).map(({ labels = [] }) => labels) };
}

const { NaN: none } = Number;
const lines = ["1,0,1", "0,,2", "1,NULL,3", "1,?,4", "1,1,5", "0, nan ,6"];

test("a missing label of a masked task is NaN, and the row is a sample", async (t) => {
  const directory = startDirectory(t);
  const path = writeText(directory, { name: "a.csv", text: `click,buy,x\n${lines.join("\n")}\n` });
  const cache = join(directory, "cache");
  const { report, labels } = await read(t, csv(path, { ...masked, cache }));
  t.deepEqual(labels, [
    [1, 0],
    [0, none],
    [1, none],
    [1, none],
    [1, 1],
    [0, none],
  ]);
  t.deepEqual(report.labelled, [6, 2]);
  t.is(report.positives, 4);
  const negative = csv(path, { ...own, missingLabels: { buy: "negative" }, cache });
  t.deepEqual(
    (await read(t, negative)).labels.map(([, buy]) => buy),
    [0, 0, 0, 0, 1, 0],
  );
});

test("JSON null and an absent key are missing labels, also for numeric labels", async (t) => {
  const directory = startDirectory(t);
  const rows = [
    '{"click":1,"buy":2.5,"x":1}',
    '{"click":null,"buy":null,"x":2}',
    '{"click":0,"x":3}',
  ];
  const path = writeText(directory, { name: "a.jsonl", text: `${rows.join("\n")}\n` });
  const options = {
    ...own,
    missingLabels: { click: "mask", buy: "mask" },
    ...{ numericLabels: ["buy"], cache: join(directory, "cache") },
  } as const;
  const { report, labels } = await read(t, jsonl(path, options));
  t.deepEqual(labels, [
    [1, 2.5],
    [none, none],
    [0, none],
  ]);
  t.deepEqual(
    [report.labelled, report.labelRanges],
    [
      [2, 1],
      [
        [0, 1],
        [2.5, 2.5],
      ],
    ],
  );
});

test("without the option, a row with a missing label is bad; the reason names the option", async (t) => {
  const directory = startDirectory(t);
  const path = writeText(directory, { name: "a.csv", text: `click,buy,x\n${lines.join("\n")}\n` });
  const cache = join(directory, "cache");
  const { report, labels } = await read(t, csv(path, { ...own, rejectedMax: 1, cache }));
  t.is(labels.length, 2);
  const [reason] = report.quarantine.reasons;
  t.is(reason?.kind, "the label `buy` is missing");
  t.is(
    reason?.advice,
    "`missing: mask` of the task `buy` in `model.tasks` trains the other tasks on such a row",
  );
});

const job: JobOptions = {
  model: {
    kind: "sharedBottom",
    dense: 1,
    shared: [4],
    tasks: [{ name: "click" }, { name: "buy", missing: "mask" }],
  },
  data: csv("clicks.csv", own),
};

test("a task's rule for missing labels applies to data, held-out data and baseline", (t) => {
  const resolved = resolveJob({ ...job, evaluation: { data: { paths: ["other.csv"] } } });
  t.like(resolved.data, { missingLabels: { buy: "mask" } });
  t.like(resolved.evaluation?.data, { missingLabels: { buy: "mask" } });
  const [click, buy] = baselineTasks(resolved);
  t.false("missingLabels" in (click?.data ?? {}));
  t.like(buy?.data, { label: "buy", missingLabels: { buy: "mask" } });
  const { tasks, ...model } = job.model as Extract<JobOptions["model"], { kind: "sharedBottom" }>;
  const plain = { ...job, model: { ...model, tasks: tasks.map(({ name }) => ({ name })) } };
  t.not(jobIdentity(resolved), jobIdentity(resolveJob(plain)));
});
