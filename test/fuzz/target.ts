// A target of the fuzzer: a reader of external input, with valid inputs to mutate. A reader must
// end with a value or a named error of the product; anything else is a finding.

import { TrainingError } from "../../src/errors/errors.ts";

export interface Target {
  readonly name: string;
  /** Small valid inputs. Called once; its files go to `home`. */
  seeds(home: string): readonly Uint8Array[] | Promise<readonly Uint8Array[]>;
  /**
   * For inputs that encode a value: most cases mutate the value, and encode it with new lengths,
   * hashes and seals, so that the mutation passes these checks.
   */
  readonly values?: Values;
  /** Corrects hashes or lengths of mutated bytes. */
  mend?(bytes: Uint8Array): Uint8Array;
  /** Reads an input completely. */
  read(bytes: Uint8Array, home: string): unknown;
  /** Maximum time of a case, if it is longer than the session's. */
  readonly caseMsMax?: number;
  /** Further errors by which this reader refuses an input, besides the product's named errors. */
  readonly refusals?: readonly (abstract new (
    ...all: never[]
  ) => Error)[];
}

export interface Values {
  /** The value in an input; undefined: it has none. */
  parse(bytes: Uint8Array): unknown;
  write(value: unknown): Uint8Array;
}

export const jsonValues: Values = {
  parse: (bytes) => JSON.parse(Buffer.from(bytes).toString("utf8")),
  write: (value) => Buffer.from(JSON.stringify(value) ?? "null"),
};

/** Messages of errors that are always findings, even as the cause of a named error. */
const neverOfInput =
  /Invalid array length|typed array length: \d{7}|allocation failed|call stack|heap|string length/i;

/** Whether the target may end with this error, so that it is no finding. */
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
