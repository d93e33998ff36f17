// The plan of a generation: how a run places its tables, and why so. The devices of a host share
// its memory: a plan fits if the bytes of each host's devices, added up, are no more than the host
// has. First the fastest plan is sought; if it needs too much of a host, a plan in which each
// device keeps to an even share; then one with tables below memory.

import { z } from "zod";
import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { type Assessment, assessPlan } from "../../planner/assess.ts";
import { areKnown, type MachineConstants } from "../../planner/cost/constants.ts";
import { costFactors } from "../../planner/cost/measured-costs.ts";
import { type PackedPlan, packPlan, unpackPlan } from "../../planner/packed-plan.ts";
import { pinPlan, type ShardPin } from "../../planner/pins.ts";
import { packedPlanSchema, writePlan } from "../../planner/plan-file.ts";
import {
  type Devices,
  deviceCount,
  type Plan,
  type PlanFile,
  planOfFile,
  schemes,
} from "../../planner/shards.ts";
import { withCurves } from "../../planner/size-caches.ts";
import { planJob } from "./plan-job.ts";
import {
  type MeasuredGroup,
  type PlannableJob,
  type WorkloadOptions,
  workloadOf,
} from "./workload.ts";

const bytes = z.number().min(0);

/** What is told of a generation's plan: small, however many tables there are. */
export const planReportSchema = z.object({
  /**
   * Who placed the tables: a search (`auto`), the job's `plan`, or each table's own `sharding`
   * alone.
   */
  by: z.enum(["auto", "plan", "as-written"]),
  /** Why it is not as the job asks, or what it takes to fit; for people. */
  note: z.string().optional(),
  /** Hash of the plan, as its file has it. */
  sha256: z.string().optional(),
  /** Tables of each scheme; and the scheme of each table, where there are few. */
  schemes: z.partialRecord(z.enum(schemes), z.int()).optional(),
  tables: z.record(z.string(), z.enum(schemes)).optional(),
  /** Tables with rows below memory. */
  cached: z.int().optional(),
  /** Predicted seconds of a step; left out where the machine was not measured. */
  stepSeconds: z.number().optional(),
  /** Predicted load of the busiest device, over the mean of all. */
  imbalance: z.number().optional(),
  /** Predicted memory of each device. */
  memoryBytes: z.array(bytes).readonly().optional(),
  /** The machine whose constants predicted it. */
  constants: z.string().optional(),
  /** Whether the data's statistics were known; else bags and popularity are assumed. */
  statistics: z.boolean().optional(),
});

/** What is told of a generation's plan. */
export type PlanReport = z.output<typeof planReportSchema>;

/** Schema of `RunPlan`. */
export const runPlanSchema = z.object({
  /** The plan that was found; left out: the job's, or each table by its own `sharding`. */
  plan: packedPlanSchema.optional(),
  report: planReportSchema,
  /** Why the pins are not in it, though they might have been. */
  unpinned: z.string().optional(),
  /** Where measured costs refined the prediction: seconds of a step as it is, and by this plan. */
  refined: z.object({ now: z.number(), planned: z.number() }).optional(),
});

/** How a generation places its tables. */
export interface RunPlan {
  readonly plan?: PackedPlan | undefined;
  readonly report: PlanReport;
  readonly unpinned?: string | undefined;
  readonly refined?: { readonly now: number; readonly planned: number } | undefined;
}

/** What of a job decides the plan of its run. */
export interface RunPlanJob extends PlannableJob {
  readonly sharding: "auto" | "as-written";
  readonly plan?: PlanFile | undefined;
  readonly checkpoint: { readonly partial?: object | undefined };
}

