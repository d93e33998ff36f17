// The plan of a job: what the planner finds for it, what that means, and what of it a run does not
// do yet.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { type Assessment, assessPlan } from "../../planner/assess.ts";
import type { MachineConstants } from "../../planner/cost/constants.ts";
import type { Setting } from "../../planner/cost/cost.ts";
import { tileGroupsOf } from "../../planner/enumerate.ts";
import { type Paused, untilDone } from "../../planner/paused.ts";
import { readPlan, writePlan } from "../../planner/plan-file.ts";
import { type Relaxation, relaxations } from "../../planner/relax.ts";
import { type Considered, searchPlan } from "../../planner/search.ts";
import type { Devices, Plan, PlannedTable, Workload } from "../../planner/shards.ts";
import { planWithCaches, withCurves, withLeastCaches } from "../../planner/size-caches.ts";
import { type PlannedTiers, plannedTiers } from "../../planner/table-tiers.ts";
import { type UnmetNeed, unmetNeeds } from "../../planner/unmet.ts";
import { explainPlan, type TableReasons } from "./explain-plan.ts";
import { type PlannableJob, type WorkloadOptions, workloadOf } from "./workload.ts";

/**
 * A search for the plan of a job, in place of the search by formulas. `setting` has the tables, their
 * miss curves and the devices; `statistics` are the counts of the job's data, where it has a cache.
 * `plan` is undefined where no plan that the search tried fits into memory; `search` is its report.
 * @throws InvalidOptionError where the source was made for other devices or another batch size
 */
export type PlanSource<Search> = (
  job: PlannableJob,
  setting: Setting,
  statistics: readonly FeatureStatistics[] | undefined,
) => Paused<{ readonly plan: Plan | undefined; readonly search: Search }>;

export interface PlanOptions<Search = unknown> extends WorkloadOptions {
  readonly devices: Devices;
  readonly constants: MachineConstants;
  /** A plan that is judged, instead of searching one. */
  readonly given?: { readonly text: string; readonly path: string } | undefined;
  /** Whether the plan says why each table lies where it does. @default false */
  readonly explain?: boolean | undefined;
  /** Searches the plan; left out, or where it finds none that fits, the formulas do. */
  readonly source?: PlanSource<Search> | undefined;
}

/** A plan and what it means; or, where none fits, why, and what would help. */
export type JobPlan<Search = unknown> =
  | {
      readonly isFeasible: true;
      readonly plan: Plan;
      /** The plan as a file has it, and its hash. */
      readonly text: string;
      readonly sha256: string;
      readonly assessment: Assessment;
      readonly considered: readonly Considered[];
      /** Where each table rests, and what its caches bring; empty: no table may be cached. */
      readonly tables: readonly PlannedTiers[];
      /** The report of `source`, where the plan is its. */
      readonly learned?: Search;
      /** Why each table lies where it does, where that was asked for. */
      readonly reasons?: readonly TableReasons[];
      /** What a run would need to follow the plan, a sentence each; empty: a run does it. */
      readonly missing: readonly string[];
    }
  | {
      readonly isFeasible: false;
      readonly unmet: readonly UnmetNeed[];
      readonly relaxations: readonly Relaxation[];
    };

/**
 * Plans a job.
 * @throws InputUnusableError where a given plan is none for this job
 * @throws InvalidOptionError where `source` was made for another job or other devices
 */
export function planJob<Search = unknown>(
  job: PlannableJob,
  options: PlanOptions<Search>,
): JobPlan<Search> {
  return untilDone(planningJob(job, options));
}

/** The same with the pauses of `source`, for a caller that handles events meanwhile. */
export function* planningJob<Search = unknown>(
  job: PlannableJob,
  options: PlanOptions<Search>,
): Paused<JobPlan<Search>> {
  const { constants, given, explain } = options;
  const workload = workloadOf(job, options);
  if (given !== undefined) {
    const plan = readPlan(given.text, given.path, workload.tables);
    return judged(
      job,
      withCurves({ workload, devices: plan.devices, constants }),
      plan,
      [],
      explain,
    );
  }
  const { devices, schemes } = options;
  const cut = schemes === undefined ? withWholeTables(workload, devices) : workload;
  const setting = withCurves({ workload: cut, devices, constants });
  if (options.source !== undefined) {
    const { plan, search } = yield* options.source(job, setting, options.statistics);
    if (plan !== undefined) {
      const { considered } = searchPlan(setting);
      return { ...judged(job, setting, plan, considered, explain), learned: search };
    }
  }
  const { best, considered } = planWithCaches(setting);
  if (best !== undefined)
    return withNote(judged(job, setting, best.plan, considered, explain), options);
  const least = withLeastCaches(setting);
  return { isFeasible: false, unmet: unmetNeeds(least), relaxations: relaxations(least) };
}

type FeasiblePlan = Omit<Extract<JobPlan, { isFeasible: true }>, "learned">;

/** The plan, with a note where `source` found none. */
function withNote(plan: FeasiblePlan, { source }: { readonly source?: unknown }): FeasiblePlan {
  if (source === undefined) return plan;
  const note = "By learned costs nothing that was tried has room: this plan is by formulas";
  return { ...plan, missing: [...plan.missing, note] };
}

/** Tables that their own scheme cannot cut lie whole on a device, as a run places them. */
function withWholeTables(workload: Workload, devices: Devices): Workload {
  const tables = workload.tables.map((table): PlannedTable => {
    const isCut = table.schemes.some((scheme) => tileGroupsOf(devices, table, scheme).length > 0);
    return isCut ? table : { ...table, schemes: ["table-wise"] };
  });
  return { ...workload, tables };
}

function judged(
  job: PlannableJob,
  setting: Setting,
  plan: Plan,
  considered: readonly Considered[],
  explain: boolean | undefined,
): FeasiblePlan {
  const assessment = assessPlan(setting, plan);
  return {
    isFeasible: true,
    plan,
    ...writePlan(plan),
    assessment,
    ...(explain === true && { reasons: explainPlan(setting, plan, assessment) }),
    considered,
    tables: plannedTiers(setting, plan),
    missing: missingFor(job, plan),
  };
}

/** What a run does not do yet. */
function missingFor(job: PlannableJob, plan: Plan): string[] {
  const missing: string[] = [];
  const whole = new Set(
    job.model.tables.filter(({ l2Scope }) => l2Scope === "table").map(({ name }) => name),
  );
  for (const { table, device } of plan.shards) {
    if (device !== "all" && whole.has(table)) {
      missing.push(`The l2Scope of ${table} is "table": such a table is copied to every device`);
    }
  }
  return missing;
}
