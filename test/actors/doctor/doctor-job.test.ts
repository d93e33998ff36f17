// A job against its data: the doctor reports everything that would end the run at once, before the
// run starts.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { memoryCheck } from "../../../actors/doctor/doctor-machine.ts";
import { prepareData } from "../../../actors/threads/data/prepare-data.ts";
import { Cluster, checkJob, diagnose, type JobOptions } from "../../../index.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory, writeText } from "../../data/data-files.ts";
import { startTrained } from "../../helpers/devices/trained.ts";
import { leavesOut, rocksDb } from "../../helpers/needs.ts";
import { runCli } from "../../helpers/processes/cli.ts";

/** The text of a CSV file of 300 samples, with the header `names` and the labels of `label`. */
function csvText(names: string, label: (i: number) => number = (i) => i % 2): string {
  const lines = Array.from({ length: 300 }, (_, i) => `${label(i)},${i},v${i % 5}`);
  return `${names}\n${lines.join("\n")}\n`;
}

function startJob(t: ExecutionContext) {
  const home = startDirectory(t);
  const file = (name: string, text: string) => writeText(home, { name, text });
  const paths = [file("a.csv", csvText("y,d,c"))];
  const job: JobOptions = {
    model: {
      kind: "dlrm",
      dense: 1,
      tables: [{ name: "c", rows: 9, dim: 4 }],
      bottom: [4],
      top: [1],
    },
    data: {
      kind: "csv",
      paths,
      label: "y",
      dense: ["d"],
      categorical: ["c"],
      batchSize: 8,
      cache: join(home, "cache"),
    },
    checkpoint: { directory: join(home, "checkpoints") },
  };
  return { home, file, job };
}

const withData = (job: JobOptions, more: object) =>
  ({ ...job, data: { ...job.data, ...more } }) as JobOptions;

async function failuresOf(job: JobOptions) {
  const { checks, isFit } = await checkJob(job, 1);
  const failures = checks.filter(({ state }) => state === "fail");
  return { isFit, failures: failures.map(({ name, found }) => `${name}: ${found}`), checks };
}

test.serial(
  "once the data is cached, the doctor reports the counts of each table's ids",
  async (t) => {
    const { home, file, job } = startJob(t);
    const before = (await checkJob(job)).checks.find(({ name }) => name === "data: ids");
    t.is(before?.found, "not counted yet: the first run counts them when it makes the cache");
    // `c`: one of 5 texts, all as frequent. `h`: two numbers a line, the second always 7.
    const lines = Array.from({ length: 300 }, (_, i) => `${i % 2},${i},v${i % 5},${i % 4}|7`);
    const paths = [file("b.csv", `y,d,c,h\n${lines.join("\n")}\n`)];
    const tables = [
      { name: "c", rows: 900, dim: 4 },
      { name: "h", rows: 1000, dim: 4 },
    ];
    const categorical = ["c", { column: "h", ids: "integer", separator: "|" }];
    const two = withData({ ...job, model: { ...job.model, tables } } as JobOptions, {
      ...{ paths, categorical },
    });
    await prepareData(resolveJob(two), realDisk, () => {});
    const found = ({ checks }: { checks: readonly { name: string; found: string }[] }) =>
      checks.filter(({ name }) => name.startsWith("data: ids")).map((one) => [one.name, one.found]);
    t.deepEqual(found(await checkJob(two)), [
      ["data: ids of c", "900 rows; 1.00 ids per sample, longest bag 1; 5 distinct, Zipf 2.00"],
      ["data: ids of h", "1,000 rows; 2.00 ids per sample, longest bag 2; 5 distinct, Zipf 2.00"],
    ]);
    writeFileSync(join(home, "two.json"), JSON.stringify(two));
    const { stdout } = await runCli(["train", join(home, "two.json"), "--dry-run"], home);
    t.regex(stdout, /ok {4}data: ids of h +1,000 rows; 2\.00 ids per sample/);
  },
);

