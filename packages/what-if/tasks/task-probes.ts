// Task probes: small jobs of many shapes, whose tasks are timed on this machine, so that the costs
// of their units can be fitted (task-costs.ts). All train on the same threads, in a pass that only
// compiles the programs and in passes that count; of each task, the quietest pass counts.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  graphOf,
  type JobOptions,
  type MachineConstants,
  type ModelOptions,
  type ProbePorts,
  planJob,
  prepareData,
  realDisk,
  resolveJob,
  type SampleTimes,
  type TimedJob,
  timeSteps,
  workloadOf,
} from "../../../internal.ts";
import { fitTaskCosts, type MeasuredTasks, type TaskCosts } from "./task-costs.ts";
import { type TaskTimes, taskTimesOf } from "./task-times.ts";
import { taskUnitsOf } from "./task-units.ts";

/** A job to time. */
export interface TaskProbe {
  readonly kind: "dlrm" | "cat" | "dcnV2" | "wukong" | "maskNet";
  readonly batch: number;
  readonly tables: number;
  readonly rows: number;
  readonly dim: number;
  readonly ids: number;
  /** Widths of the dense layers. */
  readonly widths: readonly number[];
  readonly wire?: "float16" | "bfloat16" | "int8";
  readonly cached?: true;
}

/** The probes. */
export const taskProbes: readonly TaskProbe[] = [
  { kind: "cat", batch: 64, tables: 1, rows: 1000, dim: 16, ids: 1, widths: [16] },
  { kind: "cat", batch: 128, tables: 40, rows: 5000, dim: 8, ids: 1, widths: [16] },
  { kind: "cat", batch: 1024, tables: 8, rows: 10_000, dim: 16, ids: 1, widths: [16] },
  { kind: "cat", batch: 512, tables: 4, rows: 30_000, dim: 128, ids: 2, widths: [32] },
  { kind: "cat", batch: 256, tables: 12, rows: 20_000, dim: 32, ids: 16, widths: [16] },
  { kind: "cat", batch: 2048, tables: 6, rows: 3000, dim: 8, ids: 12, widths: [32] },
  {
    kind: "dlrm",
    batch: 512,
    tables: 24,
    rows: 40_000,
    dim: 64,
    ids: 5,
    widths: [64],
    wire: "bfloat16",
  },
  {
    kind: "dlrm",
    batch: 256,
    tables: 50,
    rows: 2000,
    dim: 16,
    ids: 3,
    widths: [64, 32],
    wire: "int8",
  },
  { kind: "dlrm", batch: 1024, tables: 10, rows: 20_000, dim: 128, ids: 1, widths: [128, 64] },
  { kind: "cat", batch: 128, tables: 4, rows: 5000, dim: 32, ids: 1, widths: [1024, 256] },
  { kind: "cat", batch: 2048, tables: 6, rows: 5000, dim: 16, ids: 2, widths: [256, 128] },
  { kind: "cat", batch: 512, tables: 20, rows: 5000, dim: 64, ids: 1, widths: [512, 256] },
  { kind: "dlrm", batch: 4096, tables: 5, rows: 5000, dim: 32, ids: 1, widths: [64, 64] },
  { kind: "dcnV2", batch: 256, tables: 24, rows: 10_000, dim: 16, ids: 2, widths: [128, 64] },
  {
    kind: "dcnV2",
    batch: 1024,
    tables: 10,
    rows: 3000,
    dim: 64,
    ids: 6,
    widths: [64],
    wire: "float16",
  },
  { kind: "wukong", batch: 128, tables: 30, rows: 10_000, dim: 32, ids: 4, widths: [64, 32] },
  { kind: "wukong", batch: 1024, tables: 12, rows: 5000, dim: 64, ids: 2, widths: [256, 128] },
  { kind: "maskNet", batch: 256, tables: 12, rows: 5000, dim: 32, ids: 3, widths: [64, 64] },
  {
    kind: "maskNet",
    batch: 1024,
    tables: 16,
    rows: 10_000,
    dim: 16,
    ids: 8,
    widths: [128, 64],
    wire: "int8",
  },
  {
    kind: "cat",
    batch: 256,
    tables: 8,
    rows: 100_000,
    dim: 32,
    ids: 4,
    widths: [32],
    cached: true,
  },
  {
    kind: "cat",
    batch: 1024,
    tables: 12,
    rows: 100_000,
    dim: 16,
    ids: 1,
    widths: [64],
    cached: true,
  },
  {
    kind: "dlrm",
    batch: 512,
    tables: 4,
    rows: 50_000,
    dim: 64,
    ids: 8,
    widths: [32],
    cached: true,
  },
];

/** Which probes are timed, and for how long. */
export interface Probing {
  readonly probes: readonly TaskProbe[];
  readonly passes: number;
  readonly compiling: SampleTimes;
  readonly counting: SampleTimes;
}

export const usualProbing: Probing = {
  ...{ probes: taskProbes, passes: 3 },
  compiling: { warmUpMs: 250, warmUpSteps: 150, longestMs: 500, sampleMs: 4, samples: 0 },
  counting: { warmUpMs: 250, warmUpSteps: 40, longestMs: 500, sampleMs: 4, samples: 1 },
};

/** Takes a second, for approximate costs. */
export const briefProbing: Probing = {
  ...{ probes: taskProbes.slice(0, 3), passes: 1 },
  compiling: { warmUpMs: 1, warmUpSteps: 2, longestMs: 100, sampleMs: 2, samples: 0 },
  counting: { warmUpMs: 1, warmUpSteps: 4, longestMs: 100, sampleMs: 2, samples: 1 },
};

