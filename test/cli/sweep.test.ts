// Sweeps: the jobs they expand to, and `osiris sweep` on a cluster: when repeated, it trains no
// finished job again.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { Cluster, type JobOptions, resolveJob, sweepOf, sweptJobsOf } from "../../internal.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { startDirectory } from "../data/data-files.ts";
import { runCli, runOk } from "../helpers/processes/cli.ts";
import { jobOf } from "./jobs.ts";

const job = jobOf("checkpoints");

test("a grid sweep expands to every combination, each a separate job", (t) => {
  const sweep = sweepOf({
    over: {
      "optimizer.dense": [{ kind: "sgd" }, { kind: "adam" }],
      "model.tables.*.dim": [8, 16, 32],
      "model.bottom.1": [8],
    },
  });
  const jobs = sweptJobsOf(job, sweep);
  t.is(jobs.length, 6);
  t.deepEqual(jobs[4]?.values, {
    "optimizer.dense": { kind: "adam" },
    "model.tables.*.dim": 16,
    "model.bottom.1": 8,
  });
  t.like(jobs[4]?.job, { optimizer: { dense: { kind: "adam" } } });
  t.deepEqual(
    jobs[4]?.job.model.tables?.map(({ dim }) => dim),
    [16, 16],
  );
  for (const what of [(one: { key: string }) => one.key, directoryNameOf, nameOf]) {
    t.is(new Set(jobs.map((one) => what(one))).size, 6);
  }
  t.deepEqual(sweptJobsOf(job, sweep), jobs, "the same sweep gives the same jobs");
  t.deepEqual(job, jobOf("checkpoints"), "the given job is unchanged");
});

const directoryNameOf = (one: { job: JobOptions }) => one.job.checkpoint?.directory;
const nameOf = (one: { job: JobOptions }) => one.job.name;

test("a sweep accepts option names as error messages and the option table write them", (t) => {
  const dims = (option: string) =>
    sweptJobsOf(job, sweepOf({ over: { [option]: [24] } }))[0]?.job.model.tables?.map(
      ({ dim }) => dim,
    );
  t.deepEqual(dims("model.tables[].dim"), [24, 24]);
  t.deepEqual(dims("model.tables[1].dim"), dims("model.tables.1.dim"));
  t.not(dims("model.tables[1].dim")?.[0], 24);
});

test("a random search draws from its ranges by its seed", (t) => {
  const over = {
    "optimizer.sparse.learningRate": { min: 1e-4, max: 1e-1, scale: "log" },
    "data.batchSize": { min: 16, max: 64, integer: true },
    seed: [1, 2, 3],
  };
  const drawn = (options: object) =>
    sweptJobsOf(job, sweepOf({ search: "random", trials: 200, over, ...options }));
  const jobs = drawn({});
  t.is(jobs.length, 200);
  t.deepEqual(drawn({}), jobs);
  t.notDeepEqual(drawn({ seed: 2 }), jobs);
  t.deepEqual(drawn({ trials: 7 }), jobs.slice(0, 7), "further trials do not change the first");
  const rates = jobs.map(({ values }) => Number(values["optimizer.sparse.learningRate"]));
  t.true(rates.every((rate) => rate >= 1e-4 && rate <= 1e-1));
  const low = rates.filter((rate) => rate < Math.sqrt(1e-5)).length;
  t.true(low > 70 && low < 130, `${low} of 200 below the middle of the logarithm`);
  t.notThrows(() => jobs.map((one) => resolveJob(one.job)), "valid without an optimizer");
  const sizes = jobs.map(({ job: { data } }) => data.batchSize);
  t.true(sizes.every((size) => Number.isInteger(size) && size >= 16 && size <= 64));
});

