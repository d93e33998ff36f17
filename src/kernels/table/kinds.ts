// The kinds of parameters of kernels that are no tensors: numbers, slices, tables and lookups.

import assert from "node:assert/strict";
import {
  type Bags,
  type PackedAt,
  type RowOrder,
  type RowRule,
  type RowSums,
  type Rows,
  stateWidth,
} from "../contract/kernels.ts";
import { packedBytes, type WirePrecision } from "../contract/precision.ts";
import type { RowAverage } from "../contract/row-average.ts";
import { type Slices, type Subtree, slicesMax } from "../contract/slices.ts";
import { covers, within } from "./asserts.ts";
import type { Context, Kind, Part } from "./describe.ts";
import { listCompleted, listed, listRules, listTrees, precisions } from "./lists.ts";

/** A kind, from its part in a row; `Value`: the type of its arguments. */
function kind<Value>(partOf: (context: Context) => Part<Value>): Kind {
  return partOf;
}

/** A number that is a size of its own name: a whole number from 0. */
const number = (name: string) =>
  kind<number>(({ label }) => ({
    binds: { [name]: (value) => value },
    check: (value) => assert(Number.isInteger(value) && value >= 0, `${label} is ${value}`),
  }));

/** The kinds of parameters that are no tensors, by name. */
export const kinds: Readonly<Record<string, Kind>> = {
  columns: number("columns"),
  count: number("count"),

  /** The first of some elements, which must all lie in a range: `columns<W` are within 0..W. */
  range: kind<number>(({ label, text, sizeOf }) => {
    const [count = "", end = ""] = text.split("<");
    const [countOf, endOf] = [sizeOf(count), sizeOf(end)];
    const elements = `the ${count} from ${label}`;
    return { check: (value) => within(elements, value, countOf(), endOf()) };
  }),

  /** Two words of a random stream's key. */
  key: kind<readonly [number, number]>(() => ({
    native: { count: 2, push: (into, words) => void into.push(words[0], words[1]) },
  })),

  /** Slices of this number of samples or rows; without a size, the number of slices. */
  slices: kind<Slices>(({ text, sizeOf }) => {
    if (text === "") return {};
    const samplesOf = sizeOf(text);
    return {
      check: (value) => covers(value, samplesOf()),
      native: {
        count: 3,
        push: (into, { first, bounds, most = slicesMax }) => void into.push(first, bounds, most),
      },
    };
  }),

  /** A precision of stored or exchanged values; left out: float32. */
  precision: kind<WirePrecision | undefined>(() => ({
    native: {
      count: 1,
      push: (into, name = "float32") => void into.push(precisions.indexOf(name)),
    },
  })),

  /** A power of two; left out: 1 */
  power: kind<number | undefined>(({ label }) => ({
    check: (value = 1) => assert(Number.isInteger(Math.log2(value)), `${label} is ${value}`),
    native: { count: 1, push: (into, value = 1) => void into.push(value) },
  })),

  /** Subtrees of slices. */
  trees: kind<readonly Subtree[]>(() => ({
    native: { count: 1, push: (into, all) => void into.push(listTrees(all)) },
  })),

  /** Packed columns, `samples*columns`, in the precision of the parameter `precision`. */
  packed: kind<PackedAt>(({ label, text, sizeOf, argumentOf }) => {
    const [samplesOf, columnsOf] = text.split("*").map(sizeOf);
    const precisionOf = argumentOf("precision");
    return {
      check({ buffer, byteOffset }, given) {
        const bytes = packedBytes(samplesOf!(), columnsOf!(), precisionOf(given) as WirePrecision);
        assert(byteOffset % 4 === 0, `Expected a multiple of 4 bytes, got ${byteOffset}`);
        within(label, byteOffset, bytes, buffer.byteLength);
      },
      native: {
        count: 1,
        push: (into, { buffer, byteOffset }) => void into.push(new Uint8Array(buffer, byteOffset)),
      },
    };
  }),

  /** The moving average that `pool` reads, or none; given only for tables that have one. */
  average: kind<RowAverage | undefined>(({ argumentOf }) => {
    const tablesOf = argumentOf("tables");
    return {
      check(value, given) {
        const all = tablesOf(given) as readonly Rows[];
        const isKept = value === undefined || all.every(({ averaged }) => averaged);
        assert(isKept, "Expected rows that have a moving average");
      },
      native: { count: 2, push: (into, value) => void into.push(value?.decay, value?.steps) },
    };
  }),

  /** The rows of one table: sizes R and D. */
  rows: kind<Rows>(() => ({
    binds: { R: ({ rows }) => rows, D: ({ dim }) => dim },
    native: { count: 5, push: (into, value) => void into.push(...listed(value)) },
  })),

  /** Lookups in tables: the size `width`, their columns, and R and D of the first. */
  tables: kind<readonly Rows[]>(() => ({
    binds: {
      R: (all) => all[0]?.rows ?? 0,
      D: (all) => all[0]?.dim ?? 0,
      width(all) {
        let sum = 0;
        for (const { dim } of all) sum += dim;
        return sum;
      },
    },
    native: { count: 5, push: (into, all) => void into.push(...listed(all)) },
  })),

  /** The bags of lookups in the parameter `tables`: the size `samples`. */
  bags: kind<Bags>(({ argumentOf }) => {
    const tablesOf = argumentOf("tables");
    return {
      binds: { samples: ({ samples }) => samples },
      check: (value, given) => assertBags(tablesOf(given) as readonly Rows[], value),
      native: {
        count: 3,
        push: (into, { offsets, ids, weights }) => void into.push(offsets, ids, weights),
      },
    };
  }),

  /** The rule of the parameter `rows`. */
  rule: kind<RowRule>(({ argumentOf }) => {
    const rowsOf = argumentOf("rows");
    return {
      check: (value, given) => holdsState(rowsOf(given) as Rows, value),
      native: { count: 1, push: (into, value) => void into.push(listRules(value)) },
    };
  }),

  /** A rule for each entry of the parameter `tables`. */
  rules: kind<readonly RowRule[]>(({ argumentOf }) => {
    const tablesOf = argumentOf("tables");
    return {
      check(all, given) {
        const tables = tablesOf(given) as readonly Rows[];
        if (held.get(tables) === all) return;
        assert.equal(all.length, tables.length, "Expected a rule for every table");
        for (let t = 0; t < all.length; t++) holdsState(tables[t]!, all[t]!);
        held.set(tables, all);
      },
      native: { count: 1, push: (into, all) => void into.push(listRules(all)) },
    };
  }),

  /** Optional memory for the sorted lookups of the parameter `bags`, made for the same ids. */
  order: kind<RowOrder | undefined>(({ argumentOf }) => {
    const bagsOf = argumentOf("bags");
    return {
      check(order, given) {
        if (order === undefined) return;
        const { offsets, ids } = bagsOf(given) as Bags;
        assert(order.ids === ids, "Expected the order of these bags");
        assert(order.lookups.length >= offsets.at(-1)!, "Expected a place for every id");
      },
      native: { count: 1, push: (into, order) => void into.push(order?.lookups) },
    };
  }),

  /** The whole-row sums of each table, or undefined where rows are whole. */
  completed: kind<readonly (RowSums | undefined)[] | undefined>(() => ({
    native: { count: 2, push: (into, sums = []) => void into.push(...listCompleted(sums)) },
  })),
};

