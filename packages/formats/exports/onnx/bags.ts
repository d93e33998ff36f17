// Pooled lookups of bags in ONNX, which has no EmbeddingBag operator. A feature has up to three
// inputs: the concatenated rows (or ids) of all samples, the number of ids of each sample, and the
// weights of the ids, if the feature is weighted. An id without a row is left out of its bag; in a
// sequence it becomes zeros.
//
// The rows' vectors are gathered, then added to their samples by ScatterElements, which adds
// sequentially in the order of the bag, so that results are deterministic. A sample without ids
// gets zeros. (ScatterND, the alternative, adds in several threads in an undefined order.)
//
// A runtime counts negative indices from the end, and would add ids without a sample to the last
// sample. Inputs that Osiris refuses are therefore mapped to an index past the end, which runtimes
// refuse too: negative rows, lengths that are negative or do not add up to the number of ids, and
// inputs with different numbers of samples.
//
// n = ids of all samples, B = samples, T = positions of an unpooled feature, D = columns.

import { type Feature, type Name, withAxis } from "../../../../internal.ts";
import { types } from "./messages.ts";
import type { Operators } from "./operators.ts";
import type { FeatureInput } from "./raw-ids.ts";
import { findRows, type IdsPlace, rowsOfRawIds } from "./rows-of-ids.ts";

/** The outputs of a feature's lookup in the graph. */
export interface LookedUp {
  /** (B, D), or (B, T D) for an unpooled feature, padded with zeros. */
  readonly vectors: Name;
  /** (B): number of ids of each sample. */
  readonly lengths: Name;
  /** (B): number of ids that have a position: at most T. */
  readonly ids: Name;
}

/** The table and the input that a feature's lookup reads. */
export interface LookedUpTable {
  /** Name of the rows (·,D). */
  readonly table: Name;
  readonly dim: number;
  /** Rows of the table. */
  readonly rows: number;
  readonly isWeighted: boolean;
  /** The map from dynamic ids to rows; undefined: the table has no dynamic ids. */
  readonly ids: IdsPlace | undefined;
  readonly input: FeatureInput;
}

/** Adds a feature's inputs and its lookup. */
export function lookUp(
  to: Operators,
  { name, pooling, positions, kept }: Feature,
  { table, dim, rows, isWeighted, ids: place, input }: LookedUpTable,
  samplesOf: (lengths: Name) => Name,
): LookedUp {
  const count = `${name}.ids`;
  const given = to.input({ name: input.name, type: "int64", shape: [count] });
  const inputLengths = to.input({ name: `${name}.lengths`, type: "int64", shape: ["samples"] });
  const found = rowsOf(to, given, { input, place, rows });
  const has = place && to.op("GreaterOrEqual", [found, to.integers([0])]);
  const read = place === undefined ? found : to.op("Max", [found, to.integers([0])]);
  const gathered = to.op("Gather", [table, read], { axis: 0 });
  const weights = isWeighted
    ? to.input({ name: `${name}.weights`, type: "float32", shape: [count] })
    : undefined;
  const lengths = checkedLengths(to, {
    inputLengths,
    given,
    weights,
    samples: samplesOf(inputLengths),
  });
  const weighted =
    weights === undefined ? gathered : to.op("Mul", [gathered, withAxis(to, weights, 1)]);
  const vectors =
    has === undefined
      ? weighted
      : to.op("Where", [withAxis(to, has, 1), weighted, to.numbers([1, 1], [0])]);
  const bags = bagsOf(to, given, lengths);
  const ids = to.op("Min", [lengths, to.integers([positions])]);
  if (pooling === "none") {
    const sequence = { ...bags, given, lengths, vectors, positions, kept, dim };
    return { vectors: byPosition(to, sequence), lengths, ids };
  }
  const sums = addedUp(to, bags.samples, bags.sampleOf, vectors, dim);
  if (pooling === "sum") return { vectors: sums, lengths, ids };
  const members = has === undefined ? lengths : countsOf(to, bags, has);
  const counts = to.op("Cast", [to.op("Max", [members, to.integers([1])])], { to: 1 });
  return { vectors: to.op("Div", [sums, withAxis(to, counts, 1)]), lengths, ids };
}

/** The row of each id of an input, (n); -1 for a dynamic id without a row. */
function rowsOf(
  to: Operators,
  given: Name,
  {
    input: { raw },
    place,
    rows,
  }: { input: FeatureInput; place: IdsPlace | undefined; rows: number },
): Name {
  if (raw !== undefined) return rowsOfRawIds(to, given, raw, place);
  if (place !== undefined) return findRows(to, given, place);
  const isBelow = to.op("Less", [given, to.integers([0])]);
  return to.op("Where", [isBelow, to.integers([rows]), given]);
}

