// The output of a bench: a line for people for each row, as soon as it is measured. With `--json`
// standard output has a JSON line for each row, then one last line with the machine and all rows;
// the lines for people go to standard error. The form of the JSON lines is a contract (README.md).

import { arch, availableParallelism, cpus, release, type as systemType } from "node:os";
import { openKernels } from "../src/kernels/index.ts";
import { addonOrigin } from "../src/ports/addon.ts";
import type { StepTimes } from "../src/training/meters/step-meter.ts";
import type { Measurement } from "./bench.ts";
import { type BenchRow, figureOf } from "./row.ts";

export interface Report {
  /** Prints what will be measured, and the estimated duration. */
  start(measurements: readonly Measurement[], isWanted: (name: string) => boolean): void;
  /** Shows what is being measured; only on a terminal. */
  begin(index: number): void;
  row(row: BenchRow): void;
  /** The last line for programs. */
  end(isInterrupted: boolean): void;
}

/** Where lines go: standard output and standard error. */
export interface Printer {
  print(line: string): void;
  tell(line: string): void;
}

export function openReport(bench: string, json: boolean, { print, tell }: Printer): Report {
  const rows: BenchRow[] = [];
  const show = json ? tell : print;
  let plan: readonly Measurement[] = [];
  return {
    start(measurements, isWanted) {
      plan = measurements;
      const count = measurements.flatMap(({ names }) => names).filter(isWanted).length;
      const duration = durationOf(secondsOf(measurements));
      tell(`${bench}: ${countOf(count, "row")}, about ${duration}. Ctrl-C ends it.`);
      const { cpu, cores, kernels } = machine();
      tell(`on ${countOf(cores, "core")} of ${cpu}, with kernels for ${kernels}`);
    },
    begin(index) {
      const [measurement] = plan.slice(index);
      if (!process.stderr.isTTY || measurement === undefined) return;
      const left = durationOf(secondsOf(plan.slice(index)));
      const names = measurement.names.slice(0, 2).join(", ");
      const part = `${index + 1} of ${plan.length}`;
      process.stderr.write(`${clearLine}measuring ${names} (${part}, about ${left} left)`);
    },
    row(row) {
      rows.push(row);
      if (process.stderr.isTTY) process.stderr.write(clearLine);
      for (const line of linesOf(row)) show(line);
      if (json) print(JSON.stringify(row));
    },
    end(isInterrupted) {
      if (process.stderr.isTTY) process.stderr.write(clearLine);
      if (isInterrupted) tell(`${bench}: interrupted after ${countOf(rows.length, "row")}.`);
      const interrupted = isInterrupted ? { interrupted: true } : {};
      if (json) print(JSON.stringify({ bench, machine: machine(), rows, ...interrupted }));
    },
  };
}

/** Escape sequence that clears the current line of a terminal. */
const clearLine = "\r\u001b[K";

export function secondsOf(measurements: readonly Measurement[]): number {
  return measurements.reduce((sum, { seconds }) => sum + seconds, 0);
}

/** For people: `40 s`, `7 min`. */
export function durationOf(seconds: number): string {
  return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

function countOf(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

function linesOf(row: BenchRow): string[] {
  const { limit: bound, limitIs = bound && "the limit" } = row;
  const share = bound === undefined ? "no ratio" : `${percent(row.ratio)} of ${figureOf(bound)}`;
  const limit = limitIs === undefined ? "" : `  ${share} (${limitIs})`;
  const spread = `${figureOf(row.spread[0])} … ${figureOf(row.spread[1])}`;
  const more = [
    row.target && `at least ${percent(row.target[0])}, aim ${percent(row.target[1])}`,
    row.machine && `${percent(row.reached)} of the machine's ${figureOf(row.machine)}`,
    row.times && sharesOf(row.times),
  ].filter((part) => part !== undefined);
  return [
    `${row.name.padEnd(34)} ${figureOf(row.figure)} ${row.unit}  (${spread})${limit}`,
    ...(more.length > 0 ? [`${" ".repeat(35)}${more.join("; ")}`] : []),
  ];
}

/** The machine that measured, for the last JSON line. */
export function machine() {
  openKernels("auto"); // Limits this thread to the sets of OSIRIS_SETS, as each device limits itself.
  return {
    cpu: cpus()[0]?.model ?? "unknown",
    kernels: addonOrigin()?.set ?? "no instruction set: the reference kernels",
    cores: availableParallelism(),
    arch: arch(),
    system: `${systemType()} ${release()}`,
    node: process.version,
  };
}

/** The duration of a step, and the stages that take at least 1 % of it. */
function sharesOf({ stepMs, shares }: StepTimes): string {
  const parts = Object.entries(shares)
    .filter(([, share]) => share >= 0.01)
    .map(([stage, share]) => `${percent(share)} ${stage}`);
  return `a step takes ${figureOf(stepMs)} ms: ${parts.join(", ")}`;
}

function percent(ratio: number | undefined): string {
  return ratio === undefined ? "" : `${Math.round(100 * ratio)} %`;
}