/** What a plan is made for. */
export interface RunPlanSetting {
  /** The devices of each host, in the order of their ranks. */
  readonly hosts: readonly number[];
  readonly constants: MachineConstants;
  /** What the process of a host may use. */
  readonly memoryBytes: number;
  readonly statistics?: readonly FeatureStatistics[] | undefined;
  /** As of `WorkloadOptions`. */
  readonly ikjt?: readonly MeasuredGroup[] | undefined;
  /** Parts of tables that are to lie on given devices; they come before what is fastest. */
  readonly pins?: readonly ShardPin[] | undefined;
  /** As of `WorkloadOptions`. */
  readonly costFactors?: ReadonlyMap<string, number> | undefined;
}

/** What a run has measured of its plans on these devices, the present plan last. */
export interface MeasuredRun {
  readonly plan: PackedPlan;
  /** (W): seconds that each device worked for a step. */
  readonly seconds: readonly number[];
}

/** Most tables of which a report names the schemes. */
const namedMax = 32;

/** Each table by its own `sharding`, because of this. */
export function unplanned(note?: string): RunPlan {
  return { report: { by: "as-written", ...(note === undefined ? {} : { note }) } };
}

/** The plan of a generation. The same arguments give the same plan. */
export function planRun(job: RunPlanJob, setting: RunPlanSetting): RunPlan {
  const { hosts, constants, memoryBytes, statistics, ikjt } = setting;
  const devices = evenDevices(hosts);
  const given = job.plan === undefined ? undefined : planOfFile(job.plan);
  const machine = { ...constants, memoryBytes };
  if (given !== undefined && deviceCount(given.devices) === deviceCount(devices)) {
    const workload = workloadOf(job, { statistics, ikjt });
    const of = withCurves({ workload, devices: given.devices, constants: machine });
    const pinned = pinPlan(given, setting.pins ?? []);
    return { report: reportOf("plan", setting, pinned, assessPlan(of, pinned)) };
  }
  if (job.sharding === "as-written") return unplanned();
  if (deviceCount(devices) === 1) return planAlone(job, { ...setting, pins: [] });
  const pins = setting.pins?.filter(({ device }) => device < deviceCount(devices));
  return planAmong(job, { ...setting, pins }, devices) ?? unplanned(lackOf(setting));
}

/**
 * The best plan by what a run has measured, with the seconds of a step by it and by the present
 * plan, both as the measured costs predict them. Undefined: no plan has room.
 */
export function replanRun(
  job: RunPlanJob,
  setting: RunPlanSetting,
  measured: readonly MeasuredRun[],
): RunPlan | undefined {
  const { hosts, memoryBytes, statistics, ikjt } = setting;
  const { tables } = job.model;
  const constants = { ...setting.constants, memoryBytes };
  const of = (costFactors?: ReadonlyMap<string, number>) => {
    const workload = workloadOf(job, { statistics, ikjt, costFactors });
    return withCurves({ workload, devices: evenDevices(hosts), constants });
  };
  const plans = measured.map(({ plan, seconds }) => ({ plan: unpackPlan(plan, tables), seconds }));
  const costs = costFactors(of(), plans);
  const found = planAmong(job, { ...setting, costFactors: costs }, evenDevices(hosts));
  const present = plans.at(-1)?.plan;
  if (found?.plan === undefined || present === undefined) return undefined;
  const stepBy = (plan: Plan) => assessPlan(of(costs), plan).step;
  const refined = { now: stepBy(present), planned: stepBy(unpackPlan(found.plan, tables)) };
  return { ...found, refined };
}

/** The devices of these hosts, for the planner: unequal hosts count as one. */
function evenDevices(hosts: readonly number[]): Devices {
  const [first = 1] = hosts;
  if (hosts.every((count) => count === first)) return { hosts: hosts.length, perHost: first };
  return { hosts: 1, perHost: hosts.reduce((sum, count) => sum + count, 0) };
}

