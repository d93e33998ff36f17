// Checks the rows of a file against a table before anything is written, and yields them in
// ascending order; a file in another order is sorted through a sparse file on disk.

import {
  createCodes,
  createExponents,
  createRowSet,
  type Disk,
  decodeRow,
  encodeRow,
  onDisk,
  type Precision,
  type Progress,
  type RowRecords,
  type RowSet,
  type StoredTable,
} from "../../../internal.ts";
import { fileRowsMax, type RowFile, unusable } from "./row-file.ts";

/** A checked file, with rows that fit a table. */
export interface CheckedRows {
  /** The rows that the file contains. */
  readonly rows: RowSet;
  /** Rows that the table's precision cannot hold exactly: they are rounded to nearest. */
  readonly rounded: number;
  readonly isAscending: boolean;
}

/** Checks every row. @throws InputUnusableError naming the row that does not fit */
export async function checkRows(
  file: RowFile,
  path: string,
  { spec, width }: StoredTable,
  progress: Progress,
): Promise<CheckedRows> {
  const { name, dim, rows: tableRows, precision } = spec;
  const { shape } = file;
  const rows = createRowSet();
  let [at, rounded, before, isAscending] = [0, 0, -1, true];
  for await (const { ids, vectors, state } of file.chunks()) {
    if (shape.dim !== dim) {
      throw unusable(path, `Expected vectors of ${dim} columns in ${path}, got ${shape.dim}`);
    }
    if (shape.width !== 0 && shape.width !== width) {
      const wanted = `Expected ${width} columns of optimizer state in ${path}`;
      throw unusable(path, `${wanted}, got ${shape.width}; it is of another optimizer`);
    }
    for (const [i, id] of ids.entries()) {
      const row = Number(id);
      const refuse = (why: string) => unusable(path, `Expected ${why} in ${file.placeOf(at + i)}`);
      if (row < 0 || row >= tableRows) {
        throw refuse(`a row of \`${name}\`, 0..${tableRows - 1}, got ${id},`);
      }
      if (rows.has(row)) throw refuse(`each row once, got ${id} again`);
      rows.add(row);
      isAscending &&= row > before;
      before = row;
      const vector = vectors.subarray(i * dim, (i + 1) * dim);
      const rowState = state?.subarray(i * width, (i + 1) * width) ?? [];
      if (!vector.every(Number.isFinite) || !rowState.every(Number.isFinite)) {
        throw refuse("finite numbers, got NaN or an infinity");
      }
      const stored = storedAs(vector, precision);
      if (!stored.every(Number.isFinite)) throw refuse(`numbers within the range of ${precision}`);
      if (!stored.every((value, c) => value === vector[c])) rounded++;
    }
    at += ids.length;
    await progress.breathe();
  }
  return { rows, rounded, isAscending };
}

/** A row after rounding to the stored precision. */
export function storedAs(vector: Float32Array, precision: Precision): Float32Array {
  if (precision === "float32") return vector;
  const codes = createCodes(precision, vector.length);
  const exponents = createExponents(precision, 1, vector.length);
  encodeRow({ precision, codes, exponents }, 0, vector);
  const stored = new Float32Array(vector.length);
  decodeRow(stored, { precision, codes, exponents }, 0);
  return stored;
}

/**
 * The rows of a checked file, ascending. Rows without state get `initial`. `scratch` is the path of
 * a temporary file, made only where the file's rows are not ascending.
 */
export async function* ascendingRows(
  file: RowFile,
  { rows, isAscending }: CheckedRows,
  { spec: { dim }, width }: StoredTable,
  initial: Float32Array,
  { disk, scratch, progress }: { disk: Disk; scratch: string; progress: Progress },
): AsyncGenerator<RowRecords, void, undefined> {
  const records = recordsOf(file, initial, progress);
  if (isAscending) {
    yield* records;
    return;
  }
  const floats = dim + width;
  const sorted = onDisk("create", scratch, () => disk.open(scratch, "write"));
  try {
    for await (const chunk of records) {
      for (const [i, row] of chunk.rows.entries()) {
        const record = new Float32Array(floats);
        record.set(chunk.weights.subarray(i * dim, (i + 1) * dim));
        record.set(chunk.state.subarray(i * width, (i + 1) * width), dim);
        const bytes = new Uint8Array(record.buffer);
        onDisk("write", scratch, () => sorted.write(bytes, 4 * floats * row));
      }
    }
    const found = new Int32Array(fileRowsMax);
    const record = new Float32Array(floats);
    for (let count = rows.list(0, found); count > 0; ) {
      const chunk = found.slice(0, count);
      const weights = new Float32Array(count * dim);
      const state = new Float32Array(count * width);
      for (const [i, row] of chunk.entries()) {
        const bytes = new Uint8Array(record.buffer);
        onDisk("read", scratch, () => sorted.read(bytes, 4 * floats * row));
        weights.set(record.subarray(0, dim), i * dim);
        state.set(record.subarray(dim), i * width);
      }
      await progress.breathe();
      yield { rows: chunk, weights, state };
      count = rows.list((chunk[count - 1] ?? 0) + 1, found);
    }
  } finally {
    sorted.close();
    disk.remove(scratch);
  }
}

async function* recordsOf(
  file: RowFile,
  initial: Float32Array,
  progress: Progress,
): AsyncGenerator<RowRecords, void, undefined> {
  for await (const { ids, vectors, state } of file.chunks()) {
    await progress.breathe();
    yield {
      rows: Int32Array.from(ids, Number),
      weights: vectors,
      state: state ?? repeated(initial, ids.length),
    } satisfies RowRecords;
  }
}

/** (count, W): the same state for each row. */
function repeated(state: Float32Array, count: number): Float32Array {
  const all = new Float32Array(count * state.length);
  for (let i = 0; i < count; i++) all.set(state, i * state.length);
  return all;
}
