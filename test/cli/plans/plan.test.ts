// `osiris plan` as a command: its output, the plans that it writes and reads, and its refusals.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { JobPlan, MachineConstants } from "../../../internal.ts";
import type { LearnedSearch } from "../../../packages/sharding/index.ts";
import { readPolicy, writeCostNetworks } from "../../../packages/sharding/index.ts";
import { startDirectory } from "../../data/data-files.ts";
import { drawnNetworks } from "../../helpers/cost-networks.ts";
import { leavesOut, testAll, testIf } from "../../helpers/needs.ts";
import { runCli, runOk } from "../../helpers/processes/cli.ts";
import { lastJson, startCli } from "../../helpers/processes/start-cli.ts";
import { directoryWith } from "../jobs.ts";

type Feasible = Extract<JobPlan<LearnedSearch>, { isFeasible: true }>;
type Infeasible = Extract<JobPlan, { isFeasible: false }>;

const tables = [
  { name: "hot", rows: 500_000, dim: 64 },
  { name: "B", rows: 1000, dim: 64 },
  { name: "C", rows: 1000, dim: 64, sharding: "data-parallel" },
];
const job = {
  model: { kind: "dlrm", dense: 4, tables, bottom: [64], top: [16, 1] },
  data: { kind: "synthetic", samples: 1000, dense: 4, batchSize: 64, idsPerBag: 10 },
  sharding: "as-written",
};

test.serial("plan prints load, memory, step time and the number of candidates", async (t) => {
  const directory = directoryWith(t, job);
  const { stdout } = await runOk(t, ["plan", "job.json"], directory);
  t.regex(stdout, /^job\.json: 3 shards on 2 devices of 1 host\n/);
  t.regex(stdout, /device +load +memory +shards\n0 +\S+ us +\S+ MB +2\n1 /);
  t.regex(stdout, /\nFixed by the job {5}8 slices\nExchanged a step /);
  t.regex(stdout, /Exchanged a step +ids \S+ kB, pooled \S+ kB, gradients/);
  const stages =
    "input exchange,prefetch,lookup,output exchange,dense layers,backward exchange,update,all-reduce";
  for (const stage of stages.split(",")) t.regex(stdout, new RegExp(`\n  ${stage} +\\S+`));
  t.regex(stdout, /Considered .*\n +\S+ us +greedy, greedy by cost\n/);
  t.regex(stdout, /Plan +sha256:[0-9a-f]{64}\n$/);
  t.regex(stdout, /\nStatistics: as the job says of its generated data\n/);
  t.notRegex(stdout, /between hosts|!/); // One host, and a run as the job says.
});

test.serial("a plan that is written and read back has the same assessment", async (t) => {
  const directory = directoryWith(t, job);
  const search = ["plan", "job.json", "--devices", "4", "--hosts", "2", "--schemes", "all"];
  const written = await runOk(t, [...search, "--out", "plan.json", "--json"], directory);
  const plan = lastJson<Feasible & { report: string }>(written);
  t.like(plan, { report: "plan", isFeasible: true, plan: { devices: { hosts: 2, perHost: 2 } } });
  t.true(readFileSync(join(directory, "plan.json"), "utf8").includes(plan.sha256));
  t.deepEqual(plan.missing, []);

  const judged = await runOk(t, ["plan", "job.json", "--plan", "plan.json", "--json"], directory);
  const result = await runCli(["plan", "job.json", "--plan", "plan.json"], directory);
  t.regex(result.stdout, /Exchanged a step .*\n {2}between hosts +\S+ kB\n/);
  const { assessment, sha256 } = lastJson<Feasible>(judged);
  t.deepEqual({ assessment, sha256 }, { assessment: plan.assessment, sha256: plan.sha256 });
});

