// What a fuzzer feeds: a reader of input from outside, with valid inputs to change. A reader ends
// with a value, or with an error of the product's own; anything else is a finding.

import { TrainingError } from "../../src/errors/errors.ts";

export interface Target {
  readonly name: string;
  /** Valid inputs, small. Called once; files that it makes go to `home`. */
  seeds(home: string): readonly Uint8Array[] | Promise<readonly Uint8Array[]>;
  /**
   * Where inputs are written values: most cases change the value, and write it with its lengths,
   * hashes and seals made anew, so that the change gets behind them.
   */
  readonly values?: Values;
  /** Makes hashes or lengths of changed bytes right again. */
  mend?(bytes: Uint8Array): Uint8Array;
  /** Reads an input, whole. */
  read(bytes: Uint8Array, home: string): unknown;
  /** Longest time of a case, where it is longer than that of others. */
  readonly caseMsMax?: number;
  /** Errors by which this reader tells its caller that it refuses; all others are named errors. */
  readonly refusals?: readonly (abstract new (
    ...all: never[]
  ) => Error)[];
}

export interface Values {
  /** The value in an input; undefined where there is none. */
  parse(bytes: Uint8Array): unknown;
  write(value: unknown): Uint8Array;
}

export const jsonValues: Values = {
  parse: (bytes) => JSON.parse(Buffer.from(bytes).toString("utf8")),
  write: (value) => Buffer.from(JSON.stringify(value) ?? "null"),
};

/** Errors that are never the fault of an input, also as what an error of ours was caused by. */
const neverOfInput =
  /Invalid array length|typed array length: \d{7}|allocation failed|call stack|heap|string length/i;

/** Whether the target may end with this error. */
export function isRefusal({ refusals = [] }: Target, error: unknown): boolean {
  if (!(error instanceof TrainingError) && !refusals.some((one) => error instanceof one)) {
    return false;
  }
  for (let one: unknown = error; one instanceof Error; one = one.cause) {
    if (one.name === "AssertionError") return false;
    if (one instanceof RangeError && neverOfInput.test(one.message)) return false;
  }
  return true;
}
