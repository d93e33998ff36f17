// Measures what cost networks are trained with: sets of tables and exchanges, on this machine, by
// as many threads as there are to be devices. Every measurement is a line of a file as soon as it
// is made: measuring that was stopped goes on where the file ends.

import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { InputUnusableError, PeerLostError, RemoteError } from "../../src/errors/errors.ts";
import { cellWords } from "../../src/exchange/cells.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { type Clock, realClock } from "../../src/ports/clock.ts";
import { type Launcher, workerLauncher } from "../../src/ports/launcher.ts";
import {
  type CostProbeReport,
  type CostProbeTask,
  costProbeShape,
} from "../threads/costs/cost-probe-program.ts";
import {
  costTableOf,
  exchangeProbe,
  type ProbeLimits,
  setProbe,
} from "../threads/costs/cost-probes.ts";
import { type MachineKey, machineKeyOf } from "../threads/kept-constants.ts";
import { threadFile } from "../threads/thread-file.ts";
import type { MeasuredCosts } from "./cost-samples.ts";

export interface MeasureOptions {
  readonly devices: number;
  /** Samples of a step, over all devices. */
  readonly batchSize: number;
  /** Sets of tables, and as many exchanges. */
  readonly samples: number;
  /** The file of measurements. */
  readonly path: string;
  /** Stops behind so many seconds; what was measured stays in the file. */
  readonly secondsMax: number;
  readonly arithmetic?: "auto" | "native" | "reference";
  /** @default 1 */
  readonly seed?: number;
  /** Bytes of the weights of a set. @default 256 MiB */
  readonly bytesMax?: number;
  /** Told the share of all measurements that are done. */
  readonly onProgress?: (done: number) => void;
}

/** What was measured, and whether that is all. */
export interface Measured {
  readonly costs: MeasuredCosts;
  readonly machine: MachineKey;
  readonly isComplete: boolean;
}

/** Probes of one start of the threads, for each of them. */
const chunk = 16;
/** Share of the time that sets of tables may take, so that exchanges are measured, too. */
const setsShare = 0.7;
const columnsMax = 2048;

const headSchema = z.strictObject({
  machine: z.record(z.string(), z.union([z.string(), z.number()])),
  devices: z.number(),
  batchSize: z.number(),
  seed: z.number(),
  bytesMax: z.number(),
});
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
 * Measures until all samples are there or the time is up.
 * @throws InputUnusableError where the file has measurements of something else
 * @throws PeerLostError, or the thread's own error as a RemoteError, where a thread fails
 */
export async function measureCosts(
  options: MeasureOptions,
  launcher: Launcher = workerLauncher,
  clock: Clock = realClock,
): Promise<Measured> {
  const { devices, batchSize, samples, path, secondsMax, seed = 1, onProgress } = options;
  const { arithmetic = "auto", bytesMax = 2 ** 28 } = options;
  const machine = machineKeyOf(arithmetic);
  const limits: ProbeLimits = { seed, devices, bytesMax, columnsMax };
  const lines = openFile(path, { machine, devices, batchSize, seed, bytesMax });
  const startMs = clock.now();
  const [setsEndMs, endMs] = [setsShare, 1].map((share) => startMs + 1000 * share * secondsMax);
  const sets = () => lines.filter((line) => "set" in line).length;
  const exchanges = () => lines.filter((line) => "exchange" in line).length;
  const keep = (made: readonly Line[]) => {
    appendFileSync(path, made.map((line) => `${JSON.stringify(line)}\n`).join(""));
    lines.push(...made);
    onProgress?.((sets() + exchanges()) / (2 * samples));
  };
  const common = { program: "costs", arithmetic, limits, batchSize } as const;
  while (sets() < samples && clock.now() < (setsEndMs ?? 0)) {
    const count = Math.min(chunk * devices, samples - sets());
    const own = { ...common, kind: "sets", first: sets(), count, lateMax: 0 } as const;
    const reports = await runProbes(launcher, own);
    const found = reports.flatMap((report) => report.sets).sort((a, b) => a.index - b.index);
    keep(found.map(({ index, milliseconds }) => ({ set: index, milliseconds })));
  }
  const lateMax = spreadOf(lines);
  while (exchanges() < samples && sets() > 0 && clock.now() < (endMs ?? 0)) {
    const count = Math.min(chunk, samples - exchanges());
    const own = { ...common, kind: "exchanges", first: exchanges(), count, lateMax } as const;
    const reports = await runProbes(launcher, own);
    keep(
      Array.from({ length: count }, (_, i) => ({
        exchange: own.first + i,
        lateMax,
        forward: reports.map((report) => report.exchanges[i]?.forward ?? 0),
        backward: reports.map((report) => report.exchanges[i]?.backward ?? 0),
      })),
    );
  }
  const isComplete = sets() >= samples && exchanges() >= samples;
  return { costs: costsOf(lines, limits, batchSize), machine, isComplete };
}

