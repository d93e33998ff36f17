// The number of devices that `osiris train` and `osiris plan` choose, by the constants of the
// machine.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { fastestDevices } from "../../cli/support/machine.ts";
import type { JobOptions, JobPlan, JobSpec, PlanReport } from "../../internal.ts";
import { resolveJob } from "../../internal.ts";
import { noStepCosts } from "../../src/planner/cost/step-costs.ts";
import { startDirectory } from "../data/data-files.ts";
import { setEnvironment } from "../helpers/environment.ts";
import { testAll, testIf } from "../helpers/needs.ts";
import { runCli, runOk } from "../helpers/processes/cli.ts";
import { lastJson } from "../helpers/processes/start-cli.ts";
import { directoryWith, jobOf } from "./jobs.ts";

/** Constants of a machine of two cores; each device adds `more` seconds to a step. */
function machine(more: number): object {
  const costs = [1, 2].map((devices) => ({ ...noStepCosts, devices, step: 1e-3 + more * devices }));
  return { source: "a test", memoryBandwidth: 1e6, cores: 2, steps: costs };
}

testIf(testAll).serial(
  "train chooses the faster number of devices, says why, and trains the same model",
  async (t) => {
    const directory = startDirectory(t);
    const write = (name: string, value: object) =>
      writeFileSync(join(directory, name), JSON.stringify(value));
    write("job.json", { ...jobOf("one", 1000), devices: "auto" });
    write("other.json", jobOf("two", 1000));
    write("dear.json", machine(1));
    write("cheap.json", machine(0));
    const train = async (...args: string[]) => {
      const run = await runOk(t, ["train", ...args], directory);
      return run;
    };
    const one = await train("job.json", "--constants", "dear.json");
    t.regex(
      one.stdout,
      /^1 device: a step is predicted to take \S+ s on 1, \S+ s on 2\n[\s\S]*Training on 1 device /,
    );
    const two = await train(
      "other.json",
      "--devices",
      "auto",
      "--constants",
      "cheap.json",
      "--json",
    );
    t.regex(two.stderr, /^2 devices: a step is predicted to take \S+ ms on 1, \S+ ms on 2\n/);
    const { digest, plan } = lastJson<{ digest: string; plan?: PlanReport }>(two);
    // The run's own plan search uses these constants, too, whatever the environment names.
    t.like(plan, { by: "auto", constants: "a test" });
    t.true(one.stdout.includes(digest));
    // A requested number of devices is not predicted.
    const trained = await train("other.json", "--devices", "2", "--constants", "dear.json");
    t.notRegex(trained.stdout, /predicted/);
  },
);

test.serial("plan --devices auto plans for the number that train would choose", async (t) => {
  const directory = directoryWith(t, jobOf("none"));
  writeFileSync(join(directory, "dear.json"), JSON.stringify(machine(1)));
  const plan = ["plan", "job.json", "--constants", "dear.json"];
  for (const args of [plan, [...plan, "--devices", "auto"]]) {
    const { stdout } = await runOk(t, args, directory);
    t.regex(
      stdout,
      /on 1 device of 1 host\n1 device: a step is predicted to take .* on 1, .* on 2\n/,
    );
    t.regex(stdout, /\n {2}fixed costs +\S+ s\n/);
  }
  type Feasible = Extract<JobPlan, { isFeasible: true }>;
  const json = lastJson<Feasible & { predictions: { devices: number; step: number }[] }>(
    await runCli([...plan, "--json"], directory),
  );
  t.is(json.plan.devices.perHost, 1);
  t.is(json.predictions[0]?.step, json.assessment.step);
  const planned = await runCli([...plan, "--devices", "2"], directory);
  t.regex(planned.stdout, /on 2 devices of 1 host\n\n/);
});

test.serial(
  "on an unmeasured machine a small job gets one device, and a large job measures it first",
  async (t) => {
    const directory = startDirectory(t);
    setEnvironment(t, {
      OSIRIS_CONSTANTS: undefined,
      XDG_CACHE_HOME: directory,
      OSIRIS_CALIBRATION: "short", // Refused by the first measurement.
    });
    const text = `label,item\n${"1,2\n".repeat(100)}`;
    writeFileSync(join(directory, "clicks.csv"), text);
    const jobWith = (data: object, rows = 1000) =>
      resolveJob({
        ...{ model: { kind: "lr", tables: [{ name: "item", rows, dim: 1 }] } },
        data: { batchSize: 64, ...data } as JobOptions["data"],
      });
    const made = (samples: number) => ({ kind: "synthetic", dense: 0, samples });
    const columns = { kind: "csv", label: "label", categorical: ["item"], dense: [] };
    const files = (epochs: number) => ({ ...columns, paths: [join(directory, "*.csv")], epochs });
    const lines: string[] = [];
    const devicesOf = (job: JobSpec) => fastestDevices(job, undefined, (line) => lines.push(line));
    t.is(await devicesOf(jobWith(made(500_000))), 1);
    t.is(await devicesOf(jobWith(files(160_000))), 1);
    t.regex(lines[1] ?? "", /^1 device: the job is small, and this machine has not been measured/);
    const large = [jobWith(made(500_001)), jobWith(files(170_000)), jobWith(made(64), 7e7)];
    for (const job of large) {
      await t.throwsAsync(devicesOf(job), { message: /OSIRIS_CALIBRATION/ });
    }
  },
);

test.serial("an invalid number of devices and unknown constants are refused", async (t) => {
  const directory = directoryWith(t, jobOf("none"));
  const many = { ...jobOf("none"), devices: "many" };
  writeFileSync(join(directory, "many.json"), JSON.stringify(many));
  const wrong: [string[], RegExp][] = [
    [["train", "job.json", "--devices", "all"], /--devices.*Expected an integer >= 1, or `auto`/],
    [["plan", "job.json", "--devices", "0"], /--devices.*Expected an integer >= 1, or `auto`/],
    [
      ["train", "many.json"],
      /Expected `devices` to be an integer from 0 to 1024, or "auto", got `many`/,
    ],
    [["train", "job.json", "--constants", "a100"], /Cannot read a100: ENOENT/],
    [["train", "job.json", "--constants", "job.json"], /Cannot use the constants job\.json: /],
  ];
  for (const [args, sentence] of wrong) {
    const { code, stderr } = await runCli(args, directory);
    t.is(code, 2, `${args.join(" ")}: ${stderr}`);
    t.regex(stderr, sentence);
  }
});
