// Converts the tensors of an imported file into the parts of a checkpoint, in pieces.
//
// n = rows of a piece, D = columns, W = floats of a row's state.

import {
  blockRowsOf,
  createDenseState,
  encodeDense,
  encodeNewIds,
  encodeRows,
  InputUnusableError,
  idsPartNameOf,
  initialRowState,
  type JobSpec,
  openKernels,
  type Progress,
  partNameOf,
  type RowRecords,
  wholeTable,
} from "../../../internal.ts";
import { inverseOf, permuted } from "../dlrm-names/foreign-tensors.ts";
import { storedAs } from "../tables/check-rows.ts";
import type { ReadModel } from "./match-model.ts";
import { type Counts, floatsOf, type SourceTensor } from "./tensor-source.ts";

/** A model during its import. */
export interface Importing extends ReadModel {
  readonly progress: Progress;
  readonly counts: Counts & { roundedRows: number };
}

/** Approximate bytes of a piece: large enough for the disk, small compared with the tables. */
const pieceBytes = 2 ** 20;

/** The name of the part that holds a whole table. */
export function tablePartOf({ model }: JobSpec, table: number): string {
  return partNameOf(wholeTable(table, model.tables), model.tables);
}

/** The part with the dense parameters and the state of their optimizer. */
export async function* densePieces(own: Importing): AsyncGenerator<Uint8Array> {
  const { layout, job, wanted, state, progress } = own;
  const kernels = openKernels("auto");
  const { slots } = createDenseState(kernels, job.optimizer.dense, layout.length);
  const flat = new Float32Array(layout.length);
  const states = slots.map((slot) => kernels.read(slot).slice() as Float32Array);
  const first = new Map(layout.parameters.map(({ name, first }) => [name, first]));
  for (const one of wanted) {
    if (!("parameter" in one.own)) continue;
    const at = first.get(one.own.parameter) ?? 0;
    flat.set(await wholeOf(own, one.name, one.tensor, one.columns), at);
    for (const [i, tensor] of (state.states.get(one.name) ?? []).entries()) {
      states[i]?.set(await wholeOf(own, one.name, tensor, one.columns), at);
    }
  }
  // The moving average, which is the last slot, starts at the weights.
  if (job.optimizer.dense.ema !== undefined) states.at(-1)?.set(flat);
  for (const piece of encodeDense(flat, states)) {
    for (const bytes of progress.count([piece])) yield bytes;
    await progress.breathe();
  }
}

/** All numbers of a dense parameter, permuted into Osiris's column order. */
async function wholeOf(
  { source, progress, counts }: Importing,
  name: string,
  tensor: SourceTensor,
  columns: Int32Array | undefined,
): Promise<Float32Array> {
  await tensor.check(progress);
  const [rows = 1] = tensor.shape;
  const values = floatsOf(source, name, tensor, 0, rows, counts);
  return permuted(values, columns && inverseOf(columns));
}

/** The part with a table's dynamic ids; undefined: the table has none. */
export function idsPart({ job, ids, state }: ReadModel, table: number) {
  const tableIds = ids[table];
  const spec = job.model.tables[table];
  if (tableIds === undefined || spec === undefined) return undefined;
  const { rowBlocks: blocks } = spec;
  const name = idsPartNameOf(wholeTable(table, job.model.tables), job.model.tables);
  const blockRows = blockRowsOf(spec);
  const byBlock = Array.from({ length: blocks }, (_, block) => {
    const isOfBlock = (row: number) => Math.floor(row / blockRows) === block;
    return {
      rows: tableIds.rows.filter(isOfBlock).map((row) => row - block * blockRows),
      ids: tableIds.ids.filter((_id, i) => isOfBlock(tableIds.rows[i] ?? -1)),
    };
  });
  return { name, bytes: encodeNewIds(byBlock, state.step) };
}

