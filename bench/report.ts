// What every bench prints: a table for people, and with --json one last line for machines. The form
// of that line is a contract: names are stable, dotted, from general to specific.

import { arch, availableParallelism, cpus, release, type as systemType } from "node:os";
import type { StepTimes } from "../src/training/meters/step-meter.ts";

export interface BenchRow {
  readonly name: string;
  /** The median. */
  readonly figure: number;
  readonly unit: string;
  /** What cannot be exceeded, or the peer; measured in the same run. */
  readonly limit?: number;
  readonly limitIs?: string;
  /** figure / limit */
  readonly ratio?: number;
  /** Where the limit is a peer: what the ratio has to be, and what it should be. */
  readonly target?: readonly [atLeast: number, aim: number];
  /** Beside a peer: the machine's own limit (step-limit.ts), and figure / machine. */
  readonly machine?: number;
  readonly reached?: number;
  /** Where the time of the steps went, in the last round. */
  readonly times?: StepTimes | undefined;
  /** 10th and 90th percentile. */
  readonly spread: readonly [number, number];
}

/** Prints the rows of one bench. */
export function printReport(bench: string, rows: readonly BenchRow[], json: boolean): void {
  for (const row of rows) {
    const limit =
      row.limit === undefined
        ? ""
        : `  ${percent(row.ratio)} of ${short(row.limit)} (${row.limitIs ?? ""})`;
    const spread = `${short(row.spread[0])} … ${short(row.spread[1])}`;
    console.log(`${row.name.padEnd(34)} ${short(row.figure)} ${row.unit}  (${spread})${limit}`);
    const more = [
      row.target && `at least ${percent(row.target[0])}, aim ${percent(row.target[1])}`,
      row.machine && `${percent(row.reached)} of the machine's ${short(row.machine)}`,
      row.times && wayOf(row.times),
    ].filter((part) => part !== undefined);
    if (more.length > 0) console.log(`${" ".repeat(35)}${more.join("; ")}`);
  }
  if (json) console.log(JSON.stringify({ bench, machine: machine(), rows }));
}

/** Median, and the 10th and 90th percentile. */
export function quantiles(values: readonly number[]): { median: number; spread: [number, number] } {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (q: number) => sorted[Math.round(q * (sorted.length - 1))] ?? Number.NaN;
  return { median: at(0.5), spread: [at(0.1), at(0.9)] };
}

/** A row from the rounds of ours and of the limit, in turn; limits of 0 were not to be had. */
export function rowOf(
  { name, unit, limitIs }: Pick<BenchRow, "name" | "unit" | "limitIs">,
  ours: readonly number[],
  limits: readonly number[],
): BenchRow {
  const { median, spread } = quantiles(ours);
  const limit = quantiles(limits).median;
  const row = { name, figure: median, unit, spread, ...(limitIs !== undefined && { limitIs }) };
  return limit > 0 ? { ...row, limit, ratio: median / limit } : row;
}

/** Units a second of the fastest of the calls that fit in `seconds`, each of `work` units. */
export function fastest(work: number, seconds: number, run: () => void): number {
  const startMs = performance.now();
  let best = 0;
  do {
    const beginMs = performance.now();
    run();
    best = Math.max(best, work / ((performance.now() - beginMs) / 1000));
  } while (performance.now() - startMs < 1000 * seconds);
  return best;
}

function machine() {
  return {
    cpu: cpus()[0]?.model ?? "unknown",
    cores: availableParallelism(),
    arch: arch(),
    system: `${systemType()} ${release()}`,
    node: process.version,
  };
}

/** What a step takes, and what of that at least a hundredth goes to. */
function wayOf({ stepMs, shares }: StepTimes): string {
  const parts = Object.entries(shares)
    .filter(([, share]) => share >= 0.01)
    .map(([stage, share]) => `${percent(share)} ${stage}`);
  return `a step takes ${short(stepMs)} ms: ${parts.join(", ")}`;
}

function short(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(3);
}

function percent(ratio: number | undefined): string {
  return ratio === undefined ? "" : `${Math.round(100 * ratio)} %`;
}
