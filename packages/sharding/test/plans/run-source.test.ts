// Runs plan by the learned costs that their job names: the file for the number of devices decides.
// The job records its hash, and a changed file is refused. Without such a file, formulas decide,
// and a note has the reason.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { learnedCosts } from "../../../../actors/threads/data/cost-files.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { hashOfCosts, withCosts } from "../../../../src/job/job-files.ts";
import { defaultConstants } from "../../../../src/planner/cost/constants.ts";
import { unpackPlan } from "../../../../src/planner/packed-plan.ts";
import { writePlan } from "../../../../src/planner/plan-file.ts";
import { planJob } from "../../../../src/training/planning/plan-job.ts";
import { planRun } from "../../../../src/training/planning/run-plan.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { drawnNetworks } from "../../../../test/helpers/cost-networks.ts";
import { writeCostNetworks } from "../../files/cost-networks-file.ts";
import { learnedPlans } from "../../plans/learned-plan.ts";

const module = new URL("../../plans/run-source.js", import.meta.url).href;
const memoryBytes = 1e12;

/** Files of drawn costs for these numbers of devices. */
async function costFiles(t: ExecutionContext, devices: readonly number[], batchSize = 64) {
  const folder = startDirectory(t);
  return Promise.all(
    devices.map(async (count) => {
      const file = join(folder, `costs-${count}.safetensors`);
      await writeCostNetworks(file, { ...drawnNetworks(count, 2), batchSize }, {});
      return { file };
    }),
  );
}

const tables = [
  { name: "wide", rows: 200_000, dim: 128 },
  { name: "tall", rows: 400_000, dim: 32 },
  { name: "narrow", rows: 5000, dim: 16 },
  { name: "small", rows: 3000, dim: 64 },
];

function jobOf(costs: string | readonly { file: string }[] | undefined, more: object = {}) {
  return resolveJob({
    model: { kind: "dlrm", dense: 0, dim: 16, tables, top: [8, 1] },
    data: { kind: "synthetic", samples: 1000, dense: 0, batchSize: 64, idsPerBag: 4 },
    ...{ planner: costs === undefined ? {} : { costs }, ...more },
  } as never);
}

test("the file for the run's devices plans it, the same way each time, and is named by hash", async (t) => {
  const files = await costFiles(t, [2, 3]);
  const job = withCosts(jobOf(files));
  for (const count of [2, 3]) {
    const hosts = [count];
    const plan = async () => {
      const learned = await learnedCosts(job, hosts, module);
      return planRun(job, { hosts, constants: defaultConstants, memoryBytes, learned });
    };
    const found = await plan();
    t.is(found.report.costs, hashOfCosts(files[count - 2]?.file ?? "", undefined));
    t.deepEqual(await plan(), found);
    const expected = planJob(job, {
      devices: { hosts: 1, perHost: count },
      constants: { ...defaultConstants, memoryBytes },
      source: learnedPlans({ costs: drawnNetworks(count, 2) }),
    });
    if (!expected.isFeasible || found.plan === undefined) return t.fail();
    t.is(writePlan(unpackPlan(found.plan, job.model.tables)).sha256, expected.sha256);
    const formulas = planRun(job, { hosts, constants: defaultConstants, memoryBytes });
    t.not(formulas.report.sha256, found.report.sha256, "learned costs give another plan");
    t.is(formulas.report.costs, undefined);
  }
});

test("where no file is for the devices, hosts or batches, formulas decide and say why", async (t) => {
  const [file] = await costFiles(t, [2]);
  const job = withCosts(jobOf(file?.file ?? ""));
  for (const hosts of [[4], [1, 1]]) {
    const learned = await learnedCosts(job, hosts, module);
    const { report } = planRun(job, { hosts, constants: defaultConstants, memoryBytes, learned });
    t.is(report.costs, undefined);
    const devices = hosts.length === 1 ? "4 devices on 1 hosts" : "2 devices on 2 hosts";
    t.regex(report.note ?? "", new RegExp(`no file of .* was learned for ${devices}`));
  }
  const pinned = await learnedCosts(job, [2], module);
  const pins = [
    {
      table: "small",
      firstBlock: 0,
      blocks: 1,
      firstQuantum: 0,
      quanta: 2,
      device: 1,
      isFrozen: false,
    },
  ];
  const setting = { hosts: [2], constants: defaultConstants, memoryBytes, learned: pinned };
  const { report } = planRun(job, { ...setting, pins });
  t.regex(report.note ?? "", /formulas decide instead of learned costs: .*small has pins/);
});

test("a missing, changed or damaged file is refused in one sentence", async (t) => {
  const [file = { file: "" }] = await costFiles(t, [2]);
  const job = withCosts(jobOf([file]));
  const missing = () => withCosts(jobOf(`${file.file}.gone`));
  t.throws(missing, { code: "INPUT_UNUSABLE", message: /Cannot read the costs .*planner\.costs/ });
  await writeCostNetworks(file.file, drawnNetworks(2, 5), {});
  const refused = { code: "INPUT_UNUSABLE", message: /SHA-256 of the submitted job, [0-9a-f]{64}/ };
  await t.throwsAsync(learnedCosts(job, [2], module), refused);
  writeFileSync(file.file, "no costs");
  const damaged = withCosts(jobOf([file]));
  await t.throwsAsync(learnedCosts(damaged, [2], module), { code: "INPUT_UNUSABLE" });
  await t.throwsAsync(learnedCosts(damaged, [2], undefined), { code: "INVALID_OPTION" });
  const both = { planner: { costs: [file], adapt: true } };
  t.throws(() => jobOf(undefined, both), { message: /planner\.adapt` searches by measured/ });
  const written = { sharding: "as-written" };
  t.throws(() => jobOf([file], written), { message: /left out, as `sharding` is "as-written"/ });
});
