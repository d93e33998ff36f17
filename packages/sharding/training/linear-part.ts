// The linear part of the costs of sets of tables: the part that is additive over tables is fitted
// by least squares, and a network is trained on the residual alone. A thousand samples are enough
// for the linear part, and the residual leaves little for a search to exploit where the network
// underestimates costs. Both become layers of one network, which is used like any other cost
// network.
//
// F = features of a table, H = outputs of the first layer, E = columns of a table's vector.

import type { CostLayer } from "../search/cost-networks.ts";

/**
 * Linear model of the milliseconds of a set: `weight` x + `ofTable` for each table, plus `ofSet`.
 */
export interface LinearPart {
  /** (F): weights of the standardised features. */
  readonly weight: readonly number[];
  readonly ofTable: number;
  readonly ofSet: number;
}

/** A set of tables, each with its standardised features, and the measured cost of the set. */
export interface LinearSample {
  readonly tables: readonly (readonly number[])[];
  readonly milliseconds: number;
}

/**
 * Ridge penalty of the weights, relative to the largest diagonal element of the normal equations.
 */
const ridge = 1e-6;

/**
 * Fits the linear part to relative errors. A tenth of the mean cost is added to each denominator,
 * so that cheap sets, whose cost is mostly the overhead of the measurement, do not dominate.
 */
export function fitLinear(samples: readonly LinearSample[]): LinearPart {
  const mean = samples.reduce((sum, own) => sum + own.milliseconds, 0) / samples.length;
  const width = (samples[0]?.tables[0]?.length ?? 0) + 2;
  const normal = Array.from({ length: width }, () => new Float64Array(width + 1));
  for (const { tables, milliseconds } of samples) {
    const share = 1 / (milliseconds + mean / 10);
    const sums = new Float64Array(width + 1);
    for (const table of tables) {
      for (const [i, value] of table.entries()) sums[i] = (sums[i] ?? 0) + value * share;
    }
    sums.set([tables.length * share, share, milliseconds * share], width - 2);
    for (const [i, row] of normal.entries()) {
      for (const [j, value] of sums.entries()) row[j] = (row[j] ?? 0) + (sums[i] ?? 0) * value;
    }
  }
  const largest = normal.reduce((max, row, i) => Math.max(max, row[i] ?? 0), 0);
  for (const [i, row] of normal.entries()) row[i] = (row[i] ?? 0) + ridge * largest;
  const solved = solve(normal);
  const [ofTable = 0, ofSet = 0] = solved.splice(width - 2);
  return { weight: solved, ofTable, ofSet };
}

/** Predicts the milliseconds of a set. */
export function linearCost(
  { weight, ofTable, ofSet }: LinearPart,
  tables: LinearSample["tables"],
): number {
  return tables.reduce((sum, table) => {
    return sum + table.reduce((own, value, i) => own + value * (weight[i] ?? 0), ofTable);
  }, ofSet);
}

/**
 * Solves equations with a positive definite matrix by Gaussian elimination; the last element of a
 * row is its right-hand side.
 */
function solve(rows: readonly Float64Array[]): number[] {
  for (const [i, row] of rows.entries()) {
    const first = row[i] ?? 1;
    for (const other of rows) {
      if (other === row) continue;
      const times = (other[i] ?? 0) / first;
      for (let j = i; j < other.length; j++) other[j] = (other[j] ?? 0) - times * (row[j] ?? 0);
    }
  }
  return rows.map((row, i) => (row.at(-1) ?? 0) / (row[i] ?? 1));
}

/**
 * Returns the layers of a network whose output is the sum of the given network's output and the
 * linear part. As ReLU only passes positive values, the linear part is carried as a pair: a value
 * and its negative.
 */
export function withLinear(
  { table, head }: { readonly table: readonly CostLayer[]; readonly head: readonly CostLayer[] },
  { weight, ofTable, ofSet }: LinearPart,
): { table: CostLayer[]; head: CostLayer[] } {
  const pair = [1, -1];
  const first = pair.map((sign) => ({ row: weight.map((w) => sign * w), bias: sign * ofTable }));
  const passed = pair.map((_, i) => ({ row: pair.map((_, j) => (i === j ? 1 : 0)), bias: 0 }));
  const between = pair.map((sign) => ({ row: pair.map((own) => own * sign), bias: 0 }));
  const last = head.length - 1;
  return {
    table: table.map((layer, i) => (i === 0 ? wider(layer, first, 0) : wider(layer, passed, 2))),
    head: head.map((layer, i) => {
      if (i === last) return ended(layer, pair, ofSet);
      return wider(layer, i === 0 ? between : passed, 2);
    }),
  };
}

/** A new output row: its weights for the new inputs, or for all inputs if there are no new ones. */
interface Row {
  readonly row: readonly number[];
  readonly bias: number;
}

/** Adds output rows to a layer, and `added` inputs, which the existing rows ignore. */
function wider({ weight, bias, relu }: CostLayer, rows: readonly Row[], added: number): CostLayer {
  const inputs = weight.length / bias.length;
  const old = [...bias.keys()].map((o) => {
    return [...weight.subarray(o * inputs, (o + 1) * inputs), ...new Array(added).fill(0)];
  });
  const before = new Array<number>(added === 0 ? 0 : inputs).fill(0);
  return {
    weight: Float32Array.from([...old, ...rows.map(({ row }) => [...before, ...row])].flat()),
    bias: Float32Array.from([...bias, ...rows.map((own) => own.bias)]),
    relu,
  };
}

/**
 * The last layer: adds the linear part, the difference of the pair plus `ofSet`, to its single
 * output.
 */
function ended({ weight, bias, relu }: CostLayer, pair: readonly number[], ofSet: number) {
  return {
    weight: Float32Array.from([...weight, ...pair]),
    bias: bias.map((value) => value + ofSet),
    relu,
  };
}
