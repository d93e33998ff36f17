// osiris plan from outside: what it prints, writes, reads back and refuses.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import type { JobPlan, MachineConstants } from "../../index.ts";
import { lastJson, runCli } from "../helpers/cli.ts";
import { directoryOf } from "./jobs.ts";

type Feasible = Extract<JobPlan, { isFeasible: true }>;
type Infeasible = Extract<JobPlan, { isFeasible: false }>;

const tables = [
  { name: "hot", rows: 500_000, dim: 64 },
  { name: "B", rows: 1000, dim: 64 },
  { name: "C", rows: 1000, dim: 64, sharding: "data-parallel" },
];
const job = {
  model: { kind: "dlrm", dense: 4, tables, bottom: [64], top: [16, 1] },
  data: { kind: "synthetic", samples: 1000, dense: 4, batchSize: 64, idsPerBag: 10 },
};

test.serial("a plan is explained: load, bytes, step and what was considered", async (t) => {
  const directory = directoryOf(t);
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  const { code, stdout, stderr } = await runCli(["plan", "job.json"], directory);
  t.is(code, 0, stderr);
  t.regex(stdout, /^job\.json: 3 shards on 2 devices of 1 host\n/);
  t.regex(stdout, /device +load +memory +shards\n0 +\S+ us +\S+ MB +2\n1 /);
  t.regex(stdout, /Exchanged a step +ids \S+ kB, pooled \S+ kB, gradients/);
  const stages =
    "input exchange,prefetch,lookup,output exchange,dense layers,backward exchange,update,all-reduce";
  for (const stage of stages.split(",")) t.regex(stdout, new RegExp(`\n  ${stage} +\\S+`));
  t.regex(stdout, /Considered .*\n +\S+ us +greedy, greedy by cost\n/);
  t.regex(stdout, /Plan +sha256:[0-9a-f]{64}\n$/);
  t.notRegex(stdout, /!/); // A run does what the job says.
});

test.serial("a plan is written, read back and judged the same", async (t) => {
  const directory = directoryOf(t);
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  const search = ["plan", "job.json", "--devices", "4", "--hosts", "2", "--schemes", "all"];
  const written = await runCli([...search, "--out", "plan.json", "--json"], directory);
  t.is(written.code, 0, written.stderr);
  const plan = lastJson<Feasible & { report: string }>(written);
  t.like(plan, { report: "plan", isFeasible: true, plan: { devices: { hosts: 2, perHost: 2 } } });
  t.true(readFileSync(join(directory, "plan.json"), "utf8").includes(plan.sha256));
  t.true(plan.missing.includes("Runs use the devices of one host yet"));

  const judged = await runCli(["plan", "job.json", "--plan", "plan.json", "--json"], directory);
  t.is(judged.code, 0, judged.stderr);
  const { assessment, sha256 } = lastJson<Feasible>(judged);
  t.deepEqual({ assessment, sha256 }, { assessment: plan.assessment, sha256: plan.sha256 });
});

test.serial("schemes that no run executes yet are marked", async (t) => {
  const directory = directoryOf(t);
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  const args = ["plan", "job.json", "--schemes", "column-wise"];
  const { code, stdout } = await runCli(args, directory);
  t.is(code, 0);
  t.regex(stdout, /\n {2}! Runs do not execute column-wise shards yet\n/);
  const whole = await runCli(["plan", "job.json", "--schemes", "table-wise"], directory);
  t.regex(whole.stdout, /\n {2}! The job must say `sharding: table` of C\n/);
});

test.serial("where nothing fits it says who lacks what, and what would do", async (t) => {
  const directory = directoryOf(t);
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  const args = ["plan", "job.json", "--memory", "100MB"];
  const { code, stdout } = await runCli(args, directory);
  t.is(code, 1);
  t.regex(stdout, /^No plan was found that fits job\.json\.\n {2}Table hot needs \d+ bytes/);
  t.regex(stdout, /Any one of these would do.*\n {2}Allow column-wise \(then/);
  const json = lastJson<Infeasible>(await runCli([...args, "--json"], directory));
  t.is(json.unmet[0]?.kind, "table");
  t.true((json.unmet[0]?.lacksBytes ?? 0) > 20e6);

  // Each remedy does what it says: here, a scheme more.
  const allowed = [...args, "--schemes", "table-wise,data-parallel,column-wise"];
  t.is((await runCli(allowed, directory)).code, 0);
});

test.serial("constants that were measured are read, and change what is predicted", async (t) => {
  const directory = directoryOf(t);
  writeFileSync(join(directory, "job.json"), JSON.stringify(job));
  const measure = ["plan", "--calibrate", "--devices", "2", "--memory", "1GB"];
  const measured = await runCli([...measure, "--out", "machine.json"], directory);
  t.is(measured.code, 0, measured.stderr);
  t.regex(measured.stdout, /^machine\.json: the constants of .*, 2 threads, /);
  const text = readFileSync(join(directory, "machine.json"), "utf8");
  const constants = JSON.parse(text) as MachineConstants;
  t.is(constants.memoryBytes, 1e9);

  const plain = lastJson<Feasible>(await runCli(["plan", "job.json", "--json"], directory));
  const args = ["plan", "job.json", "--constants", "machine.json", "--json"];
  const found = lastJson<Feasible & { source: string }>(await runCli(args, directory));
  t.is(found.source, constants.source);
  t.true(found.assessment.step > plain.assessment.step); // No V100 here.
});

test.serial("what is wrong is told in one sentence, with exit code 2", async (t) => {
  const directory = directoryOf(t);
  const write = (name: string, text: string) => writeFileSync(join(directory, name), text);
  write("job.json", JSON.stringify(job));
  write("odd.json", '{"memoryBandwidth": -1}');
  write("torn.json", '{"version": 1');
  const wrong: [string[], RegExp][] = [
    [["plan"], /^osiris: Expected a job file to plan, or `--calibrate`/],
    [["plan", "job.json", "--schemes", "diagonal"], /--schemes.*Expected `all` or any of table-wi/],
    [["plan", "job.json", "--devices", "3", "--hosts", "2"], /multiple of the 2 hosts, got `3`/],
    [["plan", "job.json", "--memory", "9 apples"], /--memory.*Expected bytes > 0/],
    [["plan", "job.json", "--constants", "no.json"], /^osiris: Cannot read no\.json: ENOENT/],
    [["plan", "job.json", "--constants", "torn.json"], /the constants torn\.json: it is no JSON/],
    [
      ["plan", "job.json", "--constants", "odd.json"],
      /`constants\.memoryBandwidth` to be a number >/,
    ],
    [["plan", "job.json", "--plan", "torn.json"], /Cannot use the plan torn\.json: it is no JSON/],
    [["plan", "job.json", "--out", "no/plan.json"], /^osiris: Cannot write no\/plan\.json: ENOENT/],
  ];
  for (const [args, sentence] of wrong) {
    const { code, stderr } = await runCli(args, directory);
    t.is(code, 2, `${args.join(" ")}: ${stderr}`);
    t.regex(stderr, sentence);
    t.notRegex(stderr, /\n {4}at /);
  }
});