test.serial("a run follows a plan, and trains the same model as without", async (t) => {
  const directory = directoryWith(t, job);
  const search = ["plan", "job.json", "--devices", "3", "--schemes", "column-wise,row-wise"];
  t.is((await runCli([...search, "--out", "plan.json"], directory)).code, 0);
  const train = async (...args: string[]) => {
    const run = await runOk(t, ["train", "job.json", "--json", ...args], directory);
    rmSync(join(directory, "checkpoints"), { recursive: true });
    return lastJson<{ digest: string }>(run).digest;
  };
  t.is(await train("--plan", "plan.json"), await train("--devices", "1"));

  const counted = await runCli(["plan", "job.json", "--pooling-factor", "3"], directory);
  const source =
    /\nStatistics: from the data cache, 1,000 samples, but 3 ids in every bag as given\n/;
  t.regex(counted.stdout, source);
  const { statistics } = lastJson<{ statistics: object }>(
    await runCli(["plan", "job.json", "--json"], directory),
  );
  t.deepEqual(statistics, { from: "cache", samples: 1000 });
});

test.serial("a plan of another job is refused with the reason", async (t) => {
  const directory = directoryWith(t, job);
  const search = ["plan", "job.json", "--devices", "2", "--out", "plan.json"];
  t.is((await runCli(search, directory)).code, 0);
  const refusal = async (...args: string[]) => {
    const { code, stderr } = await runCli(["train", "job.json", ...args], directory);
    t.not(code, 0);
    return stderr;
  };
  t.regex(await refusal("--plan", "none.json"), /Cannot use the plan none\.json: ENOENT/);
  const other = { ...job, devices: 3 };
  writeFileSync(join(directory, "job.json"), JSON.stringify(other));
  t.regex(
    await refusal("--plan", "plan.json"),
    /Expected `plan` to be one of this job, but it is for 2 devices, and `devices` is 3/,
  );
  writeFileSync(join(directory, "job.json"), JSON.stringify({ ...job, devices: 2 }));
  const text = readFileSync(join(directory, "plan.json"), "utf8");
  writeFileSync(join(directory, "changed.json"), text.replace('"device":0', '"device":1'));
  t.regex(await refusal("--plan", "changed.json"), /but its hash is not that of its contents/);
  writeFileSync(join(directory, "partial.json"), text.replaceAll('"table":"B"', '"table":"C"'));
  t.regex(await refusal("--plan", "partial.json"), /but it places 0 of the 2 quanta of B/);
});

test.serial(
  "a plan sizes caches and explains them; a run's miss curves size them again",
  async (t) => {
    const directory = startDirectory(t);
    const below = tables.map(({ name, rows, dim }) => ({ name, rows, dim, tier: "cached" }));
    const tiers = { hbmBytes: 2_000_000, ddrBytes: 8_000_000 };
    const cached = { ...job, model: { ...job.model, tables: below }, tiers };
    writeFileSync(join(directory, "job.json"), JSON.stringify(cached));
    const search = ["plan", "job.json", "--devices", "1", "--out", "plan.json"];
    const sized = await runOk(t, search, directory);
    t.regex(
      sized.stdout,
      /\n {2}hot +cached, as the job keeps it below memory\n {4}HBM \S+ MB and DDR/,
    );
    t.regex(
      sized.stdout,
      /% from HBM, \S+ % from DDR, \S+ % with 1 GiB more HBM; \S+ % from SSD, /,
    );
    const run = await runOk(t, ["train", "job.json", "--plan", "plan.json", "--json"], directory);
    writeFileSync(join(directory, "run.jsonl"), run.stdout);
    const result = lastJson<{ digest: string; tiers: { table: string; now: object }[] }>(run);
    t.deepEqual(
      result.tiers.map(({ table }) => table),
      ["hot", "B", "C"],
    );
    const plain = lastJson<Feasible>(await runCli([...search, "--json"], directory));
    t.is(plain.tables[0]?.tier, "cached");
    t.deepEqual(plain.missing, []);
    const counted = await runCli([...search, "--curves", "run.jsonl", "--json"], directory);
    const anew = lastJson<Feasible>(counted);
    t.notDeepEqual(anew.tables[0]?.rows, plain.tables[0]?.rows);
    const given = await runCli(["plan", "job.json", "--curves", "job.json"], directory);
    t.regex(given.stderr, /Cannot use the curves job\.json: none of its lines is a result with/);

    const small = { ...cached, tiers: { hbmBytes: 1000 } };
    writeFileSync(join(directory, "job.json"), JSON.stringify(small));
    const refused = await runCli(["plan", "job.json", "--devices", "1"], directory);
    t.is(refused.code, 1);
    t.regex(refused.stdout, /Caches of 32 rows .* `tiers\.hbmBytes: \d+` would do/);
    rmSync(join(directory, "checkpoints"), { recursive: true });
  },
);

