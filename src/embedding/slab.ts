// The slab: a row store that holds every row in device memory. All rows lie there from the start
// with the value that their birth will give them; `touched` tells which have been born.

import { type Kernels, quantumColumns, type Rows, stateWidth } from "../kernels/kernels.ts";
import { type Key, purposes } from "../random.ts";
import type { SparseOptimizerSpec, TableSpec } from "./options.ts";
import type { RowRecords, RowStore } from "./row-store.ts";

/** Rows that travel at a time: large enough for the disk, small beside the tables. */
const recordRowsMax = 4096;

/** A slab besides what every store can do: its rows as the kernels hold them. */
export interface Slab extends RowStore {
  readonly rowsOf: readonly Rows[];
}

/** Reserves and fills the tables `tables` (indices into `specs`) of a job. */
export function createSlab(options: {
  readonly kernels: Kernels;
  readonly specs: readonly TableSpec[];
  readonly tables: readonly number[];
  readonly optimizer: SparseOptimizerSpec;
  readonly key: Key;
}): Slab {
  const { kernels, specs, tables, optimizer, key } = options;
  const rowsOf = tables.map((table) => fill(kernels, specOf(specs, table), table, optimizer, key));
  const columns = rowsOf.reduce((sum, rows) => sum + rows.dim, 0);
  const at = (table: number): Rows => {
    const rows = rowsOf[table];
    if (rows === undefined) throw new RangeError(`The slab has no table ${table}`);
    return rows;
  };
  return {
    tables,
    columns,
    rowsOf,
    lookup: (out, bags, first, count) => kernels.pool(out, rowsOf, bags, first, count),
    partials: (table, bags, dPooled, slices, rules) =>
      kernels.rowSquares(rowsOf, table, bags, dPooled, slices, rules),
    update: (bags, dPooled, slices, rules, completed) =>
      kernels.updateRows(rowsOf, bags, dPooled, slices, rules, completed),
    rowsBorn: (table) => at(table).touched.reduce((sum, touched) => sum + touched, 0),
    records: (table) => records(kernels, at(table)),
    restore: (table, chunk) => restore(kernels, at(table), chunk),
  };
}

/** How many quanta of columns a row of `dim` columns has. */
export function quantaOf(dim: number): number {
  return Math.ceil(dim / quantumColumns);
}

function fill(
  kernels: Kernels,
  spec: TableSpec,
  table: number,
  optimizer: SparseOptimizerSpec,
  key: Key,
): Rows {
  const { rows, dim, pooling, rowBlocks, precision } = spec;
  const width = stateWidth(optimizer.kind, dim);
  const made = kernels.rows({ rows, dim, pooling, rowBlocks, stateWidth: width, precision });
  const scale = spec.initScale > 0 ? spec.initScale : 1 / Math.sqrt(rows);
  kernels.born(made, key, purposes.rowInit + table, scale);
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
      rows: Int32Array.from(born, (i) => first + i),
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

function restore(kernels: Kernels, rows: Rows, records: RowRecords): void {
  const width = rows.state.shape[1] ?? 0;
  for (const { from, count } of runsOf(records.rows)) {
    const row = records.rows[from] ?? 0;
    const weights = records.weights.subarray(from * rows.dim, (from + count) * rows.dim);
    kernels.writeRows(rows, row, weights);
    if (width > 0) {
      const state = records.state.subarray(from * width, (from + count) * width);
      kernels.write(kernels.part(rows.state, row, count), state);
    }
    rows.touched.fill(1, row, row + count);
  }
}

/** Stretches of consecutive rows: one copy each. */
function* runsOf(rows: Int32Array): Generator<{ from: number; count: number }> {
  let from = 0;
  for (let i = 1; i <= rows.length; i++) {
    if (i < rows.length && rows[i] === (rows[i - 1] ?? 0) + 1) continue;
    yield { from, count: i - from };
    from = i;
  }
}

function specOf(specs: readonly TableSpec[], table: number): TableSpec {
  const spec = specs[table];
  if (spec === undefined) throw new RangeError(`The job has no table ${table}`);
  return spec;
}