test.serial("the doctor reports the counts of a job that fits, and writes nothing", async (t) => {
  const { job } = startJob(t);
  const { isFit, checks } = await failuresOf(job);
  t.true(isFit);
  const found = (name: string) => checks.find((one) => one.name === name)?.found;
  t.regex(found("data: files") ?? "", /^1 file, [\d,]+ bytes$/);
  t.is(
    found("data: lines"),
    "of the first 300 lines 150 have label 1, 150 label 0, 0 are bad (0.00 %)",
  );
  t.is(found("checkpoints: run"), "the run starts from step 0");
  t.regex(found("data: order") ?? "", /^global; split, if .* larger than 256 MiB/);
});

test.serial("the doctor reports the order of the samples, if the job has one", async (t) => {
  const { job } = startJob(t);
  for (const [more, order] of [
    [{ order: "split" }, "split"],
    [{ order: "global" }, "global"],
    [{ shuffle: false }, "the order of the files"],
  ] as const) {
    const { checks } = await checkJob(withData(job, more), 1);
    t.is(checks.find(({ name }) => name === "data: order")?.found, order);
  }
});

test.serial("the doctor reports all errors in the data of a job at once", async (t) => {
  const { home, file, job } = startJob(t);
  const paths = [
    file("a.csv", csvText("y,d,c")),
    join(home, "none.csv"),
    file("empty.csv", ""),
    file("other.csv", csvText("y,D,x")),
    file(
      "bad.csv",
      csvText("y,d,c", (i) => 7 + (i % 2)),
    ),
  ];
  const held = file("held.csv", csvText("y,d,category"));
  mkdirSync(join(home, "checkpoints"));
  writeFileSync(join(home, "checkpoints", "job.json"), "half");
  const wrong = { ...withData(job, { paths }), evaluation: { data: { paths: [held] } } };
  const { isFit, failures } = await failuresOf(wrong);
  t.false(isFit);
  const expected = [
    /^checkpoints: run: .*job\.json/,
    /^data: files: Cannot read the data file .*none\.csv: ENOENT/,
    /^data: files: The data file .*empty\.csv is empty$/,
    /^data: files: `data\.dense\[0\]` names the column `d`, which .*other\.csv does not have; it has `y`, `D`, `x`; did you mean `D`\?$/,
    /^data: files: `data\.categorical\[0\]` names the column `c`, which .*other\.csv does not have/,
    /^data: lines: of the first 600 lines 150 have label 1, 150 label 0, 300 are bad \(50\.0 %\); at most 1 % may be bad \(`rejectedMax`\)$/,
    /^evaluation: files: `evaluation\.data\.categorical\[0\]` names the column `c`, which the evaluation's file .*held\.csv does not have/,
  ];
  t.is(failures.length, expected.length, failures.join("\n"));
  for (const [i, pattern] of expected.entries()) t.regex(failures[i] ?? "", pattern);
});

test.serial("the doctor counts all rows of cached tables as memory if there is no disk", (t) => {
  const { job } = startJob(t);
  const tables = [{ name: "c", rows: 2 ** 30, dim: 1024, tier: "cached" as const }];
  const model = { ...job.model, tables, bottom: [1024] };
  const found = (ssd: "auto" | "none") =>
    memoryCheck(resolveJob({ ...job, model, tiers: { ssd } } as JobOptions), 2);
  t.regex(found("auto").found, /^\d\.\d\d GiB at most/);
  t.regex(found("none").found, /^4,\d+ GiB at most/);
  t.is(found("none").state, "fail");
});

test.serial("the doctor reports data without a sample, as the run does", async (t) => {
  const { file, job } = startJob(t);
  const bare = withData(job, { paths: [file("bare.csv", "y,d,c\n")] });
  const error = await t.throwsAsync(prepareData(resolveJob(bare), realDisk, () => {}));
  const { failures } = await failuresOf(bare);
  t.deepEqual(failures, [`data: files: ${error?.message}`]);
});

