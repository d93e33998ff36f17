// The commands as a shell runs them: help, refusals, job files, data, evaluation.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { connectionFlags } from "../../cli/support/arguments.ts";
import { loadJob } from "../../cli/support/job-file.ts";
import { type JobSpec, jobIdentity, resolveJob } from "../../src/job/job.ts";
import { startDirectory } from "../data/data-files.ts";
import { runCli, runOk } from "../helpers/processes/cli.ts";
import { lastJson, startCli } from "../helpers/processes/start-cli.ts";
import { directoryWith, jobOf, writeEveryKind } from "./jobs.ts";

interface DemoReport {
  readonly digest: string;
  readonly undisturbedDigest: string;
  readonly recoverySeconds: number;
  readonly step: { readonly predictedMs: number; readonly measuredMs: number };
}

const commands =
  "init demo train up host submit status top cancel scale generate transform eval predict serve metrics plan schema chaos build-native".split(
    " ",
  );

test("a printed command has the connection's flags that differ from the defaults", (t) => {
  const usual = { nats: process.env.OSIRIS_NATS ?? "nats://127.0.0.1:4222", cluster: "c1" };
  t.is(connectionFlags(usual), "");
  const other = { nats: "nats://10.0.0.7:4333", cluster: "c2", tenant: "ads" };
  t.is(connectionFlags(other), " --nats nats://10.0.0.7:4333 --cluster c2 --tenant ads");
});

const nested = [
  ...["list", "verify", "diff", "restore"].map((name) => `checkpoint ${name}`),
  ...["export", "ids", "import", "inspect"].map((name) => `table ${name}`),
];

test.serial("the help of every command has examples and exit codes", async (t) => {
  const directory = startDirectory(t);
  const all = await runOk(t, ["--help"], directory);
  for (const command of commands) t.true(all.stdout.includes(`\n  ${command} `), command);
  for (const command of [...commands, ...nested]) {
    const { stdout } = await runOk(t, [...command.split(" "), "--help"], directory);
    t.regex(stdout, new RegExp(`Usage: osiris ${command} `));
    t.regex(stdout, new RegExp(`\\$ osiris ${command}`));
    t.regex(stdout, /--json/);
    t.regex(stdout, /Exit codes: 0 done, 1 failed, 2 wrong/);
  }
});

test.serial("a command sets the exit code of its process", async (t) => {
  const directory = directoryWith(t, jobOf("none"));
  const runs: [string[], number, RegExp][] = [
    [["plan", "job.json", "--devices", "1", "--memory", "1kB"], 1, /^$/], // Nothing fits.
    [["trian"], 2, /^osiris: unknown command 'trian'/],
  ];
  for (const [args, wanted, sentence] of runs) {
    const alone = await startCli(args, directory).ended;
    t.is(alone.code, wanted, alone.stderr);
    t.regex(alone.stderr, sentence);
    t.deepEqual(await runCli(args, directory), alone, "the tests' shared session prints the same");
  }
});

test.serial("`osiris schema` prints the complete schema of a job", async (t) => {
  const { stdout } = await runOk(t, ["schema"], startDirectory(t));
  const { required, properties } = JSON.parse(stdout);
  t.deepEqual(required, ["model", "data"]);
  t.is(properties.slices.default, "auto");
});

test.serial("all errors of a job are printed, one line each", async (t) => {
  const directory = startDirectory(t);
  const job = { ...jobOf("checkpoints"), seed: -1, speed: 2 };
  writeFileSync(join(directory, "wrong.json"), JSON.stringify(job));
  const ended = await runCli(["train", "wrong.json", "--json"], directory);
  t.is(ended.code, 2);
  const report = lastJson<{ problems: { option: string; message: string }[] }>(ended);
  t.like(report, { report: "error", code: "INVALID_OPTION" });
  t.deepEqual(report.problems.map(({ option }) => option).sort(), ["seed", "speed"]);
  const lines = ended.stderr.trimEnd().split("\n");
  t.is(lines.length, 2, ended.stderr);
  for (const line of lines) t.regex(line, /^osiris: wrong\.json: Expected /);
});

