// Reads the tables of a checkpoint into the memory of a served model, in bounded slices of the
// thread: another model may serve meanwhile.

import type { RowRecords } from "../../src/embedding/rows/row-records.ts";
import { rowBirthOf } from "../../src/embedding/rows/slab.ts";
import type { TableSpec } from "../../src/embedding/tables/options.ts";
import type { Kernels, Rows } from "../../src/kernels/contract/kernels.ts";
import { recordBytesOf } from "../../src/kernels/contract/records.ts";
import { type Key, keyOf } from "../../src/ports/random.ts";
import type { ServedTable } from "../../src/serving/scorer.ts";
import { type IdRow, ServedIds } from "../../src/serving/served-ids.ts";
import {
  createServedMemory,
  servedStateWidth,
  type TableMemory,
} from "../../src/serving/served-memory.ts";
import type { OpenCheckpoint } from "../checkpoints/open-checkpoint.ts";
import { idsOfTable } from "../checkpoints/part-ids.ts";
import { rowsOfTable, storedTables } from "../checkpoints/table-rows.ts";
import type { Progress } from "../disk/progress.ts";

/** A table of a served model: its memory, and what one version has of it. */
export interface LoadedTable extends ServedTable {
  readonly memory: TableMemory;
  /** Which dynamic id has which row; undefined: ids are rows. */
  readonly ids: ServedIds | undefined;
}

/** Rows that are moved in one slice: some hundred microseconds. */
export const sliceRows = 2048;

/** All tables, in the order of the job. @throws CheckpointCorruptError */
export async function loadTables(
  checkpoint: OpenCheckpoint,
  kernels: Kernels,
  progress: Progress,
): Promise<LoadedTable[]> {
  const { job } = checkpoint;
  const { sparse } = job.optimizer;
  const memories = createServedMemory(kernels, job.model.tables, sparse);
  const key = keyOf(job.seed);
  const loaded: LoadedTable[] = [];
  for (const stored of storedTables(checkpoint)) {
    const { spec, table } = stored;
    const memory = memories[table];
    if (memory === undefined) throw new RangeError(`There is no memory of table ${spec.name}`);
    progress.expect(stored.bytes);
    const placeOf = (row: number) => memory.homes?.[row] ?? row + memory.base;
    for (let first = 0; first < spec.rows; first += sliceRows) {
      const ids = range(first, Math.min(spec.rows, first + sliceRows));
      bear(kernels, memory.rows, ids.map(placeOf), ids, { spec, table, key });
      await progress.breathe();
    }
    const maker = new RecordMaker(kernels, spec, servedStateWidth(sparse, spec.dim));
    for await (const chunk of rowsOfTable(checkpoint, stored, progress)) {
      for (let at = 0; at < chunk.rows.length; at += sliceRows) {
        const some = slicedRecords(chunk, at, Math.min(chunk.rows.length, at + sliceRows));
        kernels.scatterRecords(memory.rows, some.rows.map(placeOf), maker.recordsOf(some));
        await progress.breathe();
      }
    }
    const own = idsOfTable(checkpoint, table);
    const ids = own && (await servedIds(spec, [...own.all()].reverse(), progress));
    const at = { rows: memory.rows, places: memory.homes, base: memory.base };
    loaded.push({ ...at, find: ids?.find, memory, ids });
  }
  return loaded;
}

/** Ids by these rows, which descend. */
export async function servedIds(
  spec: TableSpec,
  ids: Iterable<IdRow>,
  progress: Pick<Progress, "breathe">,
): Promise<ServedIds> {
  const made = new ServedIds(spec);
  let count = 0;
  for (const one of ids) {
    made.put(one);
    if (++count % sliceRows === 0) await progress.breathe();
  }
  return made;
}

/** Gives rows at these places the values that they begin with. */
export function bear(
  kernels: Kernels,
  rows: Rows,
  places: Int32Array,
  ids: Int32Array,
  { spec, table, key }: { spec: TableSpec; table: number; key: Key },
): void {
  const { purpose, scale } = rowBirthOf(spec, table);
  kernels.bornAt(rows, places, ids, key, purpose, scale, 0);
}

/** Makes records of rows: their stored bytes, as a table's precision has them. */
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

  /** The records of rows as they begin. */
  bornRecords(ids: Int32Array, birth: { spec: TableSpec; table: number; key: Key }): Uint8Array {
    bear(this.#kernels, this.#rows, this.#places.subarray(0, ids.length), ids, birth);
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

/** The lag and the steps of rows (n, width), of all state (n, ·): lag first, steps last. */
function servedState(state: Float32Array, count: number, width: number): Float32Array {
  const own = state.length / count;
  if (own === width) return state;
  const served = new Float32Array(count * width);
  for (let row = 0; row < count; row++) {
    served.set(state.subarray(row * own, row * own + width - 1), row * width);
    served[(row + 1) * width - 1] = state[(row + 1) * own - 1] ?? 0;
  }
  return served;
}

/** Records `from`..`to`-1 of some. */
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

function range(first: number, end: number): Int32Array {
  return Int32Array.from({ length: end - first }, (_, i) => first + i);
}