test("an invalid sweep is refused by the name of its option", (t) => {
  const refused = (options: object, option: string) => {
    const error = t.throws(() => sweptJobsOf(job, sweepOf(options)), {
      instanceOf: InvalidOptionError,
    });
    t.is(error.option, option);
  };
  refused({}, "sweep.over");
  refused({ over: {} }, "sweep.over");
  refused({ over: { seed: { min: 1, max: 2 } } }, "sweep.over.seed");
  refused({ over: { seed: 7 } }, "sweep.over.seed");
  refused({ over: { name: ["a", "b"] } }, "sweep.over.name");
  refused({ over: { "checkpoint.directory": ["a"] } }, "sweep.over.checkpoint.directory");
  refused({ search: "random", over: { seed: { min: 2, max: 1 } } }, "sweep.over.seed.max");
  const log = { min: 0, max: 1, scale: "log" };
  refused({ search: "random", over: { seed: log } }, "sweep.over.seed.min");
  refused({ over: { "model.kind.x": [1] } }, "sweep.over.model.kind.x");
  refused({ over: { "model.tables.7.dim": [8] } }, "sweep.over.model.tables.7.dim");
  refused({ over: { a: Array(200).fill(0), b: Array(200).fill(0) } }, "sweep.over");
  const [foul] = sweptJobsOf(job, sweepOf({ over: { "__proto__.polluted": [1] } }));
  t.throws(() => resolveJob(foul?.job), { instanceOf: InvalidOptionError });
  t.is(({} as { polluted?: number }).polluted, undefined);
});

interface Report {
  readonly metric: string;
  readonly trials: readonly {
    readonly run: string;
    readonly value: number;
    readonly trial: number;
  }[];
}

test.serial(
  "osiris sweep trains each job, prints the best first, and trains none twice",
  async (t) => {
    const directory = startDirectory(t);
    const place = (name: string) => join(directory, name);
    const sweep = { over: { "optimizer.dense.learningRate": [0.001, 0.1], seed: [1] } };
    const own = {
      ...job,
      data: { ...job.data, cache: place("cache") },
      optimizer: { dense: { kind: "adagrad" } },
      checkpoint: { directory: place("kept"), everySteps: 40 },
    };
    writeFileSync(place("job.json"), JSON.stringify({ ...own, sweep }));
    await using cluster = await Cluster.start({ devices: 1 });
    const [cancelled] = sweptJobsOf(own as JobOptions, sweepOf(sweep));
    const before = await cluster.submit(cancelled?.job as JobOptions, { key: `${cancelled?.key}` });
    await before.cancel();
    for await (const _ of before.events());
    const args = ["sweep", "job.json", "--nats", cluster.url, "--token", cluster.token ?? ""];
    const report = async () => {
      const { stdout } = await runOk(t, [...args, "--json"], directory);
      const lines = stdout.trimEnd().split("\n");
      t.is(lines.length, 3, "one line a trial, and the report");
      return JSON.parse(lines[2] ?? "") as Report;
    };
    const first = await report();
    const values = first.trials.map(({ value }) => value);
    t.deepEqual(
      values,
      [...values].sort((a, b) => b - a),
    );
    t.true((values[0] ?? 0) > 0.5 && new Set(values).size > 1);
    t.deepEqual(first.trials.map(({ trial }) => trial).sort(), [0, 1]);
    t.deepEqual(await report(), first, "no trial is trained again");
    t.is((await cluster.list()).length, 3, "the cancelled trial ran once more");
    t.false(first.trials.some(({ run }) => run === before.run));

    const table = await runCli(args, directory);
    t.regex(table.stdout, /\ntrial +auc +status +run +optimizer\.dense\.learningRate +seed\n/);
    const wrong = { ...own, sweep: { over: { "model.bottom": ["x"] } } };
    writeFileSync(place("wrong.json"), JSON.stringify(wrong));
    const refused = await runCli(["sweep", "wrong.json", ...args.slice(2)], directory);
    t.is(refused.code, 2);
    t.regex(refused.stderr, /^osiris: wrong\.json: Expected `model\.bottom`/);
  },
);
