// Plans the job of a file for `osiris plan`, from its data, the machine's constants and the
// options.

import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { setImmediate } from "node:timers/promises";
import { z } from "zod";
import { constantsOfDevice } from "../../../actors/calibration/machine-constants.ts";
import { measuredGroups } from "../../../actors/threads/data/prepare-data.ts";
import { constantsOfRun, machineKeyOf, readLinks } from "../../../actors/threads/kept-constants.ts";
import {
  checkPlannable,
  chooseDevices,
  countedStatistics,
  type DeviceChoice,
  InputUnusableError,
  InvalidOptionError,
  type JobPlan,
  type JobSpec,
  type MachineConstants,
  type MissPoint,
  type Paused,
  type PlacementSpec,
  planningJob,
  resolveJob,
  type Scheme,
  untilDone,
} from "../../../internal.ts";
import {
  type CostNetworks,
  type LearnedSearch,
  learnedPlans,
  type PlacementPolicy,
  readCostNetworks,
  readPolicy,
} from "../../../packages/sharding/index.ts";
import { belowBytesOf } from "../../../src/planner/cost/constants.ts";
import { withLinks } from "../../../src/planner/fleet.ts";
import { readPlan } from "../../../src/planner/plan-file.ts";
import { expected } from "../../../src/ports/check-options.ts";
import type { ChangeArguments } from "../../support/arguments.ts";
import { onInterrupt } from "../../support/interrupt.ts";
import { loadJob } from "../../support/job-file.ts";
import { constantsFor, withExistingFiles } from "../../support/machine.ts";
import type { StatisticsSource } from "../../views/plan-report.ts";

/** Options of the planning of a job. */
export interface PlanningArguments extends ChangeArguments {
  readonly devices?: number | "auto";
  readonly hosts: number;
  readonly memory?: number;
  readonly schemes?: readonly Scheme[];
  readonly placement?: PlacementSpec["kind"];
  readonly servers?: number;
  readonly cache?: boolean;
  readonly poolingFactor?: number;
  readonly constants?: string;
  readonly plan?: string;
  /** As `plan`, but a plan that does not fit the memory of its devices is an error. */
  readonly from?: string;
  /** Measures nothing, and writes no file. */
  readonly dryRun?: boolean;
  readonly curves?: string;
  readonly costModel?: string;
  /** Time limit of a search by learned costs, after which it returns the best plan so far. */
  readonly seconds?: number;
  readonly policy?: string;
  readonly explain?: boolean;
}

/** A plan, with its constants and statistics. */
export interface PlannedFile {
  readonly found: JobPlan<LearnedSearch>;
  readonly constants: MachineConstants;
  readonly source: StatisticsSource;
  readonly choice: DeviceChoice | undefined;
}

