// Runs plan by the learned costs of their machine if and only if a verdict about this very file
// says that it wins on this machine; after a failure they plan by the same costs.

import { rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { Registry } from "../../../../actors/run/state/registry.ts";
import { learnedCosts, searchPlansWith } from "../../../../actors/threads/data/cost-files.ts";
import {
  ownCostsPath,
  verdictPathOf,
  withOwnCosts,
} from "../../../../actors/threads/data/own-costs.ts";
import { machineKeyOf } from "../../../../actors/threads/kept-constants.ts";
import { type JobOptions, type JobSpec, resolveJob } from "../../../../src/job/job.ts";
import { hashOfCosts } from "../../../../src/job/job-files.ts";
import { defaultConstants } from "../../../../src/planner/cost/constants.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { planRun } from "../../../../src/training/planning/run-plan.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { only, runJob, smallData, smallModel } from "../../../../test/helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../../../test/helpers/clusters/either-cluster.ts";
import { startVirtualCluster } from "../../../../test/helpers/clusters/virtual-clusters.ts";
import { drawnNetworks } from "../../../../test/helpers/cost-networks.ts";
import { setEnvironment } from "../../../../test/helpers/environment.ts";
import { writeCostNetworks } from "../../files/cost-networks-file.ts";

const module = new URL("../../plans/run-source.js", import.meta.url).href;
const wins = { devices: 2, gain: 0.04, low: 0.01, high: 0.07, isFaster: true };

/** A home of this user, with learned costs for two devices and batches of 64. */
async function homeOf(t: ExecutionContext, change: object = {}, verdict: object = wins) {
  const home = startDirectory(t);
  setEnvironment(t, { XDG_CACHE_HOME: home, OSIRIS_CONSTANTS: undefined });
  const path = ownCostsPath({ devices: 2, batchSize: 64 });
  realDisk.makeDirectory(dirname(path));
  await writeCostNetworks(path, drawnNetworks(2, 2), {});
  const sha256 = hashOfCosts(path, undefined);
  const beside = { machine: machineKeyOf("auto"), sha256, batchSize: 64, sets: 9, differing: 8 };
  writeFileSync(verdictPathOf(path), JSON.stringify({ ...beside, verdict, ...change }));
  return { path, sha256 };
}

const jobOf = (more: Partial<JobOptions> = {}) =>
  resolveJob({
    model: smallModel,
    data: { kind: "synthetic", samples: 1000, dense: 4, batchSize: 64 },
    ...more,
  } as JobOptions);

/** The report on the plan of a job as it is submitted now, on these hosts. */
async function reportOf(job: JobSpec, hosts = [2], isSearched = true) {
  const learned = await learnedCosts(job, hosts, isSearched ? module : undefined);
  return planRun(job, { hosts, constants: defaultConstants, memoryBytes: 1e12, learned }).report;
}

test.serial(
  "learned costs that won on this machine plan the jobs that leave the costs to it",
  async (t) => {
    const { sha256 } = await homeOf(t);
    const job = withOwnCosts(jobOf(), realDisk);
    const { costs, note = "" } = await reportOf(job);
    t.is(costs, sha256);
    t.regex(
      note,
      /^this machine's learned costs decide: .* 4\.0 % faster .* between 1\.0 % and 7\.0 %/,
    );
    // The record keeps the costs that were found. A repeated submission with its key is the same
    // run, even if other costs are found.
    t.deepEqual(resolveJob(JSON.parse(JSON.stringify(job))), job);
    const registry = new Registry("r", () => {});
    const record = registry.add(job, { key: "k" });
    t.is(registry.find(jobOf(), { key: "k" }), record);
    const others: Partial<JobOptions>[] = [
      { planner: { costs: "formulas" } },
      { planner: { adapt: true } },
      { sharding: "as-written" },
      { data: { kind: "synthetic", samples: 1000, dense: 4, batchSize: 32 } },
    ];
    for (const more of others) t.deepEqual(withOwnCosts(jobOf(more), realDisk), jobOf(more));
    t.is((await reportOf(jobOf({ planner: { costs: "formulas" } }))).note, undefined);
    setEnvironment(t, { OSIRIS_CONSTANTS: "v100" });
    t.deepEqual(withOwnCosts(jobOf(), realDisk), jobOf(), "fixed constants exclude learned costs");
  },
);

test.serial(
  "where they lost, or the verdict is not of this file and machine, formulas plan and say why",
  async (t) => {
    const expect = async (job: JobSpec, why: RegExp, hosts = [2], isSearched = true) => {
      const { costs, note = "" } = await reportOf(job, hosts, isSearched);
      t.is(costs, undefined);
      t.regex(note, /^formulas decide instead of learned costs: /);
      t.regex(note, why);
    };
    const submitted = () => withOwnCosts(jobOf(), realDisk);
    const lost = { ...wins, gain: -0.026, low: -0.05, high: -0.002, isFaster: false };
    await homeOf(t, {}, lost);
    await expect(submitted(), /costs gain too little: .* 2\.6 % slower than those of the formulas/);
    await homeOf(t, { machine: { ...machineKeyOf("auto"), processor: "another" } });
    await expect(submitted(), /is of processor another, not /);
    const { path } = await homeOf(t);
    const job = submitted();
    await expect(job, /no learned costs for 3 devices/, [3]);
    await expect(job, /proven for one host only/, [1, 1]);
    await expect(job, /this process has no search by learned costs/, [2], false);
    await writeCostNetworks(path, drawnNetworks(2, 5), {});
    await expect(job, /Expected the costs .* to have the SHA-256/);
    rmSync(verdictPathOf(path));
    await expect(job, /the verdict of this machine's costs is unusable: .* cannot be read/);
    writeFileSync(verdictPathOf(path), "{");
    await expect(job, /verdict.json is damaged/);
    await homeOf(t, { sha256: "0".repeat(64) });
    await expect(submitted(), /Expected the costs .* to have the SHA-256/);
  },
);

const data = { ...smallData, samples: 1600 };

/** A run on two hosts of two devices, of which one is killed; `atStart` runs before that. */
async function killed(place: EitherCluster, planner: JobOptions["planner"], atStart = () => {}) {
  const host = await place.join(2);
  let isKilled = false;
  const job = place.job({ data, sharding: "auto", ...(planner && { planner }) });
  const { result, events } = await runJob(place, job, (event) => {
    if (isKilled || event.type !== "run.progress" || event.step < 12) return;
    isKilled = true;
    atStart();
    host.kill();
  });
  const plans = only(events, "run.started").map(({ plan, devices }) => ({ ...plan, devices }));
  return { digest: result.digest, first: plans[0], last: plans.at(-1), count: plans.length };
}

test.serial(
  "a host of a run that plans by learned costs dies: the next plan is by them, too, and no bit changes",
  async (t) => {
    searchPlansWith(module);
    const { path, sha256 } = await homeOf(t);
    const onTwo = join(dirname(path), "named.safetensors");
    await writeCostNetworks(onTwo, { ...drawnNetworks(4, 3), hosts: 2 }, {});
    await using place = startVirtualCluster(2, { minDevices: 4 });
    const named = await killed(place, { costs: [{ file: onTwo }, { file: path }] });
    t.is(named.first?.costs, hashOfCosts(onTwo, undefined));
    t.like(named.last, { devices: 2, costs: sha256 });
    const own = await killed(place, undefined);
    t.regex(own.first?.note ?? "", /proven for one host only/);
    t.like(own.last, { devices: 2, costs: sha256 });
    t.regex(own.last?.note ?? "", /this machine's learned costs decide/);
    const gone = await killed(place, undefined, () => writeFileSync(path, "other costs"));
    t.like(gone.last, { devices: 2, costs: undefined });
    t.regex(gone.last?.note ?? "", /formulas decide instead .* SHA-256 of the submitted job/);
    await using alone = startVirtualCluster(1);
    const { result: calm } = await runJob(alone, alone.job({ data }));
    for (const { digest, first, count } of [named, own, gone]) {
      t.deepEqual([digest, first?.devices, count], [calm.digest, 4, 2]);
    }
  },
);
