// `osiris plan` with a given plan, and as a dry run.

import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { writeCostNetworks } from "../../../packages/sharding/files/cost-networks-file.ts";
import { writePlan } from "../../../src/planner/plan-file.ts";
import { planOfFile } from "../../../src/planner/shards.ts";
import { startDirectory } from "../../data/data-files.ts";
import { drawnNetworks } from "../../helpers/cost-networks.ts";
import { leavesOut, testAll } from "../../helpers/needs.ts";
import { runCli, runOk } from "../../helpers/processes/cli.ts";
import { lastJson, startCli } from "../../helpers/processes/start-cli.ts";
import { directoryWith } from "../jobs.ts";

const job = {
  model: {
    ...{ kind: "dlrm", dense: 4, bottom: [64], top: [16, 1] },
    tables: [
      { name: "hot", rows: 500_000, dim: 64 },
      { name: "B", rows: 1000, dim: 64 },
      { name: "C", rows: 1000, dim: 64 },
    ],
  },
  data: { kind: "synthetic", samples: 1000, dense: 4, batchSize: 64, idsPerBag: 10 },
  sharding: "as-written",
};

test.serial("a given plan is refused if it is not for these devices", async (t) => {
  const directory = directoryWith(t, job);
  const made = ["plan", "job.json", "--devices", "4", "--hosts", "2", "--schemes", "table-wise"];
  t.is((await runCli([...made, "--out", "plan.json"], directory)).code, 0);
  const from = ["plan", "job.json", "--from", "plan.json"];
  const good = await runOk(t, from, directory);
  t.regex(good.stdout, /^job\.json: 3 shards on 4 devices of 2 hosts\n/);
  t.is((await runCli([...from, "--devices", "4", "--hosts", "2"], directory)).code, 0);
  const refused = async (args: readonly string[], message: RegExp) => {
    const { code, stderr, stdout } = await runCli(args, directory);
    t.is(code, 2, stdout);
    t.regex(stderr, message);
    return stderr;
  };
  const told = await refused(
    [...from, "--memory", "50MB"],
    /^osiris: Cannot use the plan plan\.json: device \d needs \d+ bytes, and has 50000000: plan anew/,
  );
  // The memory that the message names is enough, and one byte less is not.
  const needed = Number(/--memory (\d+)/.exec(told)?.[1]);
  t.is((await runCli([...from, "--memory", String(needed)], directory)).code, 0);
  await refused([...from, "--memory", String(needed - 1)], /Cannot use the plan plan\.json/);
  await refused(
    [...from, "--devices", "4"],
    /`--devices` to be the 4 of 2 hosts that plan\.json is for, got 4 of 1: leave it out/,
  );
  const text = readFileSync(join(directory, "plan.json"), "utf8");
  const { text: ghost } = writePlan(planOfFile(JSON.parse(text.replaceAll('"hot"', '"ghost"'))));
  writeFileSync(join(directory, "ghost.json"), ghost);
  await refused(
    ["plan", "job.json", "--from", "ghost.json"],
    /Cannot use the plan ghost\.json: it places the table ghost, which the job does not have/,
  );
  await refused([...from, "--plan", "plan.json"], /'--from <FILE>' cannot be used with.*--plan/);
});

test.serial("more devices are no remedy on a machine whose devices share its memory", async (t) => {
  const tables = ["a", "b", "c", "d"].map((name) => ({ name, rows: 40_000_000, dim: 64 }));
  const directory = directoryWith(t, { ...job, model: { ...job.model, tables } });
  const unknown = ["env", "-u", "OSIRIS_CONSTANTS", `XDG_CACHE_HOME=${directory}`];
  const plan = (...devices: string[]) =>
    startCli(["plan", "job.json", "--dry-run", ...devices], directory, unknown).ended;
  const { code, stdout } = await plan("--devices", "2");
  t.is(code, 1);
  t.notRegex(stdout, /Use \d+ devices/);
  const hosts = Number(/Use (\d+) hosts/.exec(stdout)?.[1]);
  t.is((await plan("--hosts", `${hosts}`, "--devices", `${2 * hosts}`)).code, 0, stdout);
});

