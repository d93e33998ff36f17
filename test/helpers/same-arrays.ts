// Large arrays that have to be the same. `t.deepEqual` sorts the names of all their elements: a
// second for a hundred thousand of them.

import type { ExecutionContext } from "ava";

/** Arrays, or lists of them, and so on. */
type Arrays = ArrayBufferView | number | bigint | string | undefined | readonly Arrays[];

/** Asserts what `t.deepEqual` does; where the arrays differ, it is asked, and shows how. */
export function sameArrays(
  t: ExecutionContext,
  actual: Arrays,
  expected: Arrays,
  message?: string,
): void {
  if (areSame(actual, expected)) t.pass();
  else t.deepEqual(actual, expected, message);
}

/** Typed arrays are the same by their types and bytes, numbers by their bits, as ava has it. */
function areSame(a: Arrays, b: Arrays): boolean {
  if (ArrayBuffer.isView(a) && ArrayBuffer.isView(b)) {
    return a.constructor === b.constructor && bytesOf(a).equals(bytesOf(b));
  }
  if (!Array.isArray(a) || !Array.isArray(b)) return Object.is(a, b);
  return a.length === b.length && a.every((own, i) => areSame(own, b[i]));
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
