// Measured costs, and their conversion to samples for the training of cost networks: a random tenth
// is for validation, and a random tenth for the test.

import { type CostTable, purposes, RandomStream } from "../../../internal.ts";
import { type Standard, standardised } from "../search/features.ts";

/** Measured cost of lookup and update of some tables on one device. */
export interface ComputeCost {
  readonly tables: readonly CostTable[];
  readonly milliseconds: number;
}

/** Measured cost of an all-to-all; each list has a number for each device. */
export interface ExchangeCost {
  /** Columns of all tables of a device. */
  readonly columns: readonly number[];
  /** Milliseconds by which a device begins late. */
  readonly late: readonly number[];
  /** Milliseconds of the forward exchange of pooled vectors, without the lateness. */
  readonly forward: readonly number[];
  /** Milliseconds of the backward exchange of gradients. */
  readonly backward: readonly number[];
}

/** The measurements of one machine and number of devices. */
export interface MeasuredCosts {
  readonly devices: number;
  /** Hosts that the devices are spread over evenly. @default 1 */
  readonly hosts?: number;
  /** Samples of a step, over all devices. */
  readonly batchSize: number;
  readonly compute: readonly ComputeCost[];
  readonly exchange: readonly ExchangeCost[];
}

/** Samples split into training, validation and test. */
export interface Parts<T> {
  readonly train: readonly T[];
  readonly valid: readonly T[];
  readonly test: readonly T[];
}

/** Splits samples at random into eight tenths, one tenth and one tenth. */
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

/** Inputs and expected outputs of a network. */
export interface NetworkSample {
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

/**
 * Converts a set of at most `tablesMax` tables, with the features `numbersOf`, to inputs of the
 * module (cost-network-model.ts).
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

/** Returns the names of `count` columns. */
export function columnNames(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${name}${i}`);
}

/**
 * Writes samples as CSV with a header. Outputs are divided by `unit`; numbers are rounded to
 * float32.
 */
export function csvOf(samples: readonly NetworkSample[], unit: number): string {
  const [{ inputs, outputs } = { inputs: [], outputs: [] }] = samples;
  const header = [...columnNames("y", outputs.length), ...columnNames("x", inputs.length)];
  const lines = samples.map((sample) => {
    const values = [...sample.outputs.map((value) => value / unit), ...sample.inputs];
    return values.map((value) => String(Math.fround(value))).join(",");
  });
  return `${[header.join(","), ...lines].join("\n")}\n`;
}

/** Returns the standard deviation of the values. */
export function deviationOf(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
}

/** Applies `to` to the samples of each part. */
export function mapped<From, To>(parts: Parts<From>, to: (from: From) => To): Parts<To> {
  const { train, valid, test } = parts;
  return { train: train.map(to), valid: valid.map(to), test: test.map(to) };
}
