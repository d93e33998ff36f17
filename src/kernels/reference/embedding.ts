// Embedding bags in plain loops: pooling, and the exact update of each touched row.

import assert from "node:assert/strict";
import type { AdamRule, Bags, Kernels, RowRule, Rows, Tensor } from "../contract/kernels.ts";
import { lookupsFrom, quantumColumns, ruleStateIn } from "../contract/kernels.ts";
import { decodeRow, encodeRow } from "../contract/precision.ts";
import { lagShare, type RowAverage } from "../contract/row-average.ts";
import { finishedSubtrees } from "../contract/slices.ts";
import { expectedSums } from "../table/sums.ts";
import { HostTensor, type Values, valuesOf } from "./memory.ts";
import { allFinite, createApplyFlat } from "./optimizers.ts";
import type { Round } from "./round.ts";
import { columnsOf, eachRow, gradientsOf, narrowBags } from "./row-gradients.ts";
import {
  applyRule,
  clipped,
  type Known,
  quantumNorms,
  quantumSquares,
  type RowAt,
} from "./rules.ts";

/**
 * The embedding half of the reference kernels, and the dense optimizers: both use the same rules.
 * `allocate` returns zeroed scratch memory.
 */
export function createEmbedding(round: Round, allocate: (length: number) => Values) {
  const update = (rows: Rows, at: RowAt, row: number, rule: RowRule, known?: Known): boolean => {
    const { average } = rule;
    const weights = at.weights.subarray(at.weightsAt, at.weightsAt + rows.dim);
    const before = average && weights.slice();
    applyRule(round, at, rule, known);
    rows.touched[row] = 1;
    if (rows.precision !== "float32") encodeRow(rows, row, weights, rule.rounding);
    const state = stateOf(rows, row);
    if (average && before) moveLag(round, state, before, storedWeights(rows, row), average);
    return allFinite(weights) && allFinite(state);
  };
  return {
    pool: (out, tables, bags, first, count, average) =>
      pool(round, out, tables, bags, { first, count, average }),

    poolAt(out, tables, bags, places) {
      const width = columnsOf(tables);
      places.forEach((place, i) => {
        const one = new HostTensor([1, width], valuesOf(out).subarray(i * width, (i + 1) * width));
        pool(round, one, tables, bags, { first: place, count: 1 });
      });
    },

    collidingBags(out, tables, next, current) {
      let count = 0;
      for (let first = 0; first < tables.length; first += lookupsFrom(tables, first)) {
        const end = first + lookupsFrom(tables, first);
        const idsOf = ({ samples, offsets, ids }: Bags<Int32Array>, from: number, to: number) =>
          ids.subarray(offsets[from * samples], offsets[to * samples]);
        const rows = new Set(idsOf(current, first, end));
        for (let bag = first * next.samples; bag < end * next.samples; bag++) {
          const own = next.ids.subarray(next.offsets[bag], next.offsets[bag + 1]);
          if (own.some((row) => rows.has(row))) out[count++] = bag;
        }
      }
      return count;
    },

    updateRows(tables, bags, dPooled, slices, rules, completed) {
      let firstBad = -1;
      const d = { dPooled, first: 0, width: columnsOf(tables) };
      const own = { tables, bags };
      const distinct = eachRow(round, allocate, own, d, slices, (table, row, gradient, index) => {
        const [rows, rule] = [tables[table]!, rules[table]!];
        const { means, trust } = completed?.[table] ?? {};
        const known = { mean: means?.[index], trust: trust?.[index] };
        const good = update(rows, rowAt(round, rows, row, gradient, rule), row, rule, known);
        if (firstBad < 0 && !good) firstBad = table;
      });
      for (const [table, rows] of distinct) {
        for (const sums of [completed?.[table]?.means, completed?.[table]?.trust]) {
          const isEach = sums === undefined || sums.length === 0 || sums.length === rows;
          assert(isEach, expectedSums(rows, sums?.length ?? 0));
        }
      }
      return firstBad;
    },

    rowSquares(tables, bags, dPooled, first, slices, rules, counts) {
      const squares: number[] = [];
      const d = { dPooled, first, width: dPooled.shape[1]! };
      const own = { tables, bags };
      const distinct = eachRow(round, allocate, own, d, slices, (table, row, gradient) => {
        const at = rowAt(round, tables[table]!, row, gradient, rules[table]!);
        for (let quantum = 0; quantum * quantumColumns < at.columns; quantum++) {
          squares.push(quantumSquares(round, at, rules[table]!.l2, quantum));
        }
      });
      count(counts, distinct, tables, 1);
      return Float32Array.from(squares);
    },

    rowNorms(tables, bags, dPooled, first, slices, rules, means, counts) {
      const norms: number[] = [];
      const d = { dPooled, first, width: dPooled.shape[1]! };
      const own = { tables, bags };
      let index = 0;
      const distinct = eachRow(round, allocate, own, d, slices, (table, row, gradient) => {
        const [rows, rule] = [tables[table]!, rules[table]! as AdamRule];
        const at = rowAt(round, rows, row, gradient, rule);
        // The moments are updated in a copy, as this phase must change nothing.
        const state = at.state.slice(at.stateAt, at.stateAt + ruleStateIn(rows).width);
        const copy = { ...at, state, stateAt: 0, second: state, secondAt: at.columns };
        norms.push(...quantumNorms(round, copy, rule, means?.[index++]));
      });
      count(counts, distinct, tables, 2);
      return Float64Array.from(norms);
    },

    dRows(dRows, counts, tables, bags, dPooled, first, slices) {
      const trees = finishedSubtrees(slices);
      const d = { dPooled, first, width: dPooled.shape[1]! };
      const gradients = gradientsOf(round, allocate, { tables, bags }, d, slices);
      trees.forEach((tree, p) => {
        const [out, mask] = [valuesOf(dRows[p]!), valuesOf(counts[p]!)];
        out.fill(0);
        mask.fill(0);
        gradients(tree, (row, gradient) => {
          out.set(gradient, row * gradient.length);
          mask[row] = 1;
        });
      });
    },

    applyRows(rows, dRows, counts, rule, whole) {
      const [mask, d] = [valuesOf(counts), valuesOf(dRows)];
      let good = true;
      for (let row = 0; row < rows.rows; row++) {
        if (!(whole || mask[row]! > 0)) continue;
        const own = d.subarray(row * rows.dim, (row + 1) * rows.dim);
        good = update(rows, rowAt(round, rows, row, own, rule), row, rule) && good;
      }
      return good;
    },

    applyFlat: createApplyFlat(round),
  } satisfies Partial<Kernels>;
}