/** The lengths of bags, (B); the runtime fails where the feature's inputs do not fit together. */
function checkedLengths(
  to: Operators,
  {
    inputLengths,
    given,
    weights,
    samples,
  }: { inputLengths: Name; given: Name; weights: Name | undefined; samples: Name },
): Name {
  const ids = to.op("Shape", [given]);
  // With a negative length, the sum differs from the sum of absolute values.
  const sums = [
    to.op("ReduceSum", [inputLengths]),
    to.op("ReduceSum", [to.op("Abs", [inputLengths])]),
  ];
  const counts = [...sums, ...(weights === undefined ? [] : [to.op("Shape", [weights])])];
  const equal = counts.map((count) => to.op("Equal", [count, ids]));
  const fits = [...equal, to.op("Equal", [to.op("Shape", [inputLengths]), samples])];
  const all = fits.reduce((one, other) => to.op("And", [one, other]));
  // Gather from a tensor of one element: index 0 yields 0, and index 1 makes the runtime fail.
  const index = to.op("Where", [all, to.integers([0]), to.integers([1])]);
  return to.op("Add", [inputLengths, to.op("Gather", [to.integers([0]), index], { axis: 0 })]);
}

/** The sample of each id, (n), the offset of each bag, (B), and the number of samples, (1). */
function bagsOf(to: Operators, given: Name, lengths: Name) {
  const axis = to.integers([0], []);
  const starts = to.op("CumSum", [lengths, axis], { exclusive: 1 });
  // Counts the bags that begin at each id; the cumulative sum up to an id gives its bag.
  const ids = to.op("Shape", [given]);
  const places = to.op("Add", [ids, to.integers([1])]); // Empty bags at the end begin at index n.
  const none = to.op("Expand", [to.integers([0]), places]);
  const samples = to.op("Shape", [lengths]);
  const ones = to.op("Expand", [to.integers([1]), samples]);
  const scattered = { axis: 0, reduction: "add" };
  const marks = to.op("ScatterElements", [none, starts, ones], scattered);
  const began = to.op("CumSum", [marks, axis]);
  const ofIds = to.op("Slice", [began, to.integers([0]), ids, to.integers([0])]);
  return { samples, starts, sampleOf: to.op("Sub", [ofIds, to.integers([1])]) };
}

/** (B): the number of ids of each sample for which `has` (n) is true. */
function countsOf(to: Operators, bags: { samples: Name; sampleOf: Name }, has: Name): Name {
  const none = to.op("Expand", [to.integers([0]), bags.samples]);
  const ones = to.op("Cast", [has], { to: types.int64 });
  return to.op("ScatterElements", [none, bags.sampleOf, ones], { axis: 0, reduction: "add" });
}

/** (count, D): a segment sum of vectors (n,D) into `count` (1) rows; `at` (n) is each one's row. */
function addedUp(to: Operators, count: Name, at: Name, vectors: Name, dim: number): Name {
  const shape = to.op("Concat", [count, to.integers([dim])], { axis: 0 });
  const zeros = to.op("Expand", [to.numbers([1, 1], [0]), shape]);
  const places = to.op("Expand", [withAxis(to, at, 1), to.op("Shape", [vectors])]);
  return to.op("ScatterElements", [zeros, places, vectors], { axis: 0, reduction: "add" });
}

/**
 * (B, T D): each id's vector at its position. If a bag has more than T ids, the first or the last T
 * are kept.
 */
function byPosition(
  to: Operators,
  own: {
    samples: Name;
    starts: Name;
    sampleOf: Name;
    given: Name;
    lengths: Name;
    vectors: Name;
    positions: number;
    kept: Feature["kept"];
    dim: number;
  },
): Name {
  const { samples, starts, sampleOf, lengths, vectors, positions, kept, dim } = own;
  const [zero, all] = [to.integers([0]), to.integers([positions])];
  const ones = to.op("Expand", [to.integers([1]), to.op("Shape", [own.given])]);
  const index = to.op("CumSum", [ones, to.integers([0], [])], { exclusive: 1 });
  const left = to.op("Max", [to.op("Sub", [lengths, all]), zero]);
  const first = kept === "last" ? to.op("Add", [starts, left]) : starts;
  const place = to.op("Sub", [index, to.op("Gather", [first, sampleOf], { axis: 0 })]);
  const has = to.op("And", [to.op("GreaterOrEqual", [place, zero]), to.op("Less", [place, all])]);
  // Ids without a position are added to an extra cell at the end, which is cut off.
  const end = to.op("Mul", [samples, all]);
  const cell = to.op("Add", [to.op("Mul", [sampleOf, all]), place]);
  const at = to.op("Where", [has, cell, end]);
  const room = to.op("Add", [end, to.integers([1])]);
  const found = addedUp(to, room, at, vectors, dim);
  const kepts = to.op("Slice", [found, zero, end, zero]);
  return to.op("Reshape", [kepts, to.integers([-1, positions * dim])]);
}