/**
 * The list of rules that each list of tables was last checked with. The same lists are not checked
 * again, because a check reads every table's object from memory.
 */
const held = new WeakMap<readonly Rows[], readonly RowRule[]>();

/** Lists of tables whose caches have a name for each place. Neither changes after it was made. */
const named = new WeakSet<readonly Rows[]>();

function assertBags(tables: readonly Rows[], bags: Bags): void {
  const { offsets, ids, weights } = bags;
  assert.equal(bags.tables, tables.length, "Expected bags for every table");
  if (!named.has(tables)) for (const rows of tables) assertNames(rows);
  named.add(tables);
  assert.equal(offsets.length, bags.tables * bags.samples + 1, "Expected T*B+1 offsets");
  assert(offsets[0]! >= 0 && offsets.at(-1)! <= ids.length, "Expected offsets within the ids");
  const weighed = weights === undefined || weights.length >= offsets.at(-1)!;
  assert(weighed, "Expected a weight for every id");
}

/** Asserts that the slots of a cache have one row block, and an entry in `names` for each slot. */
export function assertNames({
  rows,
  rowBlocks,
  names,
}: Pick<Rows, "rows" | "rowBlocks"> & { readonly names?: Int32Array }): void {
  if (names === undefined) return;
  assert(rowBlocks === 1, `Expected one row block of a cache's places, got ${rowBlocks}`);
  assert.equal(names.length, rows, "Expected a name for each place");
}

/** Asserts the state's width: with a narrower state, the rule would write beyond the row. */
function holdsState(rows: Rows, rule: RowRule): void {
  const width = stateWidth(rule.kind, rows.dim, rows.averaged);
  const actual = rows.state.shape[1] ?? 0;
  if (rows.precision !== "float32" && rule.rounding === undefined) {
    assert.fail(`Expected a rounding for rows of ${rows.precision}`);
  }
  assert.equal(rule.average !== undefined, rows.averaged, "Expected an average in both, or none");
  if (actual >= width) return;
  assert.fail(`Expected ${width} state floats a row for ${rule.kind}, got ${actual}`);
}
