// Assertions of the table of kernels. Messages are built only on failure, so that steps produce no
// garbage.

import assert from "node:assert/strict";
import type { Tensor } from "../contract/kernels.ts";
import type { Slices } from "../contract/slices.ts";
import { valuesOf } from "../reference/memory.ts";

/** Number of elements of a tensor. */
export function size(t: Tensor): number {
  return valuesOf(t).length;
}

/** Asserts that `t` has `expected` elements. */
export function holds(name: string, t: Tensor, expected: number): void {
  const actual = size(t);
  if (actual === expected) return;
  assert.fail(
    `Expected ${name} (${t.shape.join(",")}) to hold ${expected} elements, not ${actual}`,
  );
}

/** Asserts that the range first .. first+count is within 0..end. */
export function within(name: string, first: number, count: number, end: number): void {
  const fits = Number.isInteger(first) && Number.isInteger(count) && first >= 0 && count >= 0;
  if (fits && first + count <= end) return;
  assert.fail(`Expected ${name} to lie within 0..${end}, got ${count} from ${first}`);
}

/** The columns of a tensor (B, ·); 0 where it has no samples. */
export function columns(name: string, t: Tensor): number {
  const samples = t.shape[0] ?? 0;
  if (samples === 0) return 0;
  if (size(t) % samples === 0) return size(t) / samples;
  assert.fail(`Expected ${name} to have whole rows, got ${t.shape.join(",")}`);
}

/** Asserts that slices cover `samples` samples, in order. Costs time per slice, not per sample. */
export function covers(slices: Slices, samples: number): void {
  const { first, bounds } = slices;
  const count = bounds.length - 1;
  assert(count >= 1 && first >= 0, `Expected at least one slice, got ${count} from ${first}`);
  assert(bounds[0] === 0 && bounds[count] === samples, `Expected slices of ${samples} samples`);
  for (let i = 0; i < count; i++) assert(bounds[i]! <= bounds[i + 1]!, "Slices overlap");
}

/** Whether a count is 1, 2, 4 ... */
export function isPowerOfTwo(count: number): boolean {
  return count >= 1 && Number.isInteger(Math.log2(count));
}