test.serial("if no plan fits, the message says what lacks memory, and each remedy", async (t) => {
  const directory = directoryWith(t, job);
  const args = ["plan", "job.json", "--memory", "100MB"];
  const { code, stdout } = await runCli(args, directory);
  t.is(code, 1);
  t.regex(stdout, /^No plan was found that fits job\.json\.\n {2}Table hot needs \d+ bytes/);
  t.regex(stdout, /Any one of these would do.*\n {2}Allow column-wise \(then/);
  const json = lastJson<Infeasible>(await runCli([...args, "--json"], directory));
  t.is(json.unmet[0]?.kind, "table");
  t.true((json.unmet[0]?.lacksBytes ?? 0) > 20e6);

  // The remedy in the message helps: it allows one more scheme.
  const allowed = [...args, "--schemes", "table-wise,data-parallel,column-wise"];
  t.is((await runCli(allowed, directory)).code, 0);
});

testIf(testAll).serial(
  "plan reads measured constants, and they change its predictions",
  async (t) => {
    const directory = directoryWith(t, job);
    const measure = ["plan", "--calibrate", "--devices", "2", "--memory", "1GB"];
    const measured = await runOk(t, [...measure, "--out", "machine.json"], directory);
    t.regex(measured.stdout, /^machine\.json: the constants of .*, 2 threads, /);
    const text = readFileSync(join(directory, "machine.json"), "utf8");
    const constants = JSON.parse(text) as MachineConstants;
    t.is(constants.memoryBytes, 1e9);

    const plain = lastJson<Feasible>(await runCli(["plan", "job.json", "--json"], directory));
    const args = ["plan", "job.json", "--constants", "machine.json", "--json"];
    const found = lastJson<Feasible & { source: string }>(await runCli(args, directory));
    t.is(found.source, constants.source);
    t.true(found.assessment.step > plain.assessment.step); // Slower than a V100.
  },
);

test.serial("a mistake in the flags of plan is one sentence, with exit code 2", async (t) => {
  const directory = startDirectory(t);
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
    [["plan", "job.json", "--constants", "torn.json"], /constants torn\.json: .* not valid JSON/],
    [
      ["plan", "job.json", "--constants", "odd.json"],
      /`constants\.memoryBandwidth` to be a number >/,
    ],
    [["plan", "job.json", "--plan", "torn.json"], /the plan torn\.json: it is not valid JSON/],
    [["plan", "job.json", "--out", "no/plan.json"], /^osiris: Cannot write no\/plan\.json: ENOENT/],
  ];
  for (const [args, sentence] of wrong) {
    const { code, stderr } = await runCli(args, directory);
    t.is(code, 2, `${args.join(" ")}: ${stderr}`);
    t.regex(stderr, sentence);
    t.notRegex(stderr, /\n {4}at /);
  }
});

test.serial(
  "plan --explain gives the reason of each placement, and the cost of alternatives",
  async (t) => {
    const directory = directoryWith(t, job);
    const args = ["plan", "job.json", "--schemes", "all", "--explain"];
    const { stdout } = await runOk(t, args, directory);
    t.regex(stdout, /\nReasons for the placement of each table\n {2}hot: \S+ on .*: update \S+/);
    t.regex(stdout, /\n {4}\S+ it would take \S+ \S+/);
    const result = await runCli([...args, "--json"], directory);
    const { reasons = [], assessment, plan } = lastJson<Feasible>(result);
    t.deepEqual(
      reasons.map(({ table }) => table),
      ["hot", "B", "C"],
    );
    for (const { bestMove, devices, table } of reasons) {
      const shards = plan.shards.filter((shard) => shard.table === table);
      t.deepEqual(
        devices,
        [...new Set(shards.flatMap((one) => (one.device === "all" ? [] : [one.device])))].sort(),
      );
      if (bestMove !== undefined) t.true(bestMove.score >= 0.999 * assessment.score);
    }
  },
);

