// Conditions of kernels on their arguments that shapes do not express. The table (table.ts) names
// the condition of each kernel.
//
// Places and lists are checked one by one, because a wrong place would silently access another row,
// and the check costs little compared with moving the row.

import assert from "node:assert/strict";
import {
  type Kernels,
  lookupsFrom,
  type Rows,
  rowsMax,
  stateShapeOf,
  type Tensor,
  takesMean,
  takesTrust,
} from "../contract/kernels.ts";
import { recordBytesOf } from "../contract/records.ts";
import { cacheWays } from "../contract/row-cache.ts";
import type { Slices } from "../contract/slices.ts";
import { keptArraysMax, undoLineBytes } from "../contract/undo.ts";
import { columns, holds, isPowerOfTwo, size, within } from "./asserts.ts";
import { areOfEachRow, haveSums } from "./sums.ts";

/** A check of all arguments of a kernel. @throws AssertionError where they break its condition */
type Condition<Name extends keyof Kernels> = Kernels[Name] extends (...given: infer All) => unknown
  ? (...given: All) => void
  : never;

/** The rate is a probability below 1. */
export const isRate: Condition<"dropout"> = (_x, _key, _purpose, _step, _first, rate) => {
  assert(rate >= 0 && rate < 1, `Expected a rate in 0..1, 1 excluded, got ${rate}`);
};

/** Of x (B,F,D), `out` has the copied features and, with `dots`, the products of all pairs. */
export const hasInteractions: Condition<"interact"> = (out, x, copied, dots) => {
  const [samples = 0, features = 0, dim = 0] = x.shape;
  within("copied features", 0, copied, features);
  const pairs = dots ? (features * (features - 1)) / 2 : 0;
  holds("interactions", out, samples * (copied * dim + pairs));
};

/** Terms have columns of the logits and labels. There are a loss a slice, and a count a label. */
export const hasTerms: Condition<"loss"> = (...given) => {
  const [losses, , { shape }, labels, terms, , slices, , labelled] = given;
  const [K = 0, L = 0] = [shape[1], labels.shape[1]];
  for (const { logit, target } of terms) {
    assert(logit < K, `Expected a column of ${K} logits, got ${logit}`);
    const columns = target.of === "label" ? L : K;
    assert(target.column < columns, `Expected a target in ${columns}, got ${target.column}`);
  }
  assert.equal(losses.length, slices.bounds.length - 1, "Expected one loss a slice");
  if (labelled !== undefined) assert.equal(labelled.length, L, "Expected a count a label");
};

/** The columns of the values are those of `out`. */
export const areBeside: Condition<"addBeside"> = (out, values) => {
  const rows = out.shape[0] ?? 0;
  let sum = 0;
  for (const value of values) sum += rows * columns("a value", value);
  for (const value of values) holds("a value", value, rows * columns("a value", value));
  holds("out", out, sum);
};

/** `a` and `b` are the factors of out (B,M,N), in the form of the product. */
export const areFactors: Condition<"products"> = (out, a, b, form) => {
  const [samples = 0, rows = 0, width = 0] = out.shape;
  const isShared = a.shape.length === 2;
  assert(isShared || a.shape.length === 3, `Expected a of 2 or 3 dimensions, got (${a.shape})`);
  const depth = depthOf(a, form);
  holds("a", a, (isShared ? 1 : samples) * rows * depth);
  holds("b", b, samples * depth * width);
};

/** The number of terms of each element of a product. */
export function depthOf(a: Tensor, form: Parameters<Kernels["products"]>[3]): number {
  return (form === "aTb" ? a.shape.at(-2) : a.shape.at(-1)) ?? 0;
}

/** Rows that are slots of a cache get their first values by `bornAt`. */
export const hasNoNames: Condition<"born"> = ({ names }) => {
  assert(names === undefined, "Expected `bornAt` for the places of a cache");
};

/** The slices cover the whole batch: they begin with the first, and are a power of two. */
export function areAll({ first, bounds }: Slices): void {
  assert(first === 0 && isPowerOfTwo(bounds.length - 1), "Expected the whole batch");
}

/** The slices cover the whole batch, and each table has the sums that its rule needs. */
export const areUpdated: Condition<"updateRows"> = (tables, ...given) => {
  const [, , slices, rules, completed] = given;
  areAll(slices);
  const count = completed?.length ?? tables.length;
  assert.equal(count, tables.length, "Expected completed sums of every table");
  for (let t = 0; t < tables.length; t += lookupsFrom(tables, t)) {
    haveSums(tables[t]!, rules[t]!, completed?.[t]);
  }
};

/** All entries of the list are lookups in one table. */
export function isOneTable(tables: readonly Rows[]): void {
  const isOne = tables.length > 0 && lookupsFrom(tables, 0) === tables.length;
  assert(isOne, "Expected the lookups of one table");
}