/** Sets the numbers of sums, `each` for every quantum of a distinct row. */
function count(
  counts: Int32Array | undefined,
  distinct: ReadonlyMap<number, number>,
  tables: readonly Rows[],
  each: number,
): void {
  if (counts === undefined) return;
  for (const [table, rows] of distinct) {
    counts[table] = each * rows * Math.ceil(tables[table]!.dim / quantumColumns);
  }
}

/** The state floats of a row. */
function stateOf({ state }: Rows, row: number): Values {
  const width = state.shape[1] ?? 0;
  return valuesOf(state).subarray(row * width, (row + 1) * width);
}

function storedWeights(rows: Rows, row: number): Values {
  const [weights, at] = weightsOf(rows, row);
  return weights.subarray(at, at + rows.dim);
}

/** Updates a row's lag for a step that changed its weights from `before` to `after`. */
function moveLag(
  round: Round,
  state: Values,
  before: Values,
  after: Values,
  average: RowAverage,
): void {
  const steps = state.length - 1;
  const [share, decay] = [round(lagShare(average, state[steps]!)), round(average.decay)];
  for (let c = 0; c < before.length; c++) {
    state[c] = round.fused(round(share * state[c]!), decay, round(before[c]! - after[c]!));
  }
  state[steps] = average.steps;
}