test.serial("plan compares a job with a changed one, and two plans of a job", async (t) => {
  const directory = directoryWith(t, job);
  const compared = await runOk(t, ["plan", "job.json", "--what-if", "dim=128"], directory);
  t.regex(compared.stdout, /^job\.json: as it is beside dim=128\n/);
  t.regex(compared.stdout, /\npredicted step +\S+ \S+ +\S+ \S+ +\+\d/);
  const wide = await runCli(["plan", "job.json", "--what-if", "dim=128", "--json"], directory);
  const { plans } = lastJson<{ plans: Feasible[] }>(wide);
  const [before = 0, after = 0] = plans.map(({ assessment }) => assessment.traffic.forward);
  t.is(after, 2 * before);

  for (const [file, scheme] of [
    ["a.json", "table-wise"],
    ["b.json", "column-wise"],
  ] as const) {
    const made = ["plan", "job.json", "--devices", "2", "--schemes", scheme, "--out", file];
    t.is((await runCli(made, directory)).code, 0);
  }
  const both = await runOk(t, ["plan", "job.json", "--compare", "a.json", "b.json"], directory);
  t.regex(
    both.stdout,
    /\nTables placed differently\n {2}hot: table-wise on \d; column-wise on \d, \d\n/,
  );

  const one = await runCli(["plan", "job.json", "--compare", "a.json"], directory);
  t.regex(one.stderr, /Expected `--compare` to name two plans, got 1/);
  const wrong = await runCli(["plan", "job.json", "--what-if", "dim"], directory);
  t.regex(wrong.stderr, /Expected `--what-if` to be OPTION=VALUE, as dim=64, got `dim`/);
  const none = await runCli(["plan", "job.json", "--what-if", "dims=4"], directory);
  t.regex(none.stderr, /dims/);
});

