// Plans a job: the planner's plan, its assessment, and the parts of the plan that a run does not
// support yet.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import type { ExchangeSpec } from "../../exchange/options.ts";
import { isReduced } from "../../exchange/scales.ts";
import { packedBytes, type WirePrecision } from "../../kernels/contract/precision.ts";
import { type Assessment, assessPlan } from "../../planner/assess.ts";
import type { MachineConstants } from "../../planner/cost/constants.ts";
import type { Setting } from "../../planner/cost/cost.ts";
import { withWholeTables } from "../../planner/kept-schemes.ts";
import { type Paused, untilDone } from "../../planner/paused.ts";
import { mostDevices, plainPlacement } from "../../planner/placement.ts";
import { mayCache, planByPlacement, withServers } from "../../planner/placement-kinds.ts";
import { writePlan } from "../../planner/plan-file.ts";
import { type Relaxation, relaxations } from "../../planner/relax.ts";
import { type Considered, searchPlan } from "../../planner/search.ts";
import {
  type Devices,
  deviceCount,
  type Plan,
  type PlannedDevice,
  quantumColumns,
} from "../../planner/shards.ts";
import { withCurves, withLeastCaches } from "../../planner/size-caches.ts";
import { type PlannedTiers, plannedTiers } from "../../planner/table-tiers.ts";
import { type UnmetNeed, unmetNeeds } from "../../planner/unmet.ts";
import { expected } from "../../ports/check-options.ts";
import { explainPlan, type TableReasons } from "./explain-plan.ts";
import { type PlannableJob, type WorkloadOptions, workloadOf } from "./workload.ts";

/**
 * A search for the plan of a job, in place of the search by formulas. `setting` has the tables,
 * their miss curves and the devices; `statistics` are the counts of the job's data, where it has a
 * cache. `plan` is undefined where no plan that the search tried fits into memory; `search` is its
 * report.
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
  /** As of `Setting`. */
  readonly fleet?: readonly PlannedDevice[] | undefined;
  /** A plan for these devices to assess, instead of searching for a plan. */
  readonly given?: Plan | undefined;
  /** Whether the result explains the placement of each table. @default false */
  readonly explain?: boolean | undefined;
  /**
   * Whether the result names changes of the job that would help, where no plan fits. @default true
   * for alike hosts and `auto` placement
   */
  readonly relax?: boolean | undefined;
  /** Whether further devices of a host would have memory of their own. @default true */
  readonly mayAddDevices?: boolean | undefined;
  /** Searches the plan instead of the formulas, which plan where it is left out or finds none. */
  readonly source?: PlanSource<Search> | undefined;
}

/**
 * A plan and its assessment; or, where no plan fits, the needs that are not met and the changes of
 * the job that would help.
 */
export type JobPlan<Search = unknown> =
  | {
      readonly isFeasible: true;
      readonly plan: Plan;
      /** The plan as the text of a plan file, and the hash of that text. */
      readonly text: string;
      readonly sha256: string;
      readonly assessment: Assessment;
      readonly considered: readonly Considered[];
      /** The tier of each table, and the benefit of its caches; empty: no table may be cached. */
      readonly tables: readonly PlannedTiers[];
      /** Statistics of the search of `source`, for a plan that it found. */
      readonly learned?: Search;
      /** Reasons for the placement of each table; with the option `explain` only. */
      readonly reasons?: readonly TableReasons[];
      /** Reasons why a run cannot follow the plan, a sentence each; empty: a run can. */
      readonly missing: readonly string[];
    }
  | {
      readonly isFeasible: false;
      readonly unmet: readonly UnmetNeed[];
      readonly relaxations: readonly Relaxation[];
    };

/**
 * Plans a job.
 * @throws InvalidOptionError where `source` was made for another setting, or as `checkPlannable`
 */