/** @throws InputUnusableError, InvalidOptionError */
export async function planFile(path: string, options: PlanningArguments): Promise<PlannedFile> {
  const { set = [], seed } = options;
  const written = await loadJob(path, { set: [...set, ...placementChanges(options)], seed });
  const resolved = resolveJob(written);
  checkPlannable(resolved);
  const job = await withExistingFiles(resolved);
  const { schemes: allowed, cache, poolingFactor, memory, costModel } = options;
  const costs = costModel === undefined ? undefined : costsFrom(costModel, options, job);
  const policy = options.policy === undefined ? undefined : policyFrom(options.policy, costs);
  const counted = countedStatistics(job);
  const ikjt = counted && (await measuredGroups(job));
  const { explain } = options;
  const ways = {
    ...{ schemes: allowed, cache, poolingFactor, explain, statistics: counted?.features, ikjt },
    curves: options.curves === undefined ? undefined : readCurves(options.curves),
  };
  const say = (line: string) => console.error(line);
  const ofMachine =
    options.dryRun === true && options.constants === undefined
      ? (devices: number) => constantsOfDevice(constantsOfRun(job.arithmetic), devices)
      : await constantsFor(options.constants, job.arithmetic, say);
  const constantsOf = (devices: number) => {
    const constants = ofMachine(devices);
    return memory === undefined ? constants : { ...constants, memoryBytes: memory };
  };
  const mayAddDevices = constantsOf(2).memoryBytes === constantsOf(1).memoryBytes;
  const { devices: requested = job.devices || costs?.devices || "auto", hosts } = options;
  const { servers } = job.placement;
  if (requested !== "auto" && servers >= requested) {
    const most = `at most ${requested - 1}, as one of ${requested} devices at least runs samples`;
    throw expected("placement.servers", most, servers);
  }
  const givenPath = options.from ?? options.plan;
  const isChosen = requested === "auto" && hosts === 1 && givenPath === undefined;
  const choice =
    isChosen && costs === undefined
      ? chooseDevices(job, constantsOf, { ...ways, mayAddDevices, cores: availableParallelism() })
      : undefined;
  const given =
    givenPath === undefined
      ? undefined
      : readPlan(readText(givenPath), givenPath, job.model.tables);
  const devices = given?.devices ?? devicesOf(requested, hosts);
  // Named constants include links; the measured constants of this machine do not.
  const links =
    options.constants === undefined && devices.hosts > 1
      ? readLinks().find(({ machines }) => machines.length >= devices.hosts)
      : undefined;
  const ofDevice = constantsOf(choice?.devices ?? devices.perHost);
  const counts = new Array<number>(devices.hosts).fill(devices.perHost);
  const constants =
    options.constants === undefined ? withLinks(ofDevice, counts, links?.measured) : ofDevice;
  const own = { ...ways, devices, constants, given, mayAddDevices };
  checkSeconds(options);
  const plansWith = (isOver?: () => boolean) => {
    const source = costs && learnedPlans({ costs, policy, isOver });
    return planningJob(job, { ...own, source });
  };
  const isSearched = costs !== undefined && policy === undefined && given === undefined;
  const found =
    choice?.found ??
    (isSearched ? await interruptible(plansWith, options.seconds) : untilDone(plansWith()));
  if (options.from !== undefined) checkFits(options.from, found, constants, options);
  const of = { samples: counted?.samples, poolingFactor, data: job.data, ikjt };
  const source = { ...of, fixed: job, links };
  return { found, constants, source, choice };
}

/** Options of the placement, as changes of the job. */
function placementChanges({ placement, servers }: PlanningArguments): string[] {
  return [
    ...(placement === undefined ? [] : [`placement.kind=${placement}`]),
    ...(servers === undefined ? [] : [`placement.servers=${servers}`]),
  ];
}

/** Longest time of a search between two checks for Ctrl-C. */
const pauseEveryMs = 50;
/** A search that takes longer prints that Ctrl-C stops it. */
const noticeAfterMs = 1000;

/**
 * Runs a search, which Ctrl-C or the time limit may end; the result is then the best plan so far.
 * The search is one long computation, and handles Ctrl-C in its pauses.
 */
async function interruptible(
  search: (isOver: () => boolean) => Paused<JobPlan<LearnedSearch>>,
  seconds = Number.POSITIVE_INFINITY,
): Promise<JobPlan<LearnedSearch>> {
  let isAsked = false;
  using _interrupt = onInterrupt(() => {
    isAsked = true;
  });
  const startMs = performance.now();
  const endMs = startMs + 1000 * seconds;
  let isNoticed = false;
  const work = search(() => isAsked || performance.now() >= endMs);
  for (let pausedMs = startMs; ; ) {
    const next = work.next();
    if (next.done === true) return next.value;
    const nowMs = performance.now();
    if (nowMs - pausedMs < pauseEveryMs) continue;
    if (!isNoticed && nowMs - startMs > noticeAfterMs) {
      isNoticed = true;
      console.error("Searching by learned costs; Ctrl-C plans with the best so far ...");
    }
    await setImmediate();
    pausedMs = performance.now();
  }
}

/** @throws InvalidOptionError where `--seconds` is given without a search by learned costs */
function checkSeconds({ seconds, costModel, policy, plan, from }: PlanningArguments): void {
  if (seconds === undefined) return;
  if (costModel !== undefined && policy === undefined && (plan ?? from) === undefined) return;
  throw new InvalidOptionError(
    "--seconds",
    "Expected `--cost-model` beside `--seconds`, and no `--policy`, `--plan` or `--from`: only a " +
      "search by learned costs takes so long that it may be stopped",
  );
}