test.serial("a mistake is reported in one sentence that names it, with exit code 2", async (t) => {
  const directory = startDirectory(t);
  const write = (name: string, text: string) => writeFileSync(join(directory, name), text);
  write("broken.yaml", "model: [");
  write("broken.ts", "export const job = {");
  write("swept.json", JSON.stringify({ ...jobOf("checkpoints"), sweep: { over: { seed: [1] } } }));
  write("empty.json", "{}");
  write("silent.ts", "export const other = 1;");
  write("synthetic.json", JSON.stringify(jobOf("checkpoints")));
  const wrong: [string[], RegExp][] = [
    [["trian"], /^osiris: unknown command 'trian'/],
    [["train", "synthetic.json", "--devices", "0"], /--devices.*Expected an integer >= 1/],
    [["metrics", "--port", "70000"], /--port.*Expected an integer >= 0, at most 65535/],
    [["train", "absent.yaml"], /^osiris: Cannot read the job absent\.yaml: ENOENT/],
    [["train", "absent.ts"], /^osiris: Cannot read the job absent\.ts: ENOENT/],
    [["train", "broken.yaml"], /^osiris: Cannot read the job broken\.yaml: .*line/],
    [["train", "broken.ts"], /^osiris: Cannot read the job broken\.ts: .*broken\.ts:\d+:\d+$/m],
    [["train", "swept.json"], /^osiris: The job swept\.json has a `sweep`: `osiris sweep`/],
    [["train", "silent.ts"], /^osiris: Cannot read the job silent\.ts: expected it to export/],
    [["train", "job.toml"], /^osiris: Cannot read the job job\.toml: expected a file ending/],
    [["train", "empty.json"], /^osiris: empty\.json: Expected `model` to be an object/],
    [["train", "synthetic.json", "--data", "x.tsv"], /^osiris: synthetic\.json: `--data` is for/],
    [["demo", "--data", "empty.json"], /^osiris: empty\.json is not a Criteo file/],
    [["demo", "--kill", "device:2"], /^osiris: Expected `--kill` to name one of the 2 devices/],
    [["eval", "nowhere", "--data", "empty.json"], /^osiris: .*nowhere/],
  ];
  for (const [args, sentence] of wrong) {
    const { code, stdout, stderr } = await runCli(args, directory);
    t.is(code, 2, `${args.join(" ")}: ${stderr}`);
    t.regex(stderr, sentence);
    t.is(stdout, "");
    t.notRegex(stderr, /\n {4}at /);
  }
});

test.serial("a job in YAML, JSON, JavaScript or TypeScript is the same job", async (t) => {
  const directory = startDirectory(t);
  const files = writeEveryKind(directory);
  const specs: JobSpec[] = [];
  for (const file of files) specs.push(resolveJob(await loadJob(join(directory, file))));
  const identities = specs.map((spec) => jobIdentity(spec));
  t.is(identities.length, 4);
  t.is(new Set(identities).size, 1);
  const [first, ...others] = specs.map(({ checkpoint: _, ...rest }) => rest);
  for (const other of others) t.deepEqual(other, first);
  // The command itself also loads the job from the TypeScript module.
  const ended = await runOk(t, ["train", files.at(-1) ?? "", "--json"], directory);
  t.like(lastJson(ended), { report: "train", step: 43 });
});

