// The plan of a generation: how a run places its tables, and a report of the reasons. The devices
// of a host share its memory: a plan fits if the bytes of each host's devices, added up, do not
// exceed the host's memory. The fastest plan is tried first; if it does not fit, a plan in which
// each device keeps to an even share of its host; then a plan with tables below memory.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import type { TiersSpec } from "../../embedding/tables/tier-options.ts";
import { type Assessment, assessPlan } from "../../planner/assess.ts";
import { areKnown } from "../../planner/cost/constants.ts";
import type { Setting } from "../../planner/cost/cost.ts";
import { costFactors } from "../../planner/cost/measured-costs.ts";
import {
  bytesOfHosts,
  devicesIn,
  type MeasuredLinks,
  type PlannedHosts,
  unequalHosts,
  withLinks,
} from "../../planner/fleet.ts";
import { schemeNote } from "../../planner/kept-schemes.ts";
import { type PackedPlan, packPlan, unpackPlan } from "../../planner/packed-plan.ts";
import { pinPlan, type ShardPin } from "../../planner/pins.ts";
import { type PlacementSpec, serversOf } from "../../planner/placement.ts";
import { withServers } from "../../planner/placement-kinds.ts";
import { writePlan } from "../../planner/plan-file.ts";
import {
  type Devices,
  deviceCount,
  type Plan,
  type PlanFile,
  planOfFile,
  type schemes,
} from "../../planner/shards.ts";
import { withCurves } from "../../planner/size-caches.ts";
import { bytesForRows } from "../topology/private-memory.ts";
import { type PlanSource, planJob, withWireBytes } from "./plan-job.ts";
import { type PlanReport, type RunPlan, unplanned, withNote } from "./plan-report.ts";
import {
  type MeasuredGroup,
  type PlannableJob,
  type WorkloadOptions,
  workloadOf,
} from "./workload.ts";

/** The part of a job that decides the plan of its run. */
export interface RunPlanJob extends PlannableJob {
  readonly sharding: "auto" | "as-written";
  readonly plan?: PlanFile | undefined;
  readonly tiers: PlannableJob["tiers"] & { readonly ssd?: TiersSpec["ssd"] };
  readonly checkpoint: { readonly partial?: object | undefined };
}

/**
 * The search by a job's learned costs, and why they decide where the job does not name them; or,
 * where no file fits these devices, why formulas decide.
 */
export type LearnedCosts =
  | {
      readonly source: PlanSource<unknown>;
      readonly sha256: string;
      readonly why?: string | undefined;
    }
  | { readonly source: undefined; readonly why: string };

/** The devices and measurements that a plan is made for. */
export interface RunPlanSetting extends PlannedHosts {
  /** The links between the hosts, as measured; or why they were not. */
  readonly links?: MeasuredLinks | string | undefined;
  readonly statistics?: readonly FeatureStatistics[] | undefined;
  /** As of `WorkloadOptions`. */
  readonly ikjt?: readonly MeasuredGroup[] | undefined;
  /** Parts of tables that must lie on given devices; pins take precedence over speed. */
  readonly pins?: readonly ShardPin[] | undefined;
  /** As of `WorkloadOptions`. */
  readonly costFactors?: ReadonlyMap<string, number> | undefined;
  /** The search by learned costs; left out: formulas decide. */
  readonly learned?: LearnedCosts | undefined;
}

/** A placement, and the hosts that it was made for. */
export interface PlacedRun extends Pick<PlannedHosts, "hosts" | "machines"> {
  readonly placement: RunPlan;
}

/**
 * A plan that the run has used on these devices, with its measured times. In lists, the present
 * plan is last.
 */
export interface MeasuredRun {
  readonly plan: PackedPlan;
  /** (W): seconds of work of each device in a step. */
  readonly seconds: readonly number[];
}

/** Maximum number of tables whose schemes a report names. */
const namedMax = 32;

/** Plans a generation. The same arguments give the same plan. */
export function planRun(job: RunPlanJob, setting: RunPlanSetting): RunPlan {
  return withSchemeNote(placed(job, forRows(job, linked(setting))), job, setting);
}

