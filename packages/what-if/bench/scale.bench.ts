// Question: how long does a prediction of the largest cluster take on one core, part by part, and
// how much memory? Limit: a minute, for which a user may be willing to wait. The job is model-A
// with more tables and parameters; it is planned and simulated as `osiris simulate-cluster` does
// with `--changes 0`, because each further change costs another simulation.

import { spawnSync } from "node:child_process";
import { Option } from "commander";
import { type Bench, positiveOption, together } from "../../../bench/bench.ts";
import type { BenchRow } from "../../../bench/row.ts";
import { planJob, resolveJob } from "../../../internal.ts";
import { costsOfCluster } from "../costs/costs-of-cluster.ts";
import { simulateSteps } from "../engine/simulate-steps.ts";
import { constantsOf } from "../hardware/constants-of.ts";
import { readHardware } from "../hardware/read-hardware.ts";
import { paperModel } from "../papers/models.ts";
import { stepFactsOfPlan } from "../predict/step-facts.ts";

interface ScaleOptions {
  readonly hardware: string;
  readonly hosts: number;
  readonly times: number;
}

const secondsMax = 60;
const parts = ["job", "plan", "facts", "costs", "engine"] as const;

export const scaleBench: Bench<ScaleOptions> = {
  question: "seconds and memory of a prediction for 4,096 devices and 10,000 tables, on one core",
  options: [
    new Option("--hardware <name>", "kind of machine").default("zionex"),
    positiveOption("--hosts <count>", "hosts", 512),
    positiveOption("--times <count>", "thousands of tables", 10),
  ],
  measurements(options) {
    const names = [...parts, "total", "memory"].map((part) => `scale.${part}`);
    return [together(names, secondsMax, () => scaleRows(options))];
  },
};

function scaleRows({ hardware: name, hosts, times }: ScaleOptions): BenchRow[] {
  keepToOneCore();
  const rows: BenchRow[] = [];
  const row = (part: string, figure: number, unit: string, more: Partial<BenchRow> = {}) =>
    rows.push({ name: `scale.${part}`, figure, unit, spread: [figure, figure], ...more });
  let total = 0;
  const timed = <T>(part: (typeof parts)[number], work: () => T): T => {
    const fromMs = performance.now();
    const result = work();
    const seconds = (performance.now() - fromMs) / 1000;
    total += seconds;
    row(part, seconds, "s");
    return result;
  };
  const hardware = readHardware(name);
  const devices = { hosts, perHost: hardware.host.devices };
  const count = hosts * devices.perHost;
  const job = timed("job", () =>
    resolveJob(paperModel("model-a", { devices: count, tables: times })),
  );
  const constants = constantsOf(hardware, devices);
  const found = timed("plan", () => planJob(job, { devices, constants, relax: false }));
  if (!found.isFeasible) {
    const [lack] = found.unmet;
    throw new RangeError(`The job does not fit ${hosts} hosts of ${name}: ${lack?.sentence}`);
  }
  const { plan } = found;
  const facts = timed("facts", () => stepFactsOfPlan({ job, plan, devices }));
  const costs = timed("costs", () => costsOfCluster(job, plan, hardware, devices));
  const steps = timed("engine", () => simulateSteps(facts, costs, hardware, { streams: true }));
  const { devices: simulated, events } = steps.simulated;
  const limit = { limit: secondsMax, ratio: total / secondsMax };
  const limitIs =
    `at most; ${job.model.tables.length} tables, ${count} devices, of which ${simulated} differ; ` +
    `${events} events`;
  row("total", total, "s", { ...limit, limitIs });
  row("memory", process.resourceUsage().maxRSS / 1024, "MiB");
  return rows;
}

/** Keeps all threads of this process on one core, including those that collect garbage. */
function keepToOneCore(): void {
  const { status } = spawnSync("taskset", ["-a", "-c", "-p", "0", `${process.pid}`]);
  if (status !== 0) console.error("scale: not kept to one core, as taskset is missing or refused");
}
