// The plan of a generation, sought on the thread that prepares its data: no search runs on the
// event loop of a host. The plan decides speed and memory alone: a search that fails ends no run.

import { recordError } from "../../../src/errors/errors.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import type { MachineConstants } from "../../../src/planner/cost/constants.ts";
import type { ShardPin } from "../../../src/planner/pins.ts";
import {
  type MeasuredRun,
  planRun,
  type RunPlan,
  replanRun,
  unplanned,
} from "../../../src/training/planning/run-plan.ts";
import type { PreparedData } from "./prepare-data.ts";

/** What is planned for: the devices of each host, and the bytes that each host may use. */
export interface PlanRequest {
  readonly hosts: readonly number[];
  readonly memoryBytes: number;
  readonly pins?: readonly ShardPin[] | undefined;
  /** What the run has measured of its plans, the present one last; left out: nothing. */
  readonly measured?: readonly MeasuredRun[] | undefined;
}

/** The plan of a generation; if the search fails, none, and why. */
export async function planOrNone(
  job: JobSpec,
  request: PlanRequest,
  { statistics, ikjt }: Pick<PreparedData, "statistics" | "ikjt">,
  constantsOf: (arithmetic: JobSpec["arithmetic"]) => Promise<MachineConstants>,
): Promise<RunPlan> {
  try {
    const constants = await constantsOf(job.arithmetic);
    const { measured, ...others } = request;
    const setting = { ...others, constants, statistics, ikjt };
    if (measured === undefined) return planRun(job, setting);
    return replanRun(job, setting, measured) ?? unplanned(unsearched("no plan has room"));
  } catch (error) {
    return unplanned(unsearched(recordError(error).message));
  }
}

/** The sentence of a search that gave no plan. */
export function unsearched(why: string): string {
  return `the search for a plan failed (${why}): each table is placed as written`;
}
