// Measures the training data of cost networks: sets of tables and exchanges, on this machine, with
// a thread for each device. Each measurement is appended to a file at once, so that an interrupted
// measuring continues where the file ends.

import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { z } from "zod";
import {
  type Clock,
  type CostProbeReport,
  type CostProbeTask,
  costProbeShape,
  costTableOf,
  exchangeProbe,
  hasProcessorTime,
  InputUnusableError,
  type Launcher,
  type MachineKey,
  machineKeyOf,
  measureOnThreads,
  type ProbeLimits,
  realClock,
  type SetTask,
  setProbe,
  workerLauncher,
} from "../../../internal.ts";
import type { ComputeCost, ExchangeCost, MeasuredCosts } from "./cost-samples.ts";
import { probeOverHosts } from "./probe-hosts.ts";

export interface MeasureOptions {
  /** Devices of all hosts. */
  readonly devices: number;
  /**
   * Host processes that the devices are spread over evenly while exchanges are measured, which
   * then go through a broker. @default 1
   */
  readonly hosts?: number;
  /** Samples of a step, over all devices. */
  readonly batchSize: number;
  /** Number of sets of tables, and number of exchanges. */
  readonly samples: number;
  /** The file of measurements. */
  readonly path: string;
  /** Stops after this many seconds; finished measurements stay in the file. */
  readonly secondsMax: number;
  readonly arithmetic?: "auto" | "native" | "reference";
  /** @default 1 */
  readonly seed?: number;
  /** Bytes of the weights of a set. @default 256 MiB */
  readonly bytesMax?: number;
  /** Called with the share of all measurements that are done. */
  readonly onProgress?: (done: number) => void;
}

/** The measurements so far, and whether they are complete. */
export interface Measured {
  readonly costs: MeasuredCosts;
  readonly machine: MachineKey;
  readonly isComplete: boolean;
}

/** Probes per start of the threads, for each thread. */
const chunk = 16;
/**
 * Number of passes over all probes. The fastest measurement of a probe counts, so that slow minutes
 * of a shared machine do not distort it.
 */
const passes = 3;
/** Share of the time that sets of tables may take, so that exchanges are measured, too. */
const setsShare = 0.7;
const columnsMax = 2048;

/** The first line of a file: measurements continue only under equal conditions. */
interface Head
  extends Required<Pick<MeasureOptions, "devices" | "batchSize" | "seed" | "bytesMax">> {
  /** CPU time (`processorMs`), or wall time if the system does not report CPU time. */
  readonly time: "processor" | "wall";
  readonly machine: MachineKey;
  readonly hosts: number;
}

const lineSchema = z.union([
  z.strictObject({ set: z.int(), milliseconds: z.number() }),
  z.strictObject({
    exchange: z.int(),
    lateMax: z.number(),
    forward: z.array(z.number()),
    backward: z.array(z.number()),
  }),
]);
type Line = z.output<typeof lineSchema>;

/**
 * Measures until all samples are measured or the time is up.
 * @throws InputUnusableError where the file has measurements of another machine or with other
 * options
 * @throws PeerLostError, or the thread's own error as a RemoteError, where a thread fails
 */
export async function measureCosts(
  options: MeasureOptions,
  launcher: Launcher = workerLauncher,
  clock: Clock = realClock,
): Promise<Measured> {
  const { devices, batchSize, samples, path, secondsMax, seed = 1, onProgress } = options;
  const { arithmetic = "auto", bytesMax = 2 ** 28, hosts = 1 } = options;
  const machine = machineKeyOf(arithmetic);
  const limits: ProbeLimits = { seed, devices, bytesMax, columnsMax };
  const time = hasProcessorTime() ? ("processor" as const) : ("wall" as const);
  const lines = openFile(path, { time, machine, devices, hosts, batchSize, seed, bytesMax });
  const startMs = clock.now();
  const [setsEndMs, endMs] = [setsShare, 1].map((share) => startMs + 1000 * share * secondsMax);
  const all = passes * samples;
  const left = (kind: "set" | "exchange") => leftOf(lines, kind, samples);
  const keep = (made: readonly Line[]) => {
    appendFileSync(path, made.map((line) => `${JSON.stringify(line)}\n`).join(""));
    lines.push(...made);
    onProgress?.(1 - (left("set").length + left("exchange").length) / (2 * all));
  };
  const measure = { devices, batchSize, arithmetic, columnsMax };
  for (let next = left("set"); next.length > 0 && clock.now() < (setsEndMs ?? 0); ) {
    const sets: SetTask[][] = Array.from({ length: devices }, () => []);
    for (const [i, index] of next.slice(0, chunk * devices).entries()) {
      sets[i % devices]?.push({ index, tables: setProbe(limits, index) });
    }
    const reports = await runProbes({ ...measure, sets, exchanges: [], lateMax: 0 }, launcher);
    const made = sets.flatMap((tasks, rank) =>
      tasks.map(({ index }, i) => {
        return { set: index, milliseconds: reports[rank]?.sets[i] ?? 0 };
      }),
    );
    keep(made.sort((a, b) => a.set - b.set));
    next = left("set");
  }
  const lateMax = spreadOf(lines);
  const hasSets = lines.some((line) => "set" in line);
  for (let next = left("exchange"); hasSets && next.length > 0 && clock.now() < (endMs ?? 0); ) {
    const chosen = next.slice(0, chunk);
    const probes = chosen.map((index) => exchangeProbe(limits, index));
    const task = { ...measure, exchanges: probes, lateMax };
    const reports =
      hosts > 1
        ? await probeOverHosts(hostsOf(devices, hosts), task, clock)
        : await runProbes({ ...task, sets: [] }, launcher);
    keep(
      chosen.map((exchange, i) => ({
        exchange,
        lateMax,
        forward: reports.map((report) => report.exchanges[i]?.forward ?? 0),
        backward: reports.map((report) => report.exchanges[i]?.backward ?? 0),
      })),
    );
    next = left("exchange");
  }
  const isComplete = left("set").length + left("exchange").length === 0;
  const costs = { ...costsOf(lines, limits, batchSize), ...(hosts > 1 && { hosts }) };
  return { costs, machine, isComplete };
}

