// Building blocks of the cases of the kernels' suite.

import type { ExecutionContext } from "ava";
import {
  type Bags,
  bagsFrom,
  type Kernels,
  lookupsFrom,
  type RowRule,
  type Rows,
  type Tensor,
} from "../../src/kernels/contract/kernels.ts";
import type { RandomStream } from "../../src/ports/random.ts";

/** Test bodies by title, for any kernels. */
export type Cases = Readonly<Record<string, (t: ExecutionContext, kernels: Kernels) => void>>;

/** A tensor of this shape with these values. */
export function of(kernels: Kernels, shape: readonly number[], values: readonly number[]): Tensor {
  const t = kernels.tensor(shape);
  kernels.write(t, Float32Array.from(values));
  return t;
}

/** The values of a tensor, as an array. */
export function list(kernels: Kernels, t: Tensor): number[] {
  return [...kernels.read(t)];
}

/** Asserts equality within rounding errors. */
export function near(
  t: ExecutionContext,
  actual: readonly number[],
  expected: readonly number[],
): void {
  const differences = actual.map((value, i) => Math.abs(value - (expected[i] ?? Number.NaN)));
  t.true(
    actual.length === expected.length && differences.every((difference) => difference < 2e-6),
    `[${actual}], expected [${expected}]`,
  );
}

/** A table whose row r is [r+1, 10*(r+1)], with the bags of three samples. */
export function smallTable(
  kernels: Kernels,
  pooling: "sum" | "mean",
  rowBlocks: number,
): { rows: Rows; bags: Bags } {
  const rows = kernels.rows({ rows: 4, dim: 2, pooling, rowBlocks, stateWidth: 1 });
  kernels.write(rows.weights, Float32Array.of(1, 10, 2, 20, 3, 30, 4, 40));
  // Sample 0: empty. Sample 1: the last row, a repeated row, and another. Sample 2: row 0.
  const bags = {
    tables: 1,
    samples: 3,
    offsets: Int32Array.of(0, 0, 4, 5),
    ids: Int32Array.of(3, 1, 1, 0, 0),
  };
  return { rows, bags };
}

/** The lookups of one table from `at`, its first lookup, on; and their first column. */
export function lookupsAt(
  all: {
    readonly tables: readonly Rows[];
    readonly bags: Bags;
    readonly rules: readonly RowRule[];
  },
  at: number,
) {
  const count = lookupsFrom(all.tables, at);
  return {
    tables: all.tables.slice(at, at + count),
    bags: bagsFrom(all.bags, at, count),
    rules: all.rules.slice(at, at + count),
    first: all.tables.slice(0, at).reduce((sum, { dim }) => sum + dim, 0),
  };
}

/** The period of long lists of random numbers: a prime, so that no rows of a table are alike. */
const drawnMax = 4099;

/** Random numbers in -1..1, some of them exactly 0. */
export function numbers(stream: RandomStream, count: number): Float32Array {
  const drawn = new Float32Array(count);
  for (let i = 0; i < Math.min(count, drawnMax); i++) {
    const u = 2 * stream.uniform() - 1;
    drawn[i] = Math.abs(u) < 0.02 ? 0 : u;
  }
  for (let at = drawnMax; at < count; at *= 2) drawn.copyWithin(at, 0, at);
  return drawn;
}

/** A tensor of random numbers of this shape. */
export function random(kernels: Kernels, stream: RandomStream, shape: readonly number[]): Tensor {
  const t = kernels.tensor(shape);
  kernels.write(t, numbers(stream, kernels.read(t).length));
  return t;
}