export function planJob<Search = unknown>(
  job: PlannableJob,
  options: PlanOptions<Search>,
): JobPlan<Search> {
  return untilDone(planningJob(job, options));
}

/**
 * `planJob` as a generator that yields during the search of `source`, so that the caller can handle
 * other events meanwhile.
 */
export function* planningJob<Search = unknown>(
  job: PlannableJob,
  options: PlanOptions<Search>,
): Paused<JobPlan<Search>> {
  checkPlannable(job);
  const { given, explain } = options;
  const constants = withWireBytes(options.constants, job.exchange);
  const { placement = plainPlacement } = job;
  const cache = options.cache === true || mayCache(placement);
  const workload = workloadOf(job, { ...options, cache });
  if (given !== undefined) {
    const setting = withCurves({ workload, devices: given.devices, constants });
    return judged(job, setting, given, [], explain);
  }
  const { devices, schemes } = options;
  const tables =
    schemes === undefined ? withWholeTables(workload.tables, devices) : workload.tables;
  const { fleet } = options;
  const setting = withCurves({ workload: { ...workload, tables }, devices, constants, fleet });
  if (options.source !== undefined) {
    const { plan, search } = yield* options.source(job, setting, options.statistics);
    if (plan !== undefined) {
      const { considered } = searchPlan(setting);
      return { ...judged(job, setting, plan, considered, explain), learned: search };
    }
  }
  const { best, considered, setting: searched } = planByPlacement(setting, placement);
  if (best !== undefined)
    return withNote(judged(job, setting, best.plan, considered, explain), options);
  const least = withLeastCaches(searched);
  // Relaxations are for a user of `osiris plan`, whose hosts are alike.
  const { relax = fleet === undefined && placement.kind === "auto" } = options;
  const relaxed = relax ? relaxations(least, options.mayAddDevices) : [];
  return { isFeasible: false, unmet: unmetNeeds(least), relaxations: relaxed };
}

/** @throws InvalidOptionError for a job of asynchronous training */
export function checkPlannable({ mode }: Pick<PlannableJob, "mode">): void {
  const why = "a plan, which the servers of asynchronous training do not follow";
  if (mode === "async") throw expected("mode", `"exact" or "bounded" for ${why}`, mode);
}

type FeasiblePlan = Omit<Extract<JobPlan, { isFeasible: true }>, "learned">;

/** Adds a note to a plan by formulas where `source` found no plan. */
function withNote(plan: FeasiblePlan, { source }: { readonly source?: unknown }): FeasiblePlan {
  if (source === undefined) return plan;
  const note =
    "No plan that the search by learned costs tried fits into memory: this plan is by formulas";
  return { ...plan, missing: [...plan.missing, note] };
}

function judged(
  job: PlannableJob,
  setting: Setting,
  plan: Plan,
  considered: readonly Considered[],
  explain: boolean | undefined,
): FeasiblePlan {
  const assessment = assessPlan(withServers(setting, job.placement), plan);
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

/** The constants with the bytes of an exchanged element, where vectors have fewer bits. */
export function withWireBytes(
  constants: MachineConstants,
  exchange: ExchangeSpec | undefined,
): MachineConstants {
  if (exchange === undefined || !isReduced(exchange)) return constants;
  const bytesOf = (precision: WirePrecision) => {
    return packedBytes(quantumColumns, quantumColumns, precision) / quantumColumns ** 2;
  };
  const { forward, backward } = exchange;
  return { ...constants, forwardBytes: bytesOf(forward), backwardBytes: bytesOf(backward) };
}

/** The parts of the plan that a run does not support. */
function missingFor(job: PlannableJob, plan: Plan): string[] {
  const missing: string[] = [];
  const devices = deviceCount(plan.devices);
  const { slices = devices } = job;
  const most = mostDevices({ ...job, slices });
  if (devices > most) {
    missing.push(
      `A run of the job has at most ${most} devices, as its batches have ${slices} slices`,
    );
  }
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