function hostsOf(devices: number, hosts: number): number[] {
  return Array.from({ length: devices }, (_, rank) => Math.floor((rank * hosts) / devices));
}

/**
 * The probes that are left to measure: each index below `samples` once for each missing pass,
 * indices with most missing passes first.
 */
function leftOf(lines: readonly Line[], kind: "set" | "exchange", samples: number): number[] {
  const times = new Array<number>(samples).fill(0);
  for (const line of lines) {
    const index = kind === "set" && "set" in line ? line.set : undefined;
    const at = kind === "exchange" && "exchange" in line ? line.exchange : index;
    if (at !== undefined && at < samples) times[at] = (times[at] ?? 0) + 1;
  }
  return Array.from({ length: passes }, (_, pass) =>
    [...times.keys()].filter((index) => (times[index] ?? 0) <= pass),
  ).flat();
}

/**
 * Reads the measurements of the file; creates the file with its first line if it does not exist.
 */
function openFile(path: string, head: Head): Line[] {
  const first = JSON.stringify(head);
  if (!existsSync(path)) {
    writeFileSync(path, `${first}\n`);
    return [];
  }
  const refuse = (why: string) =>
    new InputUnusableError(
      path,
      `Expected ${path} to be measurements that can be continued, but ${why}: remove the file, or name another`,
    );
  const text = readFileSync(path, "utf8");
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  const [found = "", ...rest] = whole.split("\n").slice(0, -1);
  if (found !== first) throw refuse(`it begins with ${found.slice(0, 300)}, not ${first}`);
  // A truncated last line is removed, and measured again.
  if (whole.length < text.length) writeFileSync(path, whole);
  return rest.map((line, i) => {
    const parsed = lineSchema.safeParse(jsonOf(line));
    if (parsed.success) return parsed.data;
    throw refuse(`its line ${i + 2} is no measurement`);
  });
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/**
 * Milliseconds between cheap sets and costly ones (10 % and 90 % quantile): the lateness of a
 * device at an exchange.
 */
function spreadOf(lines: readonly Line[]): number {
  const known = lines.find((line) => "exchange" in line);
  if (known !== undefined) return known.lateMax;
  const times = lines.flatMap((line) => ("set" in line ? [line.milliseconds] : []));
  const sorted = times.sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
  return Math.max(1, at(0.9) - at(0.1));
}

/** The fastest measurement of each probe, by index. */
function costsOf(lines: readonly Line[], limits: ProbeLimits, batchSize: number): MeasuredCosts {
  const compute: ComputeCost[] = [];
  const exchange: ExchangeCost[] = [];
  const fastest = (one: readonly number[], other: readonly number[] = one) => {
    return one.map((ms, device) => Math.min(ms, other[device] ?? ms));
  };
  for (const line of lines) {
    if ("set" in line) {
      const { set, milliseconds } = line;
      const known = compute[set];
      const least = Math.min(milliseconds, known?.milliseconds ?? milliseconds);
      const tables = known?.tables ?? setProbe(limits, set).map(costTableOf);
      compute[set] = { tables, milliseconds: least };
    } else {
      const { columns, late } = exchangeProbe(limits, line.exchange);
      const known = exchange[line.exchange];
      exchange[line.exchange] = {
        columns,
        late: late.map((share) => share * line.lateMax),
        forward: fastest(line.forward, known?.forward),
        backward: fastest(line.backward, known?.backward),
      };
    }
  }
  return { devices: limits.devices, batchSize, compute, exchange };
}

/**
 * Probes of one start of the threads: each device measures its sets one after the other; then all
 * measure the exchanges together.
 */
export interface Probes
  extends Pick<
    CostProbeTask,
    "devices" | "batchSize" | "arithmetic" | "columnsMax" | "exchanges" | "lateMax"
  > {
  readonly sets: readonly (readonly SetTask[])[];
}

/**
 * Measures with a thread for each device; returns the reports in the order of devices.
 * @throws PeerLostError, or the thread's own error as a RemoteError, where a thread fails
 */
export function runProbes(
  { sets, ...task }: Probes,
  launcher: Launcher = workerLauncher,
): Promise<CostProbeReport[]> {
  return measureOnThreads(launcher, costProbeShape(task), (thread): CostProbeTask => {
    return { program: "costs", ...task, ...thread, sets: sets[thread.rank] ?? [] };
  });
}
