// Searches the plan of a generation on the thread that prepares its data, so that no search blocks
// the event loop of a host. A plan only affects speed and memory: a failed search does not fail the
// run.

import { recordError } from "../../../src/errors/errors.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import type { MachineConstants } from "../../../src/planner/cost/constants.ts";
import type { ShardPin } from "../../../src/planner/pins.ts";
import { type RunPlan, unplanned } from "../../../src/training/planning/plan-report.ts";
import {
  type LearnedCosts,
  type MeasuredRun,
  planRun,
  type RunPlanSetting,
  replanRun,
} from "../../../src/training/planning/run-plan.ts";
import type { PreparedData } from "./prepare-data.ts";

/** The hosts, the links between them, and the pins. */
export interface PlanRequest
  extends Pick<RunPlanSetting, "hosts" | "memoryBytes" | "machines" | "links"> {
  readonly pins?: readonly ShardPin[] | undefined;
  /** The run's measured plans, the present one last; left out: none. */
  readonly measured?: readonly MeasuredRun[] | undefined;
  /** URL of the module that searches by learned costs; left out: this process has none. */
  readonly searchModule?: string | undefined;
}

/**
 * The plan of a generation; if the search fails, no plan and the reason. Parameter servers follow
 * none.
 */
export async function planOrNone(
  job: JobSpec,
  request: PlanRequest,
  { statistics, ikjt }: Pick<PreparedData, "statistics" | "ikjt">,
  constantsOf: (arithmetic: JobSpec["arithmetic"]) => Promise<MachineConstants>,
  learned?: LearnedCosts | undefined,
): Promise<RunPlan> {
  if (job.mode === "async") return unplanned();
  try {
    const constants = await constantsOf(job.arithmetic);
    const { measured, searchModule: _, ...others } = request;
    const setting = { ...others, constants, statistics, ikjt, learned };
    if (measured === undefined) return planRun(job, setting);
    return replanRun(job, setting, measured) ?? unplanned(unsearched("no plan has room"));
  } catch (error) {
    return unplanned(unsearched(recordError(error).message));
  }
}

/** The message of a search that found no plan. */
export function unsearched(why: string): string {
  return `the search for a plan failed (${why}): each table is placed as written`;
}