/** @throws InputUnusableError, InvalidOptionError where the plan is not for these devices */
function checkFits(
  path: string,
  found: JobPlan,
  constants: MachineConstants,
  { devices: requested, hosts }: PlanningArguments,
): void {
  if (!found.isFeasible) return;
  const { memoryBytes } = constants;
  const { plan, assessment } = found;
  const { hosts: ownHosts, perHost } = plan.devices;
  const count = ownHosts * perHost;
  if (typeof requested === "number" && (requested !== count || hosts !== ownHosts)) {
    throw new InvalidOptionError(
      "--devices",
      `Expected \`--devices\` to be the ${count} of ${ownHosts} hosts that ${path} is for, got ` +
        `${requested} of ${hosts}: leave it out, or plan anew without \`--from\``,
    );
  }
  if (assessment.lacksBytes === 0) return;
  const needed = memoryBytes + assessment.lacksBytes;
  const device = assessment.devices.findIndex(({ bytes }) => bytes === needed);
  if (device < 0) {
    const most = Math.max(...assessment.hostBytes);
    throw new InputUnusableError(
      path,
      `Cannot use the plan ${path}: host ${assessment.hostBytes.indexOf(most)} needs ${most} bytes ` +
        `below caches, and has ${belowBytesOf(constants) ?? 0}: plan anew without \`--from\`, or for more hosts`,
    );
  }
  throw new InputUnusableError(
    path,
    `Cannot use the plan ${path}: device ${device} needs ${needed} bytes, and has ${memoryBytes}: ` +
      `plan anew without \`--from\`, for more devices, or give each \`--memory ${needed}\``,
  );
}

/** @throws InputUnusableError where the costs are another machine's, without its `--constants` */
function costsFrom(
  path: string,
  { constants }: PlanningArguments,
  { arithmetic }: JobSpec,
): CostNetworks {
  const { networks, provenance } = readCostNetworks(path);
  const here = JSON.stringify(machineKeyOf(arithmetic));
  if (constants !== undefined || provenance.machine === here) return networks;
  throw new InputUnusableError(
    path,
    `Expected ${path} to have costs of this machine, ${here}, got those of ` +
      `${provenance.machine ?? provenance.source ?? "another"}: measure them here with ` +
      "`osiris plan --calibrate --learn`, or name the other machine's `--constants`",
  );
}

/** @throws InputUnusableError, InvalidOptionError without costs that predict the policy's plan */
function policyFrom(path: string, costs: CostNetworks | undefined): PlacementPolicy {
  if (costs !== undefined) return readPolicy(path).policy;
  throw new InvalidOptionError(
    "--policy",
    "Expected `--cost-model` beside `--policy`: its costs predict the policy's plan; " +
      "`osiris plan --calibrate --learn --policy FILE` makes both files",
  );
}

function devicesOf(requested: number | "auto", hosts: number) {
  const all = requested === "auto" ? Math.max(2, hosts) : requested;
  if (all % hosts === 0) return { hosts, perHost: all / hosts };
  throw new InvalidOptionError(
    "--devices",
    `Expected \`--devices\` to be a multiple of the ${hosts} hosts, got \`${all}\` (number)`,
  );
}

const curvesSchema = z.object({
  tiers: z.array(
    z.object({
      table: z.string(),
      curve: z.array(z.object({ rows: z.number(), missRatio: z.number().min(0).max(1) })),
    }),
  ),
});

/** Miss curves by table, from the last line of a run's JSON events that has some: its result. */
function readCurves(path: string): Map<string, MissPoint[]> {
  for (const line of readText(path).trimEnd().split("\n").reverse()) {
    const found = curvesSchema.safeParse(parsed(line));
    if (found.success) return new Map(found.data.tiers.map(({ table, curve }) => [table, curve]));
  }
  const wanted = "none of its lines is a result with `tiers`, as `osiris train --json` prints it";
  throw new InputUnusableError(path, `Cannot use the curves ${path}: ${wanted}`);
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot read ${path}: ${reason}`, { cause });
  }
}
