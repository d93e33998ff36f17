// The rows of a served table: their initial values, and their records, in which they are stored.

import {
  type Kernels,
  type Key,
  type RowRecords,
  type Rows,
  recordBytesOf,
  rowBirthOf,
  type TableSpec,
} from "../../../internal.ts";

/** Rows that are moved in one slice of the thread, which takes some hundred microseconds. */
export const sliceRows = 2048;

/** The inputs that determine the initial values of a table's rows. */
export interface InitialRows {
  readonly spec: TableSpec;
  /** Index of the table in the job. */
  readonly table: number;
  readonly key: Key;
}

/** Gives the rows `ids` of a table, which no step has trained, their values in slots `places`. */
export function initialiseRows(
  kernels: Kernels,
  rows: Rows,
  places: Int32Array,
  ids: Int32Array,
  { spec, table, key }: InitialRows,
): void {
  const { purpose, scale } = rowBirthOf(spec, table);
  kernels.bornAt(rows, places, ids, key, purpose, scale, 0);
}

/** Encodes rows as records: their stored bytes, in the table's precision. */
export class RecordMaker {
  readonly #kernels: Kernels;
  readonly #rows: Rows;
  readonly #places = range(0, sliceRows);
  readonly #width: number;
  #bytes = new Uint8Array(0);

  constructor(
    kernels: Kernels,
    { dim, precision }: Pick<TableSpec, "dim" | "precision">,
    stateWidth: number,
  ) {
    this.#kernels = kernels;
    this.#width = stateWidth;
    this.#rows = kernels.rows({
      ...{ rows: sliceRows, dim, precision, stateWidth, averaged: stateWidth > 0 },
      ...{ pooling: "sum", rowBlocks: 1 },
    });
  }

  /** The records of at most `sliceRows` rows, valid until the next call. */
  recordsOf({ rows, weights, state }: RowRecords): Uint8Array {
    const kernels = this.#kernels;
    const { length: count } = rows;
    kernels.writeRows(this.#rows, 0, weights);
    if (this.#width > 0 && count > 0) {
      const served = servedState(state, count, this.#width);
      kernels.write(kernels.part(this.#rows.state, 0, count), served);
    }
    return this.#gather(count);
  }

  /** The records of rows with their initial values. */
  initialRecords(ids: Int32Array, initial: InitialRows): Uint8Array {
    initialiseRows(this.#kernels, this.#rows, this.#places.subarray(0, ids.length), ids, initial);
    return this.#gather(ids.length);
  }

  #gather(count: number): Uint8Array {
    const places = this.#places.subarray(0, count);
    const bytes = count * this.recordBytes;
    if (this.#bytes.length < bytes) this.#bytes = new Uint8Array(sliceRows * this.recordBytes);
    const out = this.#bytes.subarray(0, bytes);
    this.#kernels.gatherRecords(out, this.#rows, places);
    return out;
  }

  get recordBytes(): number {
    return recordBytesOf(this.#rows, this.#width);
  }
}

/** Extracts the moving average's lag and steps (n, width) from all state (n, ·): first and last. */
function servedState(state: Float32Array, count: number, width: number): Float32Array {
  const stored = state.length / count;
  if (stored === width) return state;
  const served = new Float32Array(count * width);
  for (let row = 0; row < count; row++) {
    served.set(state.subarray(row * stored, row * stored + width - 1), row * width);
    served[(row + 1) * width - 1] = state[(row + 1) * stored - 1] ?? 0;
  }
  return served;
}

/** Records `from` to `to` - 1. */
export function slicedRecords(
  { rows, weights, state }: RowRecords,
  from: number,
  to: number,
): RowRecords {
  const [dim, width] = [weights.length / rows.length, state.length / rows.length];
  return {
    rows: rows.subarray(from, to),
    weights: weights.subarray(from * dim, to * dim),
    state: state.subarray(from * width, to * width),
  };
}

/** The integers from `first` to `end` - 1. */
export function range(first: number, end: number): Int32Array {
  return Int32Array.from({ length: end - first }, (_, i) => first + i);
}