test.serial(
  "plan searches by learned costs, and refuses costs for other devices or batch sizes",
  async (t) => {
    const directory = startDirectory(t);
    const free = { ...job, sharding: "auto" };
    const tables = job.model.tables.map(({ name, rows, dim }) => ({ name, rows, dim }));
    const jobOf = (model: object) => JSON.stringify({ ...free, model: { ...job.model, ...model } });
    writeFileSync(join(directory, "job.json"), jobOf({ tables }));
    await writeCostNetworks(join(directory, "costs.safetensors"), drawnNetworks(2, 1), {});
    const search = ["plan", "job.json", "--cost-model", "costs.safetensors"];
    const { stdout } = await runOk(t, [...search, "--out", "plan.json"], directory);
    t.regex(
      stdout,
      /\nLearned costs +\S+ \S+ on the slowest device, with \d halvings? of columns(, \d copied)? \(/,
    );
    await runOk(t, ["train", "job.json", "--plan", "plan.json", "--dry-run"], directory);

    const refused = async (args: readonly string[], message: RegExp) => {
      const result = await runCli(args, directory);
      t.is(result.code, 2, result.stdout);
      t.regex(result.stderr, message);
    };
    await refused(
      [...search, "--devices", "4"],
      /`--cost-model` to have costs of the plan's 4 devices, got those of 2; `osiris plan --calibrate/,
    );
    const other = [...search, "--set", "data.batchSize=32"];
    await refused(other, /the job's batches of 32 samples, got those of 64/);
    await refused(["plan", "job.json", "--cost-model", "none"], /Cannot read none/);
  },
);

// In `npm test`, packages/sharding/test/training measures and learns, and the test above plans.
testIf(testAll).serial(
  "plan measures costs, trains cost networks, and then searches by them",
  async (t) => {
    const directory = startDirectory(t);
    const model = {
      ...job.model,
      tables: tables.map(({ name, rows, dim }) => ({ name, rows, dim })),
    };
    writeFileSync(join(directory, "job.json"), JSON.stringify({ ...job, sharding: "auto", model }));
    const measure = ["plan", "--calibrate", "--learn", "--devices", "2", "--batch", "64"];
    // The same measurements train a policy, which places the tables instead of the search.
    const trained = [...measure, "--samples", "20", "--out", "costs.st", "--policy", "policy.st"];
    const learned = await runOk(t, [...trained, "--turns", "1"], directory);
    t.regex(
      learned.stdout,
      /^costs\.st: costs of 2 devices and batches of 64 samples\n {2}compute +off by/,
    );
    const found = await runOk(t, ["plan", "job.json", "--cost-model", "costs.st"], directory);
    t.regex(found.stdout, /\nLearned costs +\S+ \S+ on the slowest device/);

    const search = ["plan", "job.json", "--cost-model", "costs.st"];
    const byPolicy = [...search, "--policy", "policy.st", "--out", "plan.json"];
    const placed = await runOk(t, byPolicy, directory);
    t.regex(placed.stdout, /\nLearned costs .* with 0 halvings of columns .* of 1 placement\n/);
    await runOk(t, ["train", "job.json", "--plan", "plan.json", "--dry-run"], directory);
    await checkAutoShard(t, directory, { trained, search });
  },
);

test.serial("an invalid policy and costs of another machine are refused", async (t) => {
  const directory = startDirectory(t);
  const plain = tables.map(({ name, rows, dim }) => ({ name, rows, dim }));
  const model = { ...job.model, tables: plain };
  writeFileSync(join(directory, "job.json"), JSON.stringify({ ...job, sharding: "auto", model }));
  await writeCostNetworks(join(directory, "costs.st"), drawnNetworks(2, 1), {});
  const search = ["plan", "job.json", "--cost-model", "costs.st"];
  const alone = await runCli(["plan", "job.json", "--policy", "policy.st"], directory);
  t.is(alone.code, 2);
  t.regex(alone.stderr, /`--cost-model` beside `--policy`.*`osiris plan --calibrate --learn --pol/);
  const none = await runCli([...search, "--policy", "costs.st"], directory);
  t.is(none.code, 2);
  t.regex(
    none.stderr,
    /to be a file of a placement policy, but its metadata lack `kind: osiris pl/,
  );

  // Costs of another machine are refused, unless `--constants` or the environment names the machine
  // to plan for.
  await writeCostNetworks(join(directory, "other.st"), drawnNetworks(2, 1), { source: "a server" });
  const foreign = ["plan", "job.json", "--cost-model", "other.st"];
  const refused = await startCli(foreign, directory, ["env", "-u", "OSIRIS_CONSTANTS"]).ended;
  t.is(refused.code, 2);
  t.regex(
    refused.stderr,
    /costs of this machine, .*, got those of a server: measure them here with/,
  );
  t.is((await runCli([...foreign, "--constants", "v100"], directory)).code, 0);
});

/** Checks that the same commands train an AutoShard policy, and place tables by it. */
async function checkAutoShard(
  t: ExecutionContext,
  directory: string,
  { trained, search }: Readonly<Record<"trained" | "search", readonly string[]>>,
): Promise<void> {
  // In `npm test`, packages/sharding/test/policies trains an AutoShard policy.
  if (leavesOut(t, testAll)) return;
  const auto = [...trained.slice(0, -1), "auto.st", "--method", "autoshard", "--turns", "1"];
  await runOk(t, auto, directory);
  t.is(readPolicy(join(directory, "auto.st")).policy.method, "autoshard");
  const byAuto = await runOk(t, [...search, "--policy", "auto.st", "--json"], directory);
  const { plan, learned: placement } = lastJson<Feasible>(byAuto);
  t.is(plan.shards.length, tables.length);
  t.is(placement?.placements, 1);
}