const [dense, batchesOfProbe, endlessEpochs] = [13, 8, 100_000];

export interface ProbedTasks extends MeasuredTasks {
  readonly probe: TaskProbe;
  readonly devices: number;
}

/** Times the probes, and fits the costs, on each of the given numbers of devices. */
export async function measureTasks(
  constants: MachineConstants,
  counts: readonly number[],
  ports: ProbePorts,
  probing: Probing = usualProbing,
  onProbed: (probed: readonly ProbedTasks[]) => void = () => {},
): Promise<TaskCosts[]> {
  const found: TaskCosts[] = [];
  for (const devices of counts) {
    const probed = await probeTasks(constants, devices, ports, probing);
    onProbed(probed);
    found.push(fitTaskCosts(devices, probed));
  }
  return found;
}

async function probeTasks(
  constants: MachineConstants,
  devices: number,
  ports: ProbePorts,
  { probes, passes, compiling, counting }: Probing,
): Promise<ProbedTasks[]> {
  const home = mkdtempSync(join(tmpdir(), "osiris-calibrate-"));
  try {
    const jobs = probes.map((probe, i) => {
      return { probe, ...plannedProbe(probe, join(home, `${i}`), devices, constants) };
    });
    const timed: Omit<TimedJob, "times">[] = [];
    for (const { job } of jobs)
      timed.push({ job, data: await prepareData(job, realDisk, () => {}) });
    const all = [compiling, ...Array.from({ length: passes }, () => counting)].flatMap((times) =>
      timed.map((one) => ({ ...one, times })),
    );
    const taken: TaskTimes[][] = [];
    await timeSteps(all, devices, ports, (_, recordsOf) => {
      taken.push(Array.from({ length: devices }, (_own, rank) => taskTimesOf(recordsOf(rank))));
    });
    return jobs.flatMap(({ probe, counted }, index) => {
      const unitsOf = taskUnitsOf(counted);
      return Array.from({ length: devices }, (_, rank) => {
        const own = taken.flatMap((ranks, at) => {
          const isCounted = at >= jobs.length && at % jobs.length === index;
          return isCounted ? [ranks[rank] ?? {}] : [];
        });
        return { probe, devices, units: unitsOf(rank), times: leastOf(own) };
      });
    });
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

/** A probe with the plan that its run would follow. */
export function plannedProbe(
  probe: TaskProbe,
  home: string,
  devices: number,
  constants: MachineConstants,
) {
  const options = jobOf(probe, home);
  const on = { hosts: 1, perHost: devices };
  const found = planJob(resolveJob(options), { devices: on, constants });
  if (!found.isFeasible) throw new RangeError("A probe fits any device");
  const job = resolveJob({ ...options, plan: JSON.parse(found.text) });
  const setting = { workload: workloadOf(job), devices: on, constants };
  const { exchange, model } = job;
  return { job, counted: { setting, plan: found.plan, graph: graphOf(model), exchange } };
}

/** Of each task the least of the passes. */
function leastOf(all: readonly TaskTimes[]): TaskTimes {
  const names = new Set(all.flatMap((own) => Object.keys(own)));
  return Object.fromEntries(
    [...names].map((name) => [name, Math.min(...all.map((own) => own[name] ?? Infinity))]),
  );
}

function jobOf(
  { kind, batch, tables, rows, dim, ids, widths, wire, cached }: TaskProbe,
  home: string,
): JobOptions {
  const bytes = Math.ceil((tables * rows * (4 * dim + 8)) / 8);
  return {
    model: modelOf(kind, {
      tables: Array.from({ length: tables }, (_, i) => ({
        ...{ name: `T${i}`, rows, dim },
        ...(cached && { tier: "cached" as const }),
      })),
      ...{ dense, widths, dim },
    }),
    data: {
      ...{
        kind: "synthetic",
        samples: batchesOfProbe * (cached ? 8 : 1) * batch,
        dense,
        batchSize: batch,
        idsPerBag: ids,
      },
      ...{ epochs: endlessEpochs, cache: join(home, "cache") },
    },
    ...(wire !== undefined && { exchange: { forward: wire, backward: wire } }),
    ...(cached && { tiers: { hbmBytes: bytes, ddrBytes: 2 * bytes, ssd: "file" as const } }),
    checkpoint: { directory: join(home, "none") },
  };
}

/** A model of the kind with these widths of layers. */
export function modelOf(
  kind: TaskProbe["kind"],
  of: {
    readonly tables: ModelOptions["tables"];
    readonly dense: number;
    readonly widths: readonly number[];
    readonly dim: number;
  },
): ModelOptions {
  const { tables, dense: features, widths, dim } = of;
  const [wide = dim] = widths;
  const narrow = widths.at(-1) ?? dim;
  const common = { tables, dense: features };
  const bottom = kind === "maskNet" ? [] : [wide, dim];
  const top = [...widths, 1];
  switch (kind) {
    case "dlrm":
      return { kind: "dlrm", ...common, bottom, top };
    case "cat":
      return { kind: "dlrm", ...common, bottom, top, interaction: "cat" };
    case "dcnV2":
      return { kind: "dcnV2", ...common, bottom, crossLayers: 2, rank: 64, top };
    case "maskNet":
      return {
        kind: "maskNet",
        ...common,
        blocks: 2,
        width: narrow,
        reduction: 0.25,
        top: [narrow, 1],
      };
    default: {
      const layer = { interacted: 8, compressed: 8, rank: 16, hidden: [wide] };
      return { kind: "wukong", ...common, bottom, layers: [layer, layer], top: [narrow, 1] };
    }
  }
}
