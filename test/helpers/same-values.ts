// Compares many values. `t.deepEqual` sorts the names of all elements of an array: that takes a
// second for a hundred thousand elements.

import { isDeepStrictEqual } from "node:util";
import type { ExecutionContext } from "ava";

/** Asserts the same as `t.deepEqual`, which is called only to show a difference. */
export function sameValues<Value>(
  t: ExecutionContext,
  actual: Value,
  expected: Value,
  message?: string,
): void {
  if (isDeepStrictEqual(actual, expected))
    t.pass(); // AVA fails a test without an assertion.
  else t.deepEqual(actual, expected, message);
}
