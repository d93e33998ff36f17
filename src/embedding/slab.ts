// The slab: a row store that holds every row in device memory. All rows lie there from the start
// with the value that their birth will give them; `touched` tells which have been born.

import {
  type Bags,
  type Kernels,
  type Pooling,
  quantumColumns,
  type Rows,
  type StateShape,
  stateShapeOf,
  stateWidth,
} from "../kernels/kernels.ts";
import { type Key, purposes } from "../random.ts";
import type { SparseOptimizerSpec, TableSpec } from "./options.ts";
import type { Extent, RowRecords, RowStore } from "./row-store.ts";
import { blockRowsOf, type Shard } from "./shards.ts";

/** Rows that travel at a time: large enough for the disk, small beside the tables. */
const recordRowsMax = 4096;

/** A slab besides what every store can do: its rows as the kernels hold them. */
export interface Slab extends RowStore {
  readonly rowsOf: readonly Rows[];
}

/** Reserves and fills the given shards of a job's tables. */
export function createSlab(options: {
  readonly kernels: Kernels;
  readonly specs: readonly TableSpec[];
  readonly shards: readonly Shard[];
  readonly optimizer: SparseOptimizerSpec;
  readonly key: Key;
}): Slab {
  const { kernels, specs, shards, optimizer, key } = options;
  const held = shards.map((shard) => {
    const rows = fill(kernels, specOf(specs, shard.table), shard, optimizer, key);
    return { shard, rows, state: stateShapeOf(optimizer.kind) };
  });
  const rowsOf = held.map(({ rows }) => rows);
  const columns = rowsOf.reduce((sum, rows) => sum + rows.dim, 0);
  const at = (place: number) => {
    const found = held[place];
    if (found === undefined) throw new RangeError(`The slab has no shard at ${place}`);
    return found;
  };
  return {
    shards,
    columns,
    rowsOf,
    lookup(out, bags, first, count, of = { first: 0, count: rowsOf.length }) {
      const [rows, own] = [rowsOf.slice(of.first, of.first + of.count), bagsOfSome(bags, of)];
      kernels.pool(out, rows, own, first, count);
    },
    squares: (place, bags, dPooled, slices, rules) =>
      kernels.rowSquares(rowsOf, place, bags, dPooled, slices, rules),
    norms: (place, bags, dPooled, slices, rules, means) =>
      kernels.rowNorms(rowsOf, place, bags, dPooled, slices, rules, means),
    update: (bags, dPooled, slices, rules, completed) =>
      kernels.updateRows(rowsOf, bags, dPooled, slices, rules, completed),
    rowsBorn: (place) => at(place).rows.touched.reduce((sum, touched) => sum + touched, 0),
    records: (place) => records(kernels, at(place).rows),
    restore: (place, extent, chunk) => restore(kernels, at(place), extent, chunk),
  };
}

/** The bags of some neighbouring tables of all. */
function bagsOfSome(bags: Bags, { first, count }: { first: number; count: number }): Bags {
  const { samples } = bags;
  const offsets = bags.offsets.subarray(first * samples, (first + count) * samples + 1);
  return { ...bags, tables: count, offsets };
}

/** How many quanta of columns a row of `dim` columns has. */
export function quantaOf(dim: number): number {
  return Math.ceil(dim / quantumColumns);
}

/** How the bags of a shard become vectors. Of row blocks, the tree over them has the mean. */
export function poolingOf({ pooling, rowBlocks }: TableSpec): Pooling {
  return rowBlocks > 1 ? "sum" : pooling;
}

function fill(
  kernels: Kernels,
  spec: TableSpec,
  shard: Shard,
  optimizer: SparseOptimizerSpec,
  key: Key,
): Rows {
  const made = kernels.rows({
    rows: shard.rows,
    dim: shard.columns,
    pooling: poolingOf(spec),
    rowBlocks: shard.blocks,
    stateWidth: stateWidth(optimizer.kind, shard.columns),
    precision: spec.precision,
    blockRows: blockRowsOf(spec),
    firstRow: shard.firstRow,
    firstColumn: shard.firstColumn,
    tableDim: spec.dim,
  });
  const scale = spec.initScale > 0 ? spec.initScale : 1 / Math.sqrt(spec.rows);
  kernels.born(made, key, purposes.rowInit + shard.table, scale);
  if ("initialAccumulator" in optimizer && optimizer.initialAccumulator > 0) {
    kernels.fill(made.state, optimizer.initialAccumulator);
  }
  return made;
}