/** The measurements of the file, which is made with its first line if it is not there. */
function openFile(path: string, head: z.input<typeof headSchema>): Line[] {
  const first = JSON.stringify(head);
  if (!existsSync(path)) {
    writeFileSync(path, `${first}\n`);
    return [];
  }
  const refuse = (why: string) =>
    new InputUnusableError(
      path,
      `Expected ${path} to be measurements to go on with, but ${why}: remove the file, or name another`,
    );
  const text = readFileSync(path, "utf8");
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  const [found = "", ...rest] = whole.split("\n").slice(0, -1);
  if (found !== first) throw refuse(`it begins with ${found.slice(0, 300)}, not ${first}`);
  // A line that was cut off is measured again.
  if (whole.length < text.length) writeFileSync(path, whole);
  return rest.map((line, i) => {
    const parsed = lineSchema.safeParse(jsonOf(line));
    if (parsed.success) return parsed.data;
    throw refuse(`its line ${i + 2} is none`);
  });
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** Milliseconds between cheap sets and dear ones: how late a device may come to an exchange. */
function spreadOf(lines: readonly Line[]): number {
  const known = lines.find((line) => "exchange" in line);
  if (known !== undefined) return known.lateMax;
  const times = lines.flatMap((line) => ("set" in line ? [line.milliseconds] : []));
  const sorted = times.sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
  return Math.max(1, at(0.9) - at(0.1));
}

function costsOf(lines: readonly Line[], limits: ProbeLimits, batchSize: number): MeasuredCosts {
  const compute = lines.flatMap((line) => {
    if (!("set" in line)) return [];
    const tables = setProbe(limits, line.set).map(costTableOf);
    return [{ tables, milliseconds: line.milliseconds }];
  });
  const exchange = lines.flatMap((line) => {
    if (!("exchange" in line)) return [];
    const { columns, late } = exchangeProbe(limits, line.exchange);
    const own = late.map((share) => share * line.lateMax);
    return [{ columns, late: own, forward: line.forward, backward: line.backward }];
  });
  return { devices: limits.devices, batchSize, compute, exchange };
}

/** What each device measures, all at the same time. */
function runProbes(
  launcher: Launcher,
  task: Omit<CostProbeTask, "rank" | "words" | "memory">,
): Promise<CostProbeReport[]> {
  const { devices } = task.limits;
  const layout = layoutOf(costProbeShape(task.batchSize, task.limits));
  const words = new SharedArrayBuffer(4 * cellWords(devices, layout.cells));
  const memory = new SharedArrayBuffer(layout.bytes);
  return Promise.all(
    Array.from({ length: devices }, async (_, rank) => {
      const name = `costs-${rank}`;
      const own: CostProbeTask = { ...task, rank, words, memory };
      const thread = launcher.start<never, CostProbeReport>(threadFile, own, name);
      let report: CostProbeReport | undefined;
      thread.onReport((told) => {
        report = told;
      });
      const end = await thread.ended;
      if (report !== undefined) return report;
      if (end.kind === "failed") throw new RemoteError(end.error);
      throw new PeerLostError(name, end.kind === "lost" ? end.reason : "it ended without a word");
    }),
  );
}