/** There is at least one table, and, with `counts`, one count for each entry. */
function areCounted(tables: readonly Rows[], counts: Int32Array | undefined): void {
  assert(tables.length > 0, "Expected at least one table");
  const count = counts?.length ?? tables.length;
  assert.equal(count, tables.length, "Expected a count for every entry of the tables");
}

/** The slices cover the whole batch. */
export const haveSquares: Condition<"rowSquares"> = (tables, ...given) => {
  const [, , , slices, , counts] = given;
  areCounted(tables, counts);
  areAll(slices);
};

/** The slices cover the whole batch, and the rules take a trust ratio. */
export const haveNorms: Condition<"rowNorms"> = (...given) => {
  const [tables, bags, , , slices, rules, means, counts] = given;
  areCounted(tables, counts);
  areAll(slices);
  for (const [t, { kind }] of rules.entries()) {
    assert(takesTrust(kind), `Expected a rule that takes a trust ratio, got ${kind}`);
    if (takesMean(kind)) haveSums(tables[t]!, rules[t]!, { means, trust: means });
  }
  if (means !== undefined && means.length > 0) areOfEachRow(tables, means, bags);
};

/** Each range of columns lies in both tensors. */
export const areColumns: Condition<"copyRuns"> = (out, from, runs) => {
  assert.equal(runs.length % 3, 0, "Expected three numbers for every range of columns");
  const [outWidth, fromWidth] = [out, from].map((t) => size(t) / t.shape[0]!);
  for (let at = 0; at < runs.length; at += 3) {
    within("the columns of a range in out", runs[at]!, runs[at + 2]!, outWidth!);
    within("the columns of a range in from", runs[at + 1]!, runs[at + 2]!, fromWidth!);
  }
};

/** Every range of quanta, with `each` numbers a quantum, has the same number of rows. */
export function areRuns(
  sums: readonly ArrayLike<number>[],
  quanta: readonly number[],
  each: number,
): void {
  assert.equal(sums.length, quanta.length, "Expected a count of quanta for every run");
  assert(sums.length > 0, "Expected at least one run of quanta");
  const rows = sums[0]!.length / (each * quanta[0]!);
  const alike = sums.every((run, i) => run.length === rows * each * quanta[i]!);
  const expected = `whole rows of quanta, as many in every run as the first has, ${rows}`;
  assert(alike && Number.isInteger(rows), `Expected ${expected}`);
}

/** Parts are aligned runs of the blocks, ascending and disjoint, with the samples of `out`. */
export const areParts: Condition<"foldPooled"> = (out, _first, parts, blocks, count) => {
  assert(isPowerOfTwo(blocks), `Expected a power of two of row blocks, got ${blocks}`);
  let end = 0;
  for (const { from, first, tree } of parts) {
    const isAligned = isPowerOfTwo(tree.count) && tree.first % tree.count === 0;
    assert(
      isAligned && tree.first >= end && tree.first + tree.count <= blocks,
      `Expected an aligned run of blocks in ${end}..${blocks}, got ${tree.count} from ${tree.first}`,
    );
    end = tree.first + tree.count;
    assert.equal(from.shape[0], out.shape[0], "Expected as many samples in every part");
    within("columns of a part", first, count, columns("a part", from));
  }
};

/** Each sample has one of the lists of t (U,·), and each list has at most `count` columns. */
export function areLists(
  t: Tensor,
  count: number,
  inverse: Int32Array,
  used: Int32Array | undefined,
): void {
  const lists = t.shape[0] ?? 0;
  // A plain loop, as a function call per sample would take longer than the copy of its row.
  let good = 0;
  while (good < inverse.length && inverse[good]! >= 0 && inverse[good]! < lists) good++;
  const isGood = good === inverse.length;
  assert(isGood, `Expected a list of 0..${lists - 1} for sample ${good}, got ${inverse[good]}`);
  const bad = used?.findIndex((columns) => columns < 0 || columns > count) ?? -1;
  assert(bad < 0, `Expected 0..${count} columns of list ${bad}, got ${used?.[bad]}`);
}

/** At least one element is selected, and at most all. */
export const isSome: Condition<"selectLargest"> = ({ indices }, residual) => {
  const [k, n] = [indices.length, size(residual)];
  assert(k >= 1 && k <= n, `Expected 1..${n} elements to select, got ${k}`);
};

/** `trees` are consecutive aligned subtrees that cover all slices, with a part for each. */
export const areComplete: Condition<"foldSubtrees"> = (_out, parts, trees, slices) => {
  assert.equal(parts.length, trees.length, "Expected a part for every subtree");
  let at = 0;
  for (const { first, count } of trees) {
    const isNext = first === at && isPowerOfTwo(count) && first % count === 0;
    assert(isNext, `Expected an aligned subtree from ${at}, got ${first}+${count}`);
    at += count;
  }
  assert.equal(at, slices, "Expected subtrees that cover every slice");
};