/** The setting with the memory that hosts have for rows. */
function forRows({ model, optimizer }: RunPlanJob, setting: RunPlanSetting): RunPlanSetting {
  const bytes = (all: number) => bytesForRows(model.tables, optimizer.sparse, all);
  const { memoryBytes, machines } = setting;
  const own = machines?.map((one) => one && { ...one, memoryBytes: bytes(one.memoryBytes) });
  return { ...setting, memoryBytes: bytes(memoryBytes), machines: own };
}

/** The setting with the constants of the links between its hosts. */
function linked(setting: RunPlanSetting): RunPlanSetting {
  const { constants, hosts, links } = setting;
  const measured = typeof links === "string" ? undefined : links;
  return { ...setting, constants: withLinks(constants, hosts, measured) };
}

/**
 * Adds notes: on links that could not be measured, and on tables that are not placed as their
 * `sharding` says, unless by the job's plan.
 */
function withSchemeNote(
  found: RunPlan,
  { model }: RunPlanJob,
  { hosts, links }: Pick<RunPlanSetting, "hosts" | "links">,
): RunPlan {
  const written = found.report.by === "plan" ? undefined : schemeNote(model.tables, hosts);
  const ofLinks = typeof links === "string" ? links : undefined;
  const notes = [ofLinks, written].filter((one) => one !== undefined);
  return notes.length === 0 ? found : withNote(found, notes.join("; "));
}

function placed(job: RunPlanJob, setting: RunPlanSetting): RunPlan {
  const { hosts } = setting;
  const devices = evenDevices(hosts);
  const given = job.plan === undefined ? undefined : planOfFile(job.plan);
  if (given !== undefined && deviceCount(given.devices) === deviceCount(devices)) {
    const of = assessedBy(job, setting, given.devices);
    const pinned = pinPlan(given, setting.pins ?? []);
    return { report: reportOf("plan", setting, pinned, assessPlan(of, pinned)) };
  }
  if (job.placement !== undefined && job.placement.kind !== "auto") {
    return planPlaced(job, job.placement, { ...setting, learned: undefined }, devices);
  }
  if (job.sharding === "as-written") return unplanned();
  if (deviceCount(devices) === 1) {
    return planAlone(job, { ...setting, pins: [], learned: undefined });
  }
  const pins = setting.pins?.filter(({ device }) => device < deviceCount(devices));
  const found = planByCosts(job, { ...setting, pins }, devices);
  return found ?? unplanned(lackOf(setting));
}

/**
 * Plans again with the costs that a run has measured. The result has the seconds of a step by the
 * new and by the present plan, both as the measured costs predict them. Undefined: no plan fits.
 */
export function replanRun(
  job: RunPlanJob,
  setting: RunPlanSetting,
  measured: readonly MeasuredRun[],
): RunPlan | undefined {
  const own = forRows(job, linked(setting));
  const devices = evenDevices(setting.hosts);
  const { tables } = job.model;
  const of = (costFactors?: RunPlanSetting["costFactors"]) =>
    assessedBy(job, { ...own, costFactors }, devices);
  const plans = measured.map(({ plan, seconds }) => ({ plan: unpackPlan(plan, tables), seconds }));
  const costs = costFactors(of(), plans);
  const found = planAmong(job, { ...own, costFactors: costs }, devices);
  const present = plans.at(-1)?.plan;
  if (found?.plan === undefined || present === undefined) return undefined;
  const stepBy = (plan: Plan) => assessPlan(of(costs), plan).step;
  const refined = { now: stepBy(present), planned: stepBy(unpackPlan(found.plan, tables)) };
  return { ...withSchemeNote(found, job, setting), refined };
}

/** The setting by which plans are assessed that no search has found: as `planJob` assesses them. */
function assessedBy(job: RunPlanJob, given: RunPlanSetting, devices: Devices): Setting {
  const { statistics, ikjt, costFactors } = given;
  const workload = workloadOf(job, { statistics, ikjt, costFactors });
  const on = devicesIn(given, "together");
  const constants = withWireBytes(on.constants, job.exchange);
  return withServers(withCurves({ ...on, workload, devices, constants }), job.placement);
}