test.serial("a model trains on generated data, and is evaluated on its file", async (t) => {
  const directory = startDirectory(t);
  const generate = ["generate", "--rows", "50", "--samples", "2000", "--json", "--out"];
  const made = await runOk(t, [...generate, "data.tsv"], directory);
  const report = lastJson<{ positives: number; bestAuc: number }>(made);
  const lines = readFileSync(join(directory, "data.tsv"), "utf8").trimEnd().split("\n");
  t.is(lines.length, 2000);
  t.is(lines.filter((line) => line.startsWith("1\t")).length, report.positives);
  t.true(report.bestAuc > 0.75 && report.bestAuc < 0.9);

  const tables = Array.from({ length: 26 }, (_, at) => ({ name: `C${at + 1}`, rows: 64, dim: 4 }));
  const job = {
    model: { kind: "dlrm", dense: 13, tables, bottom: [4], top: [8, 1] },
    data: { kind: "criteo-tsv", paths: ["other.tsv"], batchSize: 100, cache: "cache" },
    evaluation: { data: { kind: "criteo-tsv", paths: ["data.tsv"], cache: "cache" } },
    checkpoint: { directory: "checkpoints" },
  };
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  const trained = await runOk(t, ["train", "job.json", "--data", "data.tsv", "--json"], directory);
  const result = lastJson<{ auc: number; digest: string }>(trained);
  const evaluated = await runOk(
    t,
    ["eval", "checkpoints", "--data", "data.tsv", "--json"],
    directory,
  );
  const { auc, digest } = result;
  t.like(lastJson(evaluated), { samples: 2000, auc, digest });
  // The evaluation file has the samples of the training.
  const told = lastJson<{ warnings: { code: string }[] }>(evaluated).warnings;
  t.deepEqual(
    told.map(({ code }) => code),
    ["EVALUATION_EQUALS_TRAINING"],
  );

  const [positive = "", other = ""] = ["1\t", "0\t"].map((label) => {
    return lines.find((line) => line.startsWith(label));
  });
  writeFileSync(join(directory, "ones.tsv"), `${positive}\n${positive}\n`);
  const ones = await runOk(t, ["eval", "checkpoints", "--data", "ones.tsv", "--json"], directory);
  const { warnings } = lastJson<{ warnings: { code: string; message: string }[] }>(ones);
  t.is(warnings[0]?.code, "EVALUATION_OF_ONE_CLASS");
  writeFileSync(join(directory, "bad.tsv"), `${positive}\n${other}\n1\t2\n`);
  const bad = await runCli(["eval", "checkpoints", "--data", "bad.tsv"], directory);
  t.is(bad.code, 2);
  t.regex(bad.stderr, /^osiris: Expected at most 1 % of the lines of bad\.tsv to be bad/);
});

test.serial("`osiris demo` kills a device, and ends with equal models", async (t) => {
  const directory = startDirectory(t);
  // Runs of some twenty steps end within a heartbeat, and are killed in their midst all the same.
  const generate = ["generate", "--rows", "50", "--samples", "3000", "--out", "data.tsv"];
  t.is((await runCli(generate, directory)).code, 0);
  const ended = await runOk(t, ["demo", "--data", "data.tsv", "--json"], directory);
  t.is(ended.stdout.trimEnd().split("\n").length, 1);
  const report = lastJson<DemoReport>(ended);
  t.like(report, { report: "demo", killed: "device:1", killedAtStep: 11, equal: true });
  t.is(report.digest, report.undisturbedDigest);
  t.regex(report.digest, /^sha256:[0-9a-f]{64}$/);
  t.true(report.recoverySeconds > 0);
  t.regex(ended.stderr, /! device:1 failed/);
  t.true(report.step.predictedMs > 0 && report.step.measuredMs > 0);
  t.regex(ended.stderr, /^Step +predicted \S+ \S+, measured \S+ \S+ \(the median\)$/m);
});

test.serial(
  "`osiris chaos --simulate` prints a JSON line per schedule, and a summary as the last line",
  async (t) => {
    const args = ["chaos", "--simulate", "--seeds", "2-3", "--jobs", "1", "--json"];
    const ended = await runOk(t, args, startDirectory(t));
    const lines = ended.stdout.trimEnd().split("\n");
    t.is(lines.length, 3);
    const { schedules, failures, faults } = lastJson<{
      readonly schedules: number;
      readonly failures: unknown[];
      readonly faults: Record<string, number>;
    }>(ended);
    t.deepEqual([schedules, failures], [2, []]);
    t.true(Object.keys(faults).length > 0);
  },
);
