// The gradients of rows in plain loops: the lookups of each table, sorted by row and slice, and the
// sum of each row's gradient by the slice tree.

import { type Bags, bagsFrom, lookupsFrom, type Rows, type Tensor } from "../contract/kernels.ts";
import type { Slices, Subtree } from "../contract/slices.ts";
import { type Values, valuesOf } from "./memory.ts";
import type { Round } from "./round.ts";

/** A distinct row of a table, with its index among these and its gradient. */
type VisitRow = (table: number, row: number, gradient: Values, index: number) => void;

/**
 * Calls `visit` for the distinct rows of each table, ascending; `table` is its first entry. Returns
 * their number by table.
 */
export function eachRow(
  round: Round,
  allocate: (length: number) => Values,
  { tables, bags }: TableLookups,
  d: PooledGradients,
  slices: Slices,
  visit: VisitRow,
): ReadonlyMap<number, number> {
  const distinct = new Map<number, number>();
  const all = { first: 0, count: slices.bounds.length - 1 };
  for (let table = 0; table < tables.length; ) {
    const count = lookupsFrom(tables, table);
    const own = { tables: tables.slice(table, table + count), bags: bagsFrom(bags, table, count) };
    const from = { ...d, first: d.first + columnsOf(tables.slice(0, table)) };
    let index = 0;
    gradientsOf(
      round,
      allocate,
      own,
      from,
      slices,
    )(all, (row, gradient) => {
      visit(table, row, gradient, index++);
    });
    distinct.set(table, index);
    table += count;
  }
  return distinct;
}

/**
 * Bags with 32-bit ids. Checks the 64-bit ids of `count` entries from `table` on, and converts them
 * to rows.
 */
export function narrowBags(bags: Bags, table: number, { rows }: Rows, count = 1): Bags<Int32Array> {
  const { ids, offsets, samples } = bags;
  if (ids instanceof Int32Array) return { ...bags, ids };
  const narrow = new Int32Array(ids.length);
  for (let k = offsets[table * samples]!; k < offsets[(table + count) * samples]!; k++) {
    const id = ids[k]!;
    if (id < 0 || id >= rows) {
      const where = `Expected id ${k} of the bags, of table ${table}, to lie in 0..${rows - 1}`;
      throw new RangeError(`${where}, got ${id}`);
    }
    narrow[k] = Number(id);
  }
  return { ...bags, ids: narrow };
}

export function columnsOf(tables: readonly Rows[]): number {
  return tables.reduce((sum, rows) => sum + rows.dim, 0);
}

/** Calls `visit` for each distinct row of the tree's slices, ascending, with its gradient. */
type Gradients = (tree: Subtree, visit: (row: number, gradient: Values) => void) => void;

/** The ids of one table's lookups, sorted by row and slice. */
interface Lookups {
  /** Positions in `bags.ids`, ordered by row, then by slice, then by position. */
  readonly sorted: Int32Array;
  /** Entry, sample, slice of the batch and bag length for each position, relative to `start`. */
  readonly entries: Int32Array;
  readonly samples: Int32Array;
  readonly sliceOf: Int32Array;
  readonly lengths: Int32Array;
  readonly start: number;
}

function lookupsOf(bags: Bags<Int32Array>, slices: Slices): Lookups {
  const start = bags.offsets[0]!;
  const size = bags.offsets[bags.tables * bags.samples]! - start;
  const [entries, samples, sliceOf, lengths] = [0, 1, 2, 3].map(() => new Int32Array(size));
  for (let entry = 0; entry < bags.tables; entry++) {
    let slice = 0;
    for (let s = 0; s < bags.samples; s++) {
      while (slices.bounds[slice + 1]! <= s) slice++;
      const bag = entry * bags.samples + s;
      const [from, to] = [bags.offsets[bag]! - start, bags.offsets[bag + 1]! - start];
      entries!.fill(entry, from, to);
      samples!.fill(s, from, to);
      sliceOf!.fill(slices.first + slice, from, to);
      lengths!.fill(to - from, from, to);
    }
  }
  const { ids } = bags;
  const sorted = Int32Array.from({ length: size }, (_, k) => start + k);
  const sliceAt = (k: number) => sliceOf![k - start]!;
  sorted.sort((a, b) => ids[a]! - ids[b]! || sliceAt(a) - sliceAt(b) || a - b);
  const all = { entries: entries!, samples: samples!, sliceOf: sliceOf!, lengths: lengths! };
  return { sorted, ...all, start };
}

interface TableLookups {
  readonly tables: readonly Rows[];
  readonly bags: Bags;
}

/** Gradients of pooled vectors: (samples, width), those of a table from column `first` on. */
interface PooledGradients {
  readonly dPooled: Tensor;
  readonly first: number;
  readonly width: number;
}

/** Sums the gradient of each distinct row of one table: slice by slice, then the tree. */
export function gradientsOf(
  round: Round,
  allocate: (length: number) => Values,
  { tables, bags }: TableLookups,
  { dPooled, first, width }: PooledGradients,
  slices: Slices,
): Gradients {
  const { dim } = tables[0]!;
  const narrow = narrowBags(bags, 0, tables[0]!, tables.length);
  const d = valuesOf(dPooled);
  const lookups = lookupsOf(narrow, slices);
  const { sorted, start } = lookups;
  const levels = Array.from({ length: 32 }, () => allocate(dim));

  const sumSlice = (out: Values, from: number, to: number): void => {
    out.fill(0);
    for (let k = from; k < to; k++) {
      const position = sorted[k]! - start;
      const entry = lookups.entries[position]!;
      const column = first + entry * dim;
      const at = lookups.samples[position]! * width + column;
      const { pooling } = tables[entry]!;
      const weight = bags.weights?.[sorted[k]!] ?? 1;
      for (let c = 0; c < dim; c++) {
        const share = d[at + c]!;
        const g = pooling === "mean" ? round(share / lookups.lengths[position]!) : share;
        out[c] = round.fused(out[c]!, weight, g);
      }
    }
  };
  const sliceAt = (k: number): number => lookups.sliceOf[sorted[k]! - start]!;

  // out = the sum of lookups from..to-1, which are in the slices of `tree`. Slices without lookups
  // of the row are skipped: they would add +0, which changes no bit, as no partial sum is ever -0.
  const sumTree = (out: Values, level: number, tree: Subtree, from: number, to: number): void => {
    const half = tree.count / 2;
    const left = { first: tree.first, count: half };
    const right = { first: tree.first + half, count: half };
    let middle = from;
    while (middle < to && sliceAt(middle) < right.first) middle++;
    if (tree.count === 1) {
      sumSlice(out, from, to);
    } else if (middle === to) {
      sumTree(out, level, left, from, to);
    } else if (middle === from) {
      sumTree(out, level, right, from, to);
    } else {
      const other = levels[level]!;
      sumTree(out, level + 1, left, from, middle);
      sumTree(other, level + 1, right, middle, to);
      for (let c = 0; c < dim; c++) out[c] = round(out[c]! + other[c]!);
    }
  };

  const gradient = allocate(dim);
  return (tree, visit) => {
    let from = 0;
    while (from < sorted.length) {
      const row = narrow.ids[sorted[from]!]!;
      let end = from;
      while (end < sorted.length && narrow.ids[sorted[end]!] === row) end++;
      let [low, high] = [from, end];
      while (low < high && sliceAt(low) < tree.first) low++;
      while (high > low && sliceAt(high - 1) >= tree.first + tree.count) high--;
      if (low < high) {
        sumTree(gradient, 0, tree, low, high);
        visit(row, gradient);
      }
      from = end;
    }
  };
}
