// A row of a bench: a figure with its spread, and the limit or peer that was measured in the same
// run; and the statistics that make a row of several rounds.

import type { StepTimes } from "../src/training/meters/step-meter.ts";

export interface BenchRow {
  /** Dotted, from general to specific. Programs rely on names, so they never change. */
  readonly name: string;
  /** The median of the rounds. */
  readonly figure: number;
  readonly unit: string;
  /** The bound that nothing can exceed, or the peer's figure; measured in the same run. */
  readonly limit?: number;
  readonly limitIs?: string;
  /** figure / limit */
  readonly ratio?: number;
  /** The ratio that a release must reach, and the ratio that we aim at. */
  readonly target?: readonly [atLeast: number, aim: number];
  /** In rows with a peer: the machine's own limit (step-limit.ts), and figure / machine. */
  readonly machine?: number;
  readonly reached?: number;
  /** The stages of a step in the last round. */
  readonly times?: StepTimes | undefined;
  /** 10th and 90th percentile. */
  readonly spread: readonly [number, number];
}

/**
 * Median, 10th and 90th percentile. Quantiles are interpolated between values: the median of an
 * even count is the mean of the middle two, so that two rounds do not report the better one.
 */
export function quantiles(values: readonly number[]): { median: number; spread: [number, number] } {
  const at = quantileOf(values);
  return { median: at(0.5), spread: [at(0.1), at(0.9)] };
}

/** Returns a function from a share of the values to their quantile; NaN without values. */
export function quantileOf(values: readonly number[]): (share: number) => number {
  const sorted = [...values].sort((a, b) => a - b);
  return (share) => {
    const place = share * (sorted.length - 1);
    const below = sorted[Math.floor(place)] ?? Number.NaN;
    const above = sorted[Math.ceil(place)] ?? Number.NaN;
    return below + (place - Math.floor(place)) * (above - below);
  };
}

/** The mean of the values; NaN without values. */
export function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Makes a row of several values: its figure is their mean, and it has their spread. */
export function meanRow(name: string, values: readonly number[], unit: string): BenchRow {
  return { name, figure: meanOf(values), unit, spread: quantiles(values).spread };
}

/**
 * A row of the rounds of ours and of the limit; without a limit if that could not be measured (0).
 */
export function rowOf(
  named: Pick<BenchRow, "name" | "unit" | "limitIs" | "target">,
  ours: readonly number[],
  limits: readonly number[],
): BenchRow {
  const { name, unit, limitIs, target } = named;
  const { median, spread } = quantiles(ours);
  const limit = quantiles(limits).median;
  const row = { name, figure: median, unit, spread, ...(limitIs !== undefined && { limitIs }) };
  if (!(limit > 0)) return row;
  return { ...row, limit, ratio: median / limit, ...(target !== undefined && { target }) };
}

/** A figure for people, with three digits or more. */
export function figureOf(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(3);
}

/** Units a second of the fastest call within `seconds`, where a call does `work` units. */
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

/** Spearman's rank correlation of two lists. */
export function rankCorrelation(a: readonly number[], b: readonly number[]): number {
  const placesOf = (values: readonly number[]) => {
    const sorted = [...values].sort((x, y) => x - y);
    return values.map((value) => sorted.indexOf(value));
  };
  const [placesA, placesB] = [placesOf(a), placesOf(b)];
  const squares = placesA.reduce((sum, place, i) => sum + (place - (placesB[i] ?? 0)) ** 2, 0);
  return 1 - (6 * squares) / (a.length * (a.length ** 2 - 1));
}