/** The devices of these hosts, for the planner: unequal hosts count as one. */
export function evenDevices(hosts: readonly number[]): Devices {
  const [first = 1] = hosts;
  if (hosts.every((count) => count === first)) return { hosts: hosts.length, perHost: first };
  return { hosts: 1, perHost: hosts.reduce((sum, count) => sum + count, 0) };
}

/**
 * One device holds all tables: the plan only decides which of them rest below memory if it is
 * short.
 */
function planAlone(job: RunPlanJob, setting: RunPlanSetting): RunPlan {
  const devices = { hosts: 1, perHost: 1 };
  const alone = { ...job, sharding: "as-written" } as const;
  const isInMemory = attempt(alone, setting, devices, "together") !== undefined;
  if (isInMemory) return unplanned();
  return planBelow(alone, setting, devices) ?? unplanned(lackOf(setting));
}

/** A plan of a kind of placement, even without the pins. */
function planPlaced(
  job: RunPlanJob,
  { kind, servers }: PlacementSpec,
  setting: RunPlanSetting,
  devices: Devices,
): RunPlan {
  const found = withPinsOrNot(setting, (own) => inMemory(job, own, devices));
  if (found === undefined) {
    const lack =
      kind === "device"
        ? "the tables do not fit into `tiers.hbmBytes` of each device: they are placed as written"
        : lackOf(setting);
    return unplanned(`\`placement.kind: ${kind}\`: ${lack}`);
  }
  const own = serversOf({ kind, servers }, deviceCount(devices));
  const report = { ...found.report, placement: { kind, servers: own } };
  return { ...found, report };
}

/**
 * A plan by learned costs, where they fit the job; else one by formulas, with the reason as its
 * note.
 */
function planByCosts(
  job: RunPlanJob,
  setting: RunPlanSetting,
  devices: Devices,
): RunPlan | undefined {
  const { learned } = setting;
  if (learned === undefined) return planAmong(job, setting, devices);
  const byFormulas = (why: string) => {
    const found = planAmong(job, { ...setting, learned: undefined }, devices);
    return found && withNote(found, `formulas decide instead of learned costs: ${why}`);
  };
  if (learned.source === undefined) return byFormulas(learned.why);
  const { fleet } = devicesIn(setting, "together");
  if (fleet !== undefined) return byFormulas("they were learned on hosts that are alike");
  try {
    const found = planAmong(job, setting, devices);
    const { why } = learned;
    if (found?.report.costs !== undefined) {
      return why === undefined ? found : withNote(found, why);
    }
  } catch (error) {
    return byFormulas(error instanceof Error ? error.message : String(error));
  }
  return byFormulas("no plan that the search tried has room");
}

/** Prefers a plan in memory, even one without the pins, to a plan with tables below memory. */
function planAmong(
  job: RunPlanJob,
  setting: RunPlanSetting,
  devices: Devices,
): RunPlan | undefined {
  const search = (own: RunPlanSetting) => inMemory(job, own, devices);
  return (
    withPinsOrNot(setting, search) ?? withPinsOrNot(setting, (own) => planBelow(job, own, devices))
  );
}

/** The best plan whose devices fit into their hosts. */
function inMemory(job: RunPlanJob, setting: RunPlanSetting, devices: Devices) {
  return attempt(job, setting, devices, "together") ?? attempt(job, setting, devices, "each");
}

/** A plan with the pins; or one without them, with the reason in `unpinned`. */
function withPinsOrNot(
  setting: RunPlanSetting,
  plan: (own: RunPlanSetting) => RunPlan | undefined,
): RunPlan | undefined {
  const pinned = plan(setting);
  if (pinned !== undefined || (setting.pins ?? []).length === 0) return pinned;
  const found = plan({ ...setting, pins: [] });
  const unpinned = "no plan was found that holds all pinned shards and fits into memory";
  return found && { ...found, unpinned };
}

/**
 * A plan that may put tables below memory beside those that the job puts there. The caches of both
 * tiers, device memory and host memory, take memory of the host, too.
 */