test.serial(
  "the doctor reports another job's directory and an impossible cache before a run",
  async (t) => {
    const { home, job } = startJob(t);
    await (await startTrained(job)).train({ cut: 1 });
    const again = await checkJob(job, 1);
    t.true(again.isFit);
    const goesOn = again.checks.find(({ name }) => name === "checkpoints: run")?.found ?? "";
    t.regex(goesOn, /^the run resumes from step \d+ of /);
    writeFileSync(join(home, "file"), "no directory");
    const { failures } = await failuresOf(
      withData({ ...job, seed: 5 }, { cache: join(home, "file", "cache") }),
    );
    t.deepEqual(
      failures.map((one) => one.replaceAll(home, "")),
      [
        "checkpoints: run: /checkpoints holds a run of another job",
        "cache: /file is not a directory",
      ],
    );
  },
);

test.serial(
  "osiris train --dry-run and osiris doctor exit with 2 if the job does not fit",
  async (t) => {
    const { home, job } = startJob(t);
    const wrong = withData(job, { paths: ["none.csv"], label: "label" });
    writeFileSync(join(home, "wrong.json"), JSON.stringify(wrong));
    writeFileSync(join(home, "job.json"), JSON.stringify(job));
    const dry = await runCli(["train", "wrong.json", "--dry-run"], home);
    t.is(dry.code, 2);
    t.regex(
      dry.stdout,
      /^fail +data: files +Cannot read the data file none\.csv: .*\n +name existing files/m,
    );
    t.regex(dry.stdout, /\nNothing was started\.\n$/);
    const fit = await runCli(["train", "job.json", "--dry-run", "--devices", "1"], home);
    t.is(fit.code, 0, fit.stdout);
    t.regex(fit.stdout, /\nThe job fits; nothing was started\.\n$/);
    const { isHealthy, isJobFit } = await diagnose({ job: wrong, devices: 1 });
    t.deepEqual([isHealthy, isJobFit], [false, false]);
    const doctor = await runCli(["doctor", "wrong.json", "--devices", "1"], home);
    t.is(doctor.code, 2);
  },
);

test.serial("a column that only the evaluation file lacks is reported as such", async (t) => {
  const { file, job } = startJob(t);
  const held = file("held.csv", csvText("y,dd,cc"));
  const judged = resolveJob({ ...job, evaluation: { data: { paths: [held] } } });
  const error = await t.throwsAsync(
    prepareData(judged, realDisk, () => {}),
    { code: "INVALID_OPTION" },
  );
  t.regex(
    error?.message ?? "",
    /`evaluation\.data\.dense\[0\]` names the column `d`, which the evaluation's file .*held\.csv does not have; it has `y`, `dd`, `cc`; `evaluation\.data\.categorical\[0\]` names the column `c`/,
  );
});

test.serial(
  "the doctor names the backing store: the default, or the one that holds rows of the run",
  async (t) => {
    const { job } = startJob(t);
    const tables = [{ name: "c", rows: 9, dim: 4, tier: "cached", keep: "durable" }] as const;
    const cached = { ...job, model: { ...job.model, tables } };
    const storeOf = async (options: JobOptions) => {
      const { checks } = await checkJob(options, 1);
      const { state, found } = checks.find(({ name }) => name === "tiers: store") ?? {};
      return [state, found];
    };
    t.deepEqual(await storeOf(job), [undefined, undefined], "no row lies below memory");
    t.deepEqual(await storeOf(cached), ["ok", rocksDb.isMet() ? "rocksdb" : "file"]);
    const inFiles = { ...cached, tiers: { ssd: "file" } } as const;
    t.deepEqual(await storeOf(inFiles), ["ok", "file"]);
    await using cluster = await Cluster.start({ devices: 1 });
    const { stores } = await (await cluster.submit(inFiles)).result();
    t.deepEqual(stores, ["file"]);
    t.deepEqual(await storeOf(cached), ["ok", "file, which has the rows of an earlier run"]);
    if (leavesOut(t, rocksDb)) return;
    t.deepEqual(await storeOf({ ...cached, tiers: { ssd: "rocksdb" } }), [
      "fail",
      "rocksdb, but the rows of an earlier run are in file",
    ]);
  },
);
