// Plans a job: the planner's plan, its assessment, and the parts of the plan that a run does not
// support yet.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import type { ExchangeSpec } from "../../exchange/options.ts";
import { isReduced } from "../../exchange/scales.ts";
import { packedBytes, type WirePrecision } from "../../kernels/contract/precision.ts";
import { type Assessment, assessPlan } from "../../planner/assess.ts";
import type { MachineConstants } from "../../planner/cost/constants.ts";
import type { Setting } from "../../planner/cost/cost.ts";
import { tileGroupsOf } from "../../planner/enumerate.ts";
import { type Paused, untilDone } from "../../planner/paused.ts";
import { readPlan, writePlan } from "../../planner/plan-file.ts";
import { type Relaxation, relaxations } from "../../planner/relax.ts";
import { type Considered, searchPlan } from "../../planner/search.ts";
import {
  type Devices,
  deviceCount,
  type Plan,
  type PlannedDevice,
  type PlannedTable,
  quantumColumns,
  type Workload,
} from "../../planner/shards.ts";
import { planWithCaches, withCurves, withLeastCaches } from "../../planner/size-caches.ts";
import { type PlannedTiers, plannedTiers } from "../../planner/table-tiers.ts";
import { type UnmetNeed, unmetNeeds } from "../../planner/unmet.ts";
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
  /** A plan to assess, instead of searching for a plan. */
  readonly given?: { readonly text: string; readonly path: string } | undefined;
  /** Whether the result explains the placement of each table. @default false */
  readonly explain?: boolean | undefined;
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
 * @throws InputUnusableError where a given plan does not fit this job
 * @throws InvalidOptionError where `source` was made for another setting
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
  const { given, explain } = options;
  const constants = withWireBytes(options.constants, job.exchange);
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
  const { fleet } = options;
  const setting = withCurves({ workload: cut, devices, constants, fleet });
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
  // Relaxations are for a user of `osiris plan`, whose hosts are alike.
  const relaxed = fleet === undefined ? relaxations(least) : [];
  return { isFeasible: false, unmet: unmetNeeds(least), relaxations: relaxed };
}

type FeasiblePlan = Omit<Extract<JobPlan, { isFeasible: true }>, "learned">;

/** Adds a note to a plan by formulas where `source` found no plan. */
function withNote(plan: FeasiblePlan, { source }: { readonly source?: unknown }): FeasiblePlan {
  if (source === undefined) return plan;
  const note = "By learned costs nothing that was tried has room: this plan is by formulas";
  return { ...plan, missing: [...plan.missing, note] };
}

/** Sets the scheme `table-wise` for tables that their own scheme cannot cut, as a run does. */
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
  if (devices > slices) {
    missing.push(
      `A run of the job has at most ${slices} devices, as its batches have ${slices} slices`,
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