/** One device has all tables: there is nothing to plan, but where they lie if memory is short. */
function planAlone(job: RunPlanJob, setting: RunPlanSetting): RunPlan {
  const devices = { hosts: 1, perHost: 1 };
  const alone = { ...job, sharding: "as-written" } as const;
  const isInMemory = attempt(alone, setting, devices, setting.memoryBytes) !== undefined;
  if (isInMemory) return unplanned();
  return planBelow(alone, setting, devices) ?? unplanned(lackOf(setting));
}

/** In memory if possible, even if no plan holds the pins then; else with tables below it. */
function planAmong(
  job: RunPlanJob,
  setting: RunPlanSetting,
  devices: Devices,
): RunPlan | undefined {
  const inMemory = (own: RunPlanSetting) =>
    attempt(job, own, devices, own.memoryBytes) ?? attempt(job, own, devices, evenShare(own));
  const withoutPins = (plan: (own: RunPlanSetting) => RunPlan | undefined) => {
    if (setting.pins === undefined || setting.pins.length === 0) return undefined;
    const found = plan({ ...setting, pins: [] });
    const unpinned = "no plan was found that holds all pinned shards and fits into memory";
    return found && { ...found, unpinned };
  };
  const below = (own: RunPlanSetting) => planBelow(job, own, devices);
  return inMemory(setting) ?? withoutPins(inMemory) ?? below(setting) ?? withoutPins(below);
}

/** Bytes of each device where all devices of a host have as much. */
function evenShare({ hosts, memoryBytes }: RunPlanSetting): number {
  return Math.floor(memoryBytes / hosts.reduce((most, count) => Math.max(most, count), 1));
}

/**
 * A plan with tables below memory, beside those of which the job says so. Their caches, of device
 * memory and of host memory, lie in the memory of the host, too.
 */
function planBelow(
  job: RunPlanJob,
  setting: RunPlanSetting,
  devices: Devices,
): RunPlan | undefined {
  if (job.checkpoint.partial !== undefined) return undefined; // Its rows are all in memory.
  const share = evenShare(setting);
  const ddrBytes = Math.min(job.tiers.ddrBytes, Math.floor(share / 4));
  const tiers = { ...job.tiers, ddrBytes };
  const found = attempt({ ...job, tiers }, setting, devices, share - ddrBytes, { cache: true });
  if (found === undefined) return undefined;
  const note = "the tables do not fit into memory: some have rows below it";
  return { ...found, report: { ...found.report, note } };
}

/** The best plan with so many bytes a device, if each host has room for its devices. */
function attempt(
  job: RunPlanJob,
  setting: RunPlanSetting,
  devices: Devices,
  memoryBytes: number,
  more: WorkloadOptions = {},
): RunPlan | undefined {
  const { constants, statistics, ikjt, pins, costFactors: factors } = setting;
  const machine = { ...constants, memoryBytes };
  const found = planJob(job, {
    devices,
    constants: machine,
    statistics,
    ikjt,
    pins,
    costFactors: factors,
    ...more,
  });
  if (!found.isFeasible || !fitsHosts(setting, found.assessment)) return undefined;
  return {
    plan: packPlan(found.plan, job.model.tables),
    report: reportOf("auto", setting, found.plan, found.assessment),
  };
}

/** Whether the devices of each host fit into its memory together. */
function fitsHosts({ hosts, memoryBytes }: RunPlanSetting, { devices }: Assessment): boolean {
  let first = 0;
  return hosts.every((count) => {
    const own = devices.slice(first, first + count);
    first += count;
    return own.reduce((sum, device) => sum + device.bytes, 0) <= memoryBytes;
  });
}

function lackOf({ memoryBytes }: RunPlanSetting): string {
  return (
    `no plan was found that fits into ${(memoryBytes / 1e9).toFixed(3)} GB a host: ` +
    "each table is placed as written"
  );
}

function reportOf(
  by: PlanReport["by"],
  { constants, statistics }: RunPlanSetting,
  plan: Plan,
  { step, devices }: Assessment,
): PlanReport {
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
    statistics: statistics !== undefined,
  };
}
