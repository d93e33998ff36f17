// Many values that have to be the same. `t.deepEqual` sorts the names of all elements of an array:
// it takes a second for a hundred thousand of them.

import { isDeepStrictEqual } from "node:util";
import type { ExecutionContext } from "ava";

/** Asserts what `t.deepEqual` does; where values differ, it is asked, and shows how. */
export function sameValues<Value>(
  t: ExecutionContext,
  actual: Value,
  expected: Value,
  message?: string,
): void {
  if (isDeepStrictEqual(actual, expected))
    t.pass(); // ava fails a test without an assertion.
  else t.deepEqual(actual, expected, message);
}