function planBelow(
  job: RunPlanJob,
  setting: RunPlanSetting,
  devices: Devices,
): RunPlan | undefined {
  if (job.checkpoint.partial !== undefined) return undefined; // `partial` needs rows in memory.
  const most = setting.hosts.reduce((all, count) => Math.max(all, count), 1);
  const share = Math.floor(Math.min(...bytesOfHosts(setting)) / most);
  const ddrBytes = Math.min(job.tiers.ddrBytes, Math.floor(share / 4));
  const tiers = { ...job.tiers, ddrBytes };
  const found = attempt({ ...job, tiers }, setting, devices, "each", { ddrBytes, cache: true });
  if (found === undefined) return undefined;
  const note = "the tables do not fit into memory: some have rows below it";
  return { ...found, report: { ...found.report, note } };
}

/** The best plan with this memory, if the devices of each host fit into that of the host. */
function attempt(
  job: RunPlanJob,
  setting: RunPlanSetting,
  devices: Devices,
  memory: "together" | "each",
  { ddrBytes, ...more }: WorkloadOptions & { readonly ddrBytes?: number } = {},
): RunPlan | undefined {
  const { statistics, ikjt, pins, costFactors: factors, learned } = setting;
  const found = planJob(job, {
    devices,
    ...devicesIn(setting, memory, ddrBytes),
    statistics,
    ikjt,
    pins,
    costFactors: factors,
    ...(learned?.source && { source: learned.source }),
    ...more,
  });
  if (!found.isFeasible || !fitsHosts(job, setting, found.assessment)) return undefined;
  const report = reportOf("auto", setting, found.plan, found.assessment);
  const costs = found.learned !== undefined && learned?.source ? learned.sha256 : undefined;
  return {
    plan: packPlan(found.plan, job.model.tables),
    report: costs === undefined ? report : { ...report, costs },
  };
}

/**
 * Whether the devices of each host fit into its memory together; without a disk also the rows
 * behind their caches.
 */
function fitsHosts(
  { tiers }: RunPlanJob,
  setting: RunPlanSetting,
  { devices }: Assessment,
): boolean {
  let first = 0;
  const most = bytesOfHosts(setting);
  return setting.hosts.every((count, host) => {
    const own = devices.slice(first, first + count);
    first += count;
    const below = (device: (typeof own)[number]) => (tiers.ssd === "none" ? device.below : 0);
    return own.reduce((sum, one) => sum + one.bytes + below(one), 0) <= (most[host] ?? 0);
  });
}

function lackOf(setting: RunPlanSetting): string {
  const sizes = new Set(bytesOfHosts(setting).map((bytes) => (bytes / 1e9).toFixed(3)));
  return (
    `no plan was found that fits into ${[...sizes].join(", ")} GB of rows a host: ` +
    "each table is placed as written"
  );
}

function reportOf(
  by: PlanReport["by"],
  setting: RunPlanSetting,
  plan: Plan,
  { step, devices }: Assessment,
): PlanReport {
  const { constants, statistics, links } = setting;
  const byTable = new Map(plan.shards.map(({ table, scheme }) => [table, scheme]));
  const counts: Partial<Record<(typeof schemes)[number], number>> = {};
  for (const scheme of byTable.values()) counts[scheme] = (counts[scheme] ?? 0) + 1;
  const costs = devices.map(({ cost }) => cost);
  const sum = costs.reduce((all, cost) => all + cost, 0);
  const most = costs.reduce((all, cost) => Math.max(all, cost), 0);
  const isCached = ({ tier }: Plan["shards"][number]) => tier === "cached";
  return {
    by,
    sha256: writePlan(plan).sha256,
    schemes: counts,
    ...(byTable.size <= namedMax ? { tables: Object.fromEntries(byTable) } : {}),
    cached: new Set(plan.shards.filter(isCached).map(({ table }) => table)).size,
    ...(areKnown(constants) ? { stepSeconds: step } : {}),
    imbalance: sum === 0 ? 1 : (most * costs.length) / sum,
    memoryBytes: devices.map((device) => device.bytes),
    constants: constants.source,
    ...(typeof links === "object" ? { links } : {}),
    ...unequalHosts(setting),
    statistics: statistics !== undefined,
  };
}