/** The part with all rows of a table and their optimizer state. */
export async function* tablePieces(own: Importing, table: number): AsyncGenerator<Uint8Array> {
  const { job, progress } = own;
  const { dim = 0, precision = "float32" } = job.model.tables[table] ?? {};
  const initial = initialRowState(job.optimizer.sparse, dim);
  const pieces = encodeRows(dim, initial.length, recordsOf(own, table, initial), precision);
  for await (const piece of pieces) {
    for (const bytes of progress.count([piece])) yield bytes;
  }
}

async function* recordsOf(
  own: Importing,
  table: number,
  initial: Float32Array,
): AsyncGenerator<RowRecords> {
  const { source, job, wanted, state, progress, counts } = own;
  const ids = own.ids[table];
  const known = new Set(ids?.rows);
  const one = wanted.find((tensor) => "table" in tensor.own && tensor.own.table === table);
  const spec = job.model.tables[table];
  if (one === undefined || spec === undefined) throw new RangeError(`There is no table ${table}`);
  const { rows, dim } = spec;
  const width = initial.length;
  const states = state.states.get(one.name) ?? [];
  progress.expect(2 * 4 * rows * (dim + width + 1));
  for (const tensor of [one.tensor, ...states]) await tensor.check(progress);
  const most = Math.max(1, Math.min(rows, Math.floor(pieceBytes / (4 * (dim + width)))));
  // With a moving average, its lag precedes the optimizer's state, and its step count follows.
  const begin = job.optimizer.sparse.ema === undefined ? 0 : dim;
  for (let first = 0; first < rows; first += most) {
    const count = Math.min(most, rows - first);
    const weights = floatsOf(source, one.name, one.tensor, first, count, counts);
    if (spec.precision !== "float32") checkStored(own, table, weights, first);
    const all = new Float32Array(count * width);
    for (let i = 0; i < count && width > 0; i++) all.set(initial, i * width);
    let column = begin;
    for (const tensor of states) {
      const values = floatsOf(source, one.name, tensor, first, count, counts);
      const columns = values.length / count;
      for (let i = 0; i < count; i++) {
        all.set(values.subarray(i * columns, (i + 1) * columns), i * width + column);
      }
      column += columns;
    }
    await progress.breathe();
    const places = Int32Array.from({ length: count }, (_, i) => first + i);
    const records = { rows: places, weights, state: all };
    yield ids === undefined ? records : withIds(records, known, dim, width);
  }
}

/** Keeps only records whose row has an id. */
function withIds(
  { rows, weights, state }: RowRecords,
  known: ReadonlySet<number>,
  dim: number,
  width: number,
): RowRecords {
  const taken = [...rows.keys()].filter((i) => known.has(rows[i] ?? -1));
  const of = (values: Float32Array, columns: number) => {
    const takenValues = new Float32Array(taken.length * columns);
    for (const [to, i] of taken.entries()) {
      takenValues.set(values.subarray(i * columns, (i + 1) * columns), to * columns);
    }
    return takenValues;
  };
  return {
    rows: Int32Array.from(taken, (i) => rows[i] ?? 0),
    weights: of(weights, dim),
    state: of(state, width),
  };
}

/**
 * Counts rows that the table's precision rounds. @throws InputUnusableError for a number outside
 * its range
 */
function checkStored(
  { source, job, counts }: Importing,
  table: number,
  weights: Float32Array,
  first: number,
): void {
  const { dim = 1, precision = "float32", name = "" } = job.model.tables[table] ?? {};
  for (let i = 0; i * dim < weights.length; i++) {
    const row = weights.subarray(i * dim, (i + 1) * dim);
    const stored = storedAs(row, precision);
    // int8 cannot represent NaN and infinities; 16-bit floats can, and they are kept.
    const hasRoom = (value: number, c: number) =>
      Number.isFinite(value) ? Number.isFinite(stored[c]) : precision !== "int8";
    if (!row.every(hasRoom)) {
      const message = `Expected numbers within the range of ${precision} in row ${first + i} of table`;
      throw new InputUnusableError(source.path, `${message} \`${name}\` of ${source.path}`);
    }
    if (!stored.every((value, c) => Object.is(value, row[c]))) counts.roundedRows++;
  }
}