function* records(kernels: Kernels, rows: Rows): Generator<RowRecords> {
  const width = rows.state.shape[1] ?? 0;
  for (let first = 0; first < rows.rows; first += recordRowsMax) {
    const count = Math.min(recordRowsMax, rows.rows - first);
    const born: number[] = [];
    for (let i = 0; i < count; i++) if (rows.touched[first + i] === 1) born.push(i);
    if (born.length === 0) continue;
    yield {
      rows: Int32Array.from(born, (i) => rows.firstRow + first + i),
      weights: pick(kernels.readRows(rows, first, count), rows.dim, born),
      state: pick(kernels.read(kernels.part(rows.state, first, count)), width, born),
    };
  }
}

/** The rows `born` of all (n, width). */
function pick(all: Float32Array, width: number, born: readonly number[]): Float32Array {
  if (born.length * width === all.length) return all;
  const out = new Float32Array(born.length * width);
  for (const [to, i] of born.entries()) {
    out.set(all.subarray(i * width, (i + 1) * width), to * width);
  }
  return out;
}

/** A shard and its rows in memory. */
interface Held {
  readonly shard: Shard;
  readonly rows: Rows;
  readonly state: StateShape;
}

function restore(kernels: Kernels, held: Held, extent: Extent, records: RowRecords): void {
  const { shard, rows, state } = held;
  const first = Math.max(shard.firstColumn, extent.firstColumn);
  const end = Math.min(shard.firstColumn + shard.columns, extent.firstColumn + extent.columns);
  if (first >= end) return;
  const stretch: Stretch = {
    columns: end - first,
    to: { width: rows.dim, first: first - shard.firstColumn },
    from: { width: extent.columns, first: first - extent.firstColumn },
  };
  for (const { from, count } of runsOf(records.rows, shard)) {
    const row = (records.rows[from] ?? 0) - shard.firstRow;
    const weights = kernels.readRows(rows, row, count);
    overlay(weights, records.weights, from, count, stretch);
    kernels.writeRows(rows, row, weights);
    const part = kernels.part(rows.state, row, count);
    const values = kernels.read(part);
    for (const own of stateStretches(state, stretch)) {
      overlay(values, records.state, from, count, own);
    }
    kernels.write(part, values);
    rows.touched.fill(1, row, row + count);
  }
}

/** The same stretch of each state of the elements, and the states of the row. */
function stateStretches(
  { perElement, perRow }: StateShape,
  { columns, to, from }: Stretch,
): Stretch[] {
  const [toWidth, fromWidth] = [to.width, from.width].map((dim) => perElement * dim + perRow);
  const place = (columns: number, toFirst: number, fromFirst: number): Stretch => ({
    columns,
    to: { width: toWidth ?? 0, first: toFirst },
    from: { width: fromWidth ?? 0, first: fromFirst },
  });
  const ofElements = Array.from({ length: perElement }, (_, copy) =>
    place(columns, copy * to.width + to.first, copy * from.width + from.first),
  );
  return [...ofElements, place(perRow, perElement * to.width, perElement * from.width)];
}

/** Columns of two arrays of rows that stand for the same. */
interface Stretch {
  readonly columns: number;
  readonly to: { readonly width: number; readonly first: number };
  readonly from: { readonly width: number; readonly first: number };
}

/** Copies the stretch of rows `at`..`at`+`count`-1 of `from` over that of the rows of `to`. */
function overlay(
  to: Float32Array,
  from: Float32Array,
  at: number,
  count: number,
  stretch: Stretch,
): void {
  for (let i = 0; i < count; i++) {
    const start = (at + i) * stretch.from.width + stretch.from.first;
    const values = from.subarray(start, start + stretch.columns);
    to.set(values, i * stretch.to.width + stretch.to.first);
  }
}

/** Stretches of consecutive rows that the shard has: one copy each. */
function* runsOf(
  rows: Int32Array,
  { firstRow, rows: count }: Shard,
): Generator<{ from: number; count: number }> {
  const isHere = (i: number) => {
    const row = (rows[i] ?? -1) - firstRow;
    return row >= 0 && row < count;
  };
  let from = 0;
  while (from < rows.length) {
    let end = from + 1;
    if (isHere(from)) {
      while (end < rows.length && isHere(end) && rows[end] === (rows[end - 1] ?? 0) + 1) end++;
      yield { from, count: end - from };
    }
    from = end;
  }
}

function specOf(specs: readonly TableSpec[], table: number): TableSpec {
  const spec = specs[table];
  if (spec === undefined) throw new RangeError(`The job has no table ${table}`);
  return spec;
}
