// The linear part of the costs of sets of tables: what of them adds up from table to table is
// fitted by least squares, so that a network is trained with what is left alone. A thousand samples
// are enough for the one, and a search that looks for what a network underrates finds little in
// the other. Both become layers of one network, which a plan is costed by as by any other.
//
// F = numbers of a table, H = outputs of the first layer, E = columns of a table's vector.

import type { CostLayer } from "../../src/planner/learned/cost-networks.ts";

/** Milliseconds of a set: those of each table, `weight` x + `ofTable`, and `ofSet`. */
export interface LinearPart {
  /** (F) of standardised numbers. */
  readonly weight: readonly number[];
  readonly ofTable: number;
  readonly ofSet: number;
}

/** A set of tables, each by its standardised numbers, and what it was measured to cost. */
export interface LinearSample {
  readonly tables: readonly (readonly number[])[];
  readonly milliseconds: number;
}

/** What the sum of squares grows by for a weight of 1, as a share of the largest square. */
const ridge = 1e-6;

/**
 * Fitted to errors that are relative, but for sets that cost less than a tenth of the mean: those
 * are mostly what a measurement costs.
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
  const largest = normal.reduce((most, row, i) => Math.max(most, row[i] ?? 0), 0);
  for (const [i, row] of normal.entries()) row[i] = (row[i] ?? 0) + ridge * largest;
  const solved = solve(normal);
  const [ofTable = 0, ofSet = 0] = solved.splice(width - 2);
  return { weight: solved, ofTable, ofSet };
}

/** The milliseconds of a set. */
export function linearCost(
  { weight, ofTable, ofSet }: LinearPart,
  tables: LinearSample["tables"],
): number {
  return tables.reduce((sum, table) => {
    return sum + table.reduce((own, value, i) => own + value * (weight[i] ?? 0), ofTable);
  }, ofSet);
}

/** Gauss' elimination of equations with a positive matrix; a row has its right side last. */
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
 * The network whose answers are those of these layers, and the linear part. ReLUs pass what is
 * positive: a number and its negative go side by side.
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

/** What a row adds of the inputs that are new, or of all inputs where none is. */
interface Row {
  readonly row: readonly number[];
  readonly bias: number;
}

/** The layer with more rows, and `added` inputs more, which the rows that it has leave alone. */
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

/** The last layer, whose one output is what it was, and what the pair carries. */
function ended({ weight, bias, relu }: CostLayer, pair: readonly number[], ofSet: number) {
  return {
    weight: Float32Array.from([...weight, ...pair]),
    bias: bias.map((value) => value + ofSet),
    relu,
  };
}