test.serial("a dry run plans, measures nothing and writes nothing", async (t) => {
  const directory = directoryWith(t, job);
  const dry = ["plan", "job.json", "--dry-run", "--devices", "16", "--hosts", "2"];
  const before = readdirSync(directory).sort();
  const unknown = ["env", "-u", "OSIRIS_CONSTANTS", `XDG_CACHE_HOME=${directory}`];
  const told = await startCli(dry, directory, unknown).ended;
  t.is(told.code, 0, told.stderr);
  t.regex(told.stdout, /^job\.json: \d+ shards on 16 devices of 2 hosts\n/);
  t.regex(told.stdout, /this machine was not measured/);
  t.notRegex(told.stderr, /Measuring/);
  t.deepEqual(readdirSync(directory).sort(), before);
  const both = await runCli([...dry, "--out", "plan.json"], directory);
  t.is(both.code, 2);
  t.regex(both.stderr, /'--dry-run' cannot be used with.*--out/);
});

test.serial("a job with a table too large for a device trains by a learned plan", async (t) => {
  const directory = startDirectory(t);
  const tables = [
    { name: "tall", rows: 40_000, dim: 32, rowBlocks: 8 },
    { name: "square", rows: 5000, dim: 128, rowBlocks: 4 },
  ];
  const model = { ...job.model, tables, bottom: [8], interaction: "cat" };
  const large = { ...job, model, sharding: "auto" };
  writeFileSync(join(directory, "job.json"), JSON.stringify(large));
  await writeCostNetworks(join(directory, "costs.st"), drawnNetworks(2, 1), {});
  const search = ["plan", "job.json", "--cost-model", "costs.st", "--devices", "2"];
  const memory = ["--memory", "5MB", "--schemes", "table-wise,row-wise,column-wise"];
  const found = await runOk(t, [...search, ...memory, "--out", "plan.json"], directory);
  t.regex(found.stdout, /\nLearned costs .* of rows.* \(no room without\)/);
  const { shards } = planOfFile(JSON.parse(readFileSync(join(directory, "plan.json"), "utf8")));
  t.true(shards.filter(({ table }) => table === "tall").length > 1);
  const digestOf = async (...args: string[]) => {
    const run = await runOk(t, ["train", "job.json", "--json", ...args], directory);
    rmSync(join(directory, "checkpoints"), { recursive: true });
    return lastJson<{ digest: string }>(run).digest;
  };
  const digest = await digestOf("--plan", "plan.json");
  // In `npm test`, plan.test.ts compares the digests of a plan and of one device.
  if (!leavesOut(t, testAll)) t.is(digest, await digestOf("--devices", "1"));
});

test.serial("a plan with too little memory is reported, with the remedy", async (t) => {
  const directory = directoryWith(t, job);
  t.is((await runCli(["plan", "job.json", "--out", "plan.json"], directory)).code, 0);
  const judged = ["plan", "job.json", "--plan", "plan.json", "--memory", "1MB"];
  const { code, stdout } = await runCli(judged, directory);
  t.is(code, 1);
  t.regex(
    stdout,
    /Too little memory +\S+ MB on the fullest device or host: plan anew, without --plan/,
  );
});

test.serial(
  "a given plan is judged with the memory and the links of its own devices",
  async (t) => {
    const [hot, ...others] = job.model.tables;
    const tables = [{ ...hot, rows: 50_000_000 }, ...others];
    const directory = directoryWith(t, { ...job, model: { ...job.model, tables } });
    const unknown = ["env", "-u", "OSIRIS_CONSTANTS", `XDG_CACHE_HOME=${directory}`];
    const judgedOn = async (devices: readonly string[]) => {
      const made = ["plan", "job.json", "--memory", "32GB", "--schemes", "table-wise", ...devices];
      await runOk(t, [...made, "--constants", "v100", "--out", "plan.json"], directory);
      const assess = ["plan", "job.json", "--dry-run", "--plan", "plan.json"];
      const [own, named] = [assess, [...assess, ...devices]].map(
        (args) => startCli(args, directory, unknown).ended,
      );
      t.is((await own)?.stdout, (await named)?.stdout);
      return await own;
    };
    t.is((await judgedOn(["--devices", "4", "--hosts", "2"]))?.code, 0);
    // A small server is assumed to have 32 GB: 4 GB for each of 8 devices.
    const { code, stdout } = (await judgedOn(["--devices", "8"])) ?? {};
    t.is(code, 1);
    t.regex(stdout ?? "", /Too little memory +9\.\d+ GB/);
  },
);