/** Each slot has an element for each of `w`, and the rule has these slots and no state of a row. */
export const hasSlots: Condition<"applyFlat"> = (_w, slots, _g, { kind }) => {
  const { perElement, perRow } = stateShapeOf(kind);
  const isFlat = slots.length === perElement && perRow === 0;
  assert(isFlat, `Expected a rule with ${slots.length} states of an element, got ${kind}`);
};

/** A cache has at least one set, and at most as many places as a table has rows. */
export const hasPlaces: Condition<"rowCache"> = ({ sets, spares, rows }) => {
  const places = sets * cacheWays + spares;
  const isWhole = [sets, spares, rows].every(Number.isInteger) && sets >= 1 && spares >= 0;
  assert(isWhole && places <= rowsMax, `Expected 1 to ${rowsMax} places, got ${places}`);
};

/** The tick is later than that of the cache's last call. */
export const isLater: Condition<"placeRows"> = (cache, _places, _ids, tick) => {
  const last = cache.head[1] ?? 0;
  const isNext = Number.isInteger(tick) && tick > last && tick < 2 ** 31;
  assert(isNext, `Expected a tick above ${last} and below 2^31, got ${tick}`);
};

/** Each place has a pin to remove. */
export const arePinned: Condition<"releaseRows"> = (cache, placed) => {
  for (const place of placed) {
    if (cache.pins[place]! > 0) continue;
    assert.fail(`Expected a place with pins, got ${place}`);
  }
};

/** `out` has room for the record of each place. */
export const areGathered: Condition<"gatherRecords"> = (out, rows, places) => {
  areWithin("places", places, rows.rows);
  assert.equal(out.byteLength, places.length * bytesOf(rows), "Expected room for each record");
  isAligned("out", out);
};

/** There is a record for each place. */
export const areScattered: Condition<"scatterRecords"> = (rows, places, records, at) => {
  areWithin("places", places, rows.rows);
  isAligned("records", records);
  areRecords(at, places.length, records, bytesOf(rows));
};

/** Both memories have the records. */
export const areMoved: Condition<"moveRecords"> = (to, toAt, from, fromAt, count, bytes) => {
  areRecords(toAt, count, to, bytes);
  areRecords(fromAt, count, from, bytes);
};

/** The ranges lie within the ids, and each array has all rows of its tile. */
export const areUndone: Condition<"keepRows"> = (log, tiles, ids, ranges) => {
  isAligned("log", log.bytes);
  assert.equal(log.bytes.length % undoLineBytes, 0, "Expected a log of whole cache lines");
  assert.equal(log.used.length, 1, "Expected one number of used lines");
  assert.equal(ranges.length, 2 * tiles.length, "Expected a range of ids for each tile");
  for (let i = 0; i < tiles.length; i++) {
    const { rows, seen, arrays, rowBytes } = tiles[i]!;
    const [from, to] = [ranges[2 * i]!, ranges[2 * i + 1]!];
    within("ids", from, to - from, ids.length);
    assert(32 * seen.length >= rows, "Expected a bit for each row");
    assert(arrays.length <= keptArraysMax, `Expected at most ${keptArraysMax} arrays`);
    for (let a = 0; a < arrays.length; a++) {
      within("rows of a tile", 0, rows * rowBytes[a]!, arrays[a]!.length);
    }
  }
};

function bytesOf(rows: Rows): number {
  return recordBytesOf(rows, rows.state.shape[1] ?? 0);
}

function isAligned(name: string, bytes: Uint8Array): void {
  if (bytes.byteOffset % 4 === 0) return;
  assert.fail(`Expected ${name} to begin at a multiple of 4 bytes, got ${bytes.byteOffset}`);
}

/** `records` has the records at the indices `at`, or, if undefined, 0..count-1. */
function areRecords(
  at: Int32Array | undefined,
  count: number,
  records: Uint8Array,
  bytes: number,
): void {
  const held = bytes > 0 ? Math.floor(records.byteLength / bytes) : 0;
  if (at === undefined) {
    assert(count <= held, `Expected ${count} records, got ${held}`);
  } else {
    assert.equal(at.length, count, "Expected a record for every row");
    areWithin("records", at, held);
  }
}

/** Each value lies in 0..end-1. */
export function areWithin(name: string, values: Int32Array, end: number): void {
  for (const value of values) {
    if (value >= 0 && value < end) continue;
    assert.fail(`Expected ${name} within 0..${end - 1}, got ${value}`);
  }
}
