// The files of learned costs that a job's `planner.costs` names, or that its submission found on
// its machine (own-costs.ts), on the thread that plans its generations. The files were hashed when
// the job was submitted, so that the same job, devices and files give the same plan, also after a
// failure. The search by such costs is not part of the core: a process names the module that has it
// (`searchPlansWith`), and only a thread that needs the module loads it.

import { InputUnusableError, InvalidOptionError } from "../../../src/errors/errors.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { hashOfCosts } from "../../../src/job/job-files.ts";
import type { CostFile } from "../../../src/job/job-schema.ts";
import { type Devices, deviceCount } from "../../../src/planner/shards.ts";
import type { PlanSource } from "../../../src/training/planning/plan-job.ts";
import { evenDevices, type LearnedCosts } from "../../../src/training/planning/run-plan.ts";
import { ownCostsOf, provenCosts, verdictSentence } from "./own-costs.ts";

/** The setting that a file of costs must have been learned for. */
export interface CostSetting {
  readonly devices: Devices;
  /** Samples of a step, over all devices. */
  readonly batchSize: number;
}

export interface CostSearchModule {
  /**
   * The search by the first of the files that was learned for the setting; undefined: none was.
   * @throws an error with a message where a file has no costs
   */
  openCostSearch(
    paths: readonly string[],
    setting: CostSetting,
  ): { readonly path: string; readonly source: PlanSource<unknown> } | undefined;
}

let searchModule: string | undefined;

/** Names the module, by its URL, with which the threads of this process search by learned costs. */
export function searchPlansWith(url: string): void {
  searchModule = url;
}

/** The named module; undefined: none. */
export function planSearchModule(): string | undefined {
  return searchModule;
}

/**
 * The search by the job's files of costs on these devices; undefined where formulas plan the job.
 * @throws InputUnusableError where a file that the job names is missing, has changed, or has no
 * costs
 */
export async function learnedCosts(
  job: JobSpec,
  hosts: readonly number[],
  module: string | undefined,
): Promise<LearnedCosts | undefined> {
  const { costs } = job.planner;
  if (costs === undefined || costs === "formulas" || job.sharding !== "auto") return undefined;
  const devices = evenDevices(hosts);
  const setting = { devices, batchSize: job.data.batchSize };
  const own = ownCostsOf(job);
  if (own !== undefined) {
    const proven = provenCosts(own, hosts, job.arithmetic);
    if (typeof proven === "string") return { source: undefined, why: proven };
    return await searchBy([proven], setting, module).catch((error: unknown) => {
      return { source: undefined, why: error instanceof Error ? error.message : String(error) };
    });
  }
  for (const { file, sha256 } of costs) hashOfCosts(file, sha256);
  return searchBy(costs, setting, module);
}

async function searchBy(
  costs: readonly CostFile[],
  setting: CostSetting,
  module: string | undefined,
): Promise<LearnedCosts> {
  if (module === undefined) {
    const message =
      "Expected `planner.costs` to be left out, as this process has no search by learned costs: " +
      "start it by the command `osiris`, or import `osiris` in its program";
    throw new InvalidOptionError("planner.costs", message);
  }
  const { openCostSearch } = (await import(module)) as CostSearchModule;
  const paths = costs.map(({ file }) => file);
  const found = opened(paths, () => openCostSearch(paths, setting));
  if (found === undefined) {
    const { devices, batchSize } = setting;
    const why =
      `no file of \`planner.costs\` was learned for ${deviceCount(devices)} devices on ` +
      `${devices.hosts} hosts and batches of ${batchSize} samples`;
    return { source: undefined, why };
  }
  const { verdict, sha256 = "" } = costs.find(({ file }) => file === found.path) ?? {};
  const why = verdict && `this machine's learned costs decide: ${verdictSentence(verdict)}`;
  return { source: found.source, sha256, why };
}

/** The module has errors of its own, as its thread may hold another copy of their classes. */
function opened<Result>(paths: readonly string[], open: () => Result): Result {
  try {
    return open();
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(paths.join(", "), message, { cause });
  }
}
