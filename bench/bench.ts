// The interface of a bench: rows whose names are known before anything is measured, how long each
// takes, and the function that measures them.

import { InvalidArgumentError, Option } from "commander";
import type { BenchRow } from "./row.ts";

export interface Bench<Options extends object = object> {
  readonly question: string;
  readonly options: readonly Option[];
  /** Options that `--full` sets, for a long run where the default is a short one. */
  readonly full?: Partial<Options>;
  /** The measurements in their order. Cheap: measures nothing itself. */
  measurements(options: Options): readonly Measurement[];
}

/** The rows that one part of a bench measures together. */
export interface Measurement {
  readonly names: readonly string[];
  /** Estimated duration of the whole measurement on two cores. */
  readonly seconds: number;
  /** Yields each row as soon as its figure is known; may skip rows that `isWanted` rejects. */
  measure(isWanted: (name: string) => boolean): AsyncIterable<BenchRow>;
}

/** A measurement of one row. */
export function single(
  name: string,
  seconds: number,
  measure: () => BenchRow | Promise<BenchRow>,
): Measurement {
  return together([name], seconds, async () => [await measure()]);
}

/** A measurement of rows that take turns in the same rounds: all are known only at the end. */
export function together(
  names: readonly string[],
  seconds: number,
  measure: () => readonly BenchRow[] | Promise<readonly BenchRow[]>,
): Measurement {
  return {
    names,
    seconds,
    async *measure() {
      yield* await measure();
    },
  };
}

/**
 * Whether a row is selected: its name begins with one of the patterns, in which `*` stands for any
 * characters. Without patterns, all rows are.
 */
export function wantedBy(patterns: readonly string[]): (name: string) => boolean {
  const literal = (text: string) => text.replace(/[.+?^${}()|[\]\\]/g, "\\$&");
  const beginnings = patterns.map((pattern) => {
    return new RegExp(`^${pattern.split("*").map(literal).join(".*")}`);
  });
  return (name) => beginnings.length === 0 || beginnings.some((one) => one.test(name));
}

/** The measurements with at least one selected row. */
export function narrowed(
  measurements: readonly Measurement[],
  patterns: readonly string[],
): readonly Measurement[] {
  const isWanted = wantedBy(patterns);
  return measurements.filter(({ names }) => names.some(isWanted));
}

/** Parses an option that is a count of at least 1. */
export function positive(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1)
    throw new InvalidArgumentError("Expected an integer >= 1.");
  return value;
}

/** An option with an integer >= 1, which is `usual` where it is left out. */
export function positiveOption(flags: string, description: string, usual: number): Option {
  return new Option(flags, description).argParser(positive).default(usual);
}

/** Parses an option that may be a fraction, or 0. */
export function notNegative(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < 0)
    throw new InvalidArgumentError("Expected a number >= 0.");
  return value;
}
