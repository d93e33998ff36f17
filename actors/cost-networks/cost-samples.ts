// Measured costs, and the samples that they become for the training of cost networks: a tenth is
// for validation, a tenth for the test, as the seed deals them.

import type { CostTable } from "../../src/planner/cost-table.ts";
import { type Standard, standardised } from "../../src/planner/learned/features.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";

/** Lookup and update of some tables on one device, as they were measured. */
export interface ComputeCost {
  readonly tables: readonly CostTable[];
  readonly milliseconds: number;
}

/** An all-to-all as it was measured; each list has a number for each device. */
export interface ExchangeCost {
  /** Columns of all its tables. */
  readonly columns: readonly number[];
  /** Milliseconds by which it begins late. */
  readonly late: readonly number[];
  /** Milliseconds of pooled vectors to their samples, the lateness apart. */
  readonly forward: readonly number[];
  /** Milliseconds of gradients back to the tables. */
  readonly backward: readonly number[];
}

/** What was measured of one machine and number of devices. */
export interface MeasuredCosts {
  readonly devices: number;
  /** That the devices are spread over evenly. @default 1 */
  readonly hosts?: number;
  /** Samples of a step, over all devices. */
  readonly batchSize: number;
  readonly compute: readonly ComputeCost[];
  readonly exchange: readonly ExchangeCost[];
}

/** The parts of some samples. */
export interface Parts<T> {
  readonly train: readonly T[];
  readonly valid: readonly T[];
  readonly test: readonly T[];
}

/** Deals samples to the parts: eight tenths, one and one. */
export function partsOf<T>(samples: readonly T[], seed: number): Parts<T> {
  const random = new RandomStream(seed, purposes.costSamples);
  const all = [...samples];
  for (let i = all.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [all[i], all[j]] = [all[j] as T, all[i] as T];
  }
  const tenth = Math.floor(all.length / 10);
  const cut = all.length - 2 * tenth;
  return {
    train: all.slice(0, cut),
    valid: all.slice(cut, cut + tenth),
    test: all.slice(cut + tenth),
  };
}

/** What a network is told and is to answer. */
export interface NetworkSample {
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

/**
 * A set of at most `tablesMax` tables, each as `numbersOf` tells it, as inputs of the module
 * (cost-network-model.ts).
 */
export function setSample(
  { tables, milliseconds }: ComputeCost,
  tablesMax: number,
  numbersOf: (table: CostTable) => readonly number[],
  standard: Standard,
): NetworkSample {
  const rows = tables.map((table) => standardised(numbersOf(table), standard));
  const missing = tablesMax - tables.length;
  const zeros = new Array<number>(missing * standard.mean.length).fill(0);
  const present = [
    ...new Array<number>(tables.length).fill(1),
    ...new Array<number>(missing).fill(0),
  ];
  return { inputs: [...rows.flat(), ...zeros, ...present], outputs: [milliseconds] };
}

/** The names of so many columns. */
export function columnNames(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${name}${i}`);
}

/** Samples as lines with a header, every output divided by `unit`; numbers are float32. */
export function csvOf(samples: readonly NetworkSample[], unit: number): string {
  const [{ inputs, outputs } = { inputs: [], outputs: [] }] = samples;
  const header = [...columnNames("y", outputs.length), ...columnNames("x", inputs.length)];
  const lines = samples.map((sample) => {
    const values = [...sample.outputs.map((value) => value / unit), ...sample.inputs];
    return values.map((value) => String(Math.fround(value))).join(",");
  });
  return `${[header.join(","), ...lines].join("\n")}\n`;
}

/** The deviation of all of the values. */
export function deviationOf(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
}

/** The parts with each sample as what it becomes. */
export function mapped<From, To>(parts: Parts<From>, to: (from: From) => To): Parts<To> {
  const { train, valid, test } = parts;
  return { train: train.map(to), valid: valid.map(to), test: test.map(to) };
}