/** The moving average of a row. */
function averageOf(round: Round, rows: Rows, row: number, average: RowAverage): Values {
  const lags = stateOf(rows, row);
  const share = round(lagShare(average, lags.at(-1)!));
  return storedWeights(rows, row).map((w, c) => round.fused(w, share, lags[c]!));
}

/** The weights of a row and their offset: in the table's memory, or decoded into new memory. */
function weightsOf(rows: Rows, row: number): [Values, number] {
  if (rows.precision === "float32") return [valuesOf(rows.weights), row * rows.dim];
  const weights = new Float64Array(rows.dim);
  decodeRow(weights, rows, row);
  return [weights, 0];
}

/** Row `row` of a table, with its clipped gradient. */
function rowAt(round: Round, rows: Rows, row: number, gradient: Values, rule: RowRule): RowAt {
  const state = valuesOf(rows.state);
  const stateAt = row * (rows.state.shape[1] ?? 0) + ruleStateIn(rows).first;
  const [weights, weightsAt] = weightsOf(rows, row);
  return {
    weights,
    weightsAt,
    state,
    stateAt,
    second: state,
    secondAt: stateAt + rows.dim,
    gradient: clipped(round, gradient, rule),
    gradientAt: 0,
    columns: rows.dim,
  };
}

function pool(
  round: Round,
  out: Tensor,
  tables: readonly Rows[],
  bags: Bags,
  { first, count, average }: { first: number; count: number; average?: RowAverage | undefined },
): void {
  const o = valuesOf(out);
  const width = columnsOf(tables);
  tables.forEach((rows, table) => {
    const narrow = narrowBags(bags, table, rows);
    const column = columnsOf(tables.slice(0, table));
    for (let s = 0; s < count; s++) {
      const bag = table * bags.samples + first + s;
      const weights = bagWeights(round, rows, narrow, bag, average);
      for (let c = 0; c < rows.dim; c++) {
        o[s * width + column + c] = poolColumn(round, rows, weights, narrow, bag, c);
      }
    }
  });
}

/** Returns the weights of a bag's row by its index in `ids`. */
type BagWeights = (place: number) => [Values, number];

function bagWeights(
  round: Round,
  rows: Rows,
  bags: Bags<Int32Array>,
  bag: number,
  average: RowAverage | undefined,
): BagWeights {
  const [from, to] = [bags.offsets[bag]!, bags.offsets[bag + 1]!];
  const found = Array.from(bags.ids.subarray(from, to), (row): [Values, number] =>
    average ? [averageOf(round, rows, row, average), 0] : weightsOf(rows, row),
  );
  return (place) => found[place - from]!;
}

/** Pools a column: a tree over blocks of `blockRows` rows, each block a sum in bag order. */
function poolColumn(
  round: Round,
  rows: Rows,
  weightsAt: BagWeights,
  bags: Bags<Int32Array>,
  bag: number,
  c: number,
): number {
  const sums = new Float64Array(rows.rowBlocks);
  const [from, to] = [bags.offsets[bag]!, bags.offsets[bag + 1]!];
  for (let k = from; k < to; k++) {
    const block = Math.floor(bags.ids[k]! / rows.blockRows);
    const weight = bags.weights?.[k] ?? 1;
    const [weights, first] = weightsAt(k);
    sums[block] = round.fused(sums[block]!, weight, weights[first + c]!);
  }
  for (let half = 1; half < rows.rowBlocks; half *= 2) {
    for (let block = 0; block < rows.rowBlocks; block += 2 * half) {
      sums[block] = round(sums[block]! + sums[block + half]!);
    }
  }
  return rows.pooling === "mean" && to > from ? round(sums[0]! / (to - from)) : sums[0]!;
}
