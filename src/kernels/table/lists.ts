// Converts tables, rules and completed sums to arguments of the addon: typed arrays and numbers, in
// the order of native/bindings/arguments.h.

import { lookupsFrom, type RowRule, type RowSums, type Rows } from "../contract/kernels.ts";
import type { WirePrecision } from "../contract/precision.ts";
import { ruleKinds, ruleNumbers } from "../contract/rules.ts";
import type { Subtree } from "../contract/slices.ts";
import type { UndoneTile } from "../contract/undo.ts";
import { valuesOf as data } from "../reference/memory.ts";

/** The order of `Precision` in native/kernels.h. */
export const precisions: readonly WirePrecision[] = [
  "float32",
  "float16",
  "bfloat16",
  "int8",
  "float8e4m3",
  "float8e5m2",
];

const unnamed = new Int32Array();

/** Cached lists by table or list of tables, as every step needs the same lists. */
const lists = new WeakMap<Rows | readonly Rows[], readonly unknown[]>();

/** The addon's arguments for a table or a list of tables, cached. */
export function listed(tables: Rows | readonly Rows[]): readonly unknown[] {
  const known = lists.get(tables) ?? listTables("dim" in tables ? [tables] : tables);
  lists.set(tables, known);
  return known;
}

/** Lists of arrays, and twelve numbers for each table. */
function listTables(tables: readonly Rows[]): unknown[] {
  const numbers = new Int32Array(12 * tables.length);
  tables.forEach(({ rows, dim, state, pooling, rowBlocks, blockRows, precision, ...tile }, t) => {
    const isMean = pooling === "mean" ? 1 : 0;
    const code = precisions.indexOf(precision);
    const shape = [rows, dim, state.shape[1] ?? 0, isMean, rowBlocks, code];
    const { firstRow, firstColumn, tableDim } = tile;
    const own = [blockRows, firstRow, firstColumn, tableDim];
    const isNext = t > 0 && tile.touched === tables[t - 1]?.touched;
    const next = [isNext ? 0 : lookupsFrom(tables, t), tile.averaged ? 1 : 0];
    numbers.set([...shape, ...own, ...next], 12 * t);
  });
  const weights = tables.map((rows) =>
    rows.precision === "float32" ? data(rows.weights) : rows.codes,
  );
  const states = tables.map((rows) => data(rows.state));
  const touched = tables.map((rows) => rows.touched);
  const rest = tables.flatMap(({ exponents, names }) => [exponents, names ?? unnamed]);
  return [weights, states, touched, rest, numbers];
}

const none = new Float32Array();

/** Means and trust ratios of each table; empty arrays where there are none. */
export function listCompleted(completed: readonly (RowSums | undefined)[]): Float32Array[][] {
  return [
    completed.map((sums) => sums?.means ?? none),
    completed.map((sums) => sums?.trust ?? none),
  ];
}

type RuleNumber = (typeof ruleNumbers)[number];

/** The numbers of a rule, or of a list of rules: most steps use the objects of the step before. */
const numbersOf = new WeakMap<RowRule | readonly RowRule[], Float64Array>();

/** The numbers of each rule: kind, parameters, average, rounding, as native/rule.h reads them. */
export function listRules(rules: RowRule | readonly RowRule[]): Float64Array {
  const known = numbersOf.get(rules) ?? listNumbers("kind" in rules ? [rules] : rules);
  numbersOf.set(rules, known);
  return known;
}

function listNumbers(rules: readonly RowRule[]): Float64Array {
  const width = 7 + ruleNumbers.length;
  const numbers = new Float64Array(width * rules.length);
  for (let i = 0; i < rules.length; i++) {
    const rule: RowRule & { readonly [name in RuleNumber]?: number | undefined } = rules[i]!;
    let at = width * i;
    if (i > 0 && rule === rules[i - 1]) {
      numbers.copyWithin(at, at - width, at); // Most tables have the rule of the table before.
      continue;
    }
    numbers[at++] = ruleKinds.indexOf(rule.kind);
    for (const name of ruleNumbers) numbers[at++] = rule[name] ?? 0;
    numbers[at++] = rule.average?.decay ?? 0;
    numbers[at++] = rule.average?.steps ?? 0;
    if (rule.rounding === undefined) continue;
    const { key, purpose, step } = rule.rounding;
    numbers[at++] = key[0];
    numbers[at++] = key[1];
    numbers[at++] = purpose >>> 0;
    numbers[at] = step >>> 0;
  }
  return numbers;
}

/** Cached numbers by list of subtrees, as every fold of a placement has the same list. */
const treesOf = new WeakMap<readonly Subtree[], Int32Array>();

/** The first slice and the number of slices of each subtree, cached. */
export function listTrees(trees: readonly Subtree[]): Int32Array {
  const known = treesOf.get(trees);
  if (known !== undefined) return known;
  const numbers = new Int32Array(trees.flatMap(({ first, count }) => [first, count]));
  treesOf.set(trees, numbers);
  return numbers;
}

/** Cached lists by list of tiles, as every step changes the same tiles. */
const undone = new WeakMap<readonly UndoneTile[], readonly unknown[]>();

/**
 * The addon's arguments for tiles whose rows change, cached: their bits, all their arrays, and for
 * each tile its number, its number of arrays, and the bytes of a row in each.
 */
export function listUndone(tiles: readonly UndoneTile[]): readonly unknown[] {
  const known = undone.get(tiles) ?? [
    tiles.map(({ seen }) => seen),
    tiles.flatMap(({ arrays }) => arrays),
    Int32Array.from(tiles.flatMap(({ tile, rowBytes }) => [tile, rowBytes.length, ...rowBytes])),
  ];
  undone.set(tiles, known);
  return known;
}
