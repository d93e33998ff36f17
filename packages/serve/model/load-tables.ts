// Loads the tables of a checkpoint for a served model, in bounded slices of the thread, so that
// another model can serve meanwhile.

import {
  createServedMemory,
  type IdRow,
  idsOfTable,
  type Kernels,
  keyOf,
  type OpenCheckpoint,
  type Progress,
  type RowRecords,
  type Rows,
  recordBytesOf,
  rowsOfTable,
  ServedIds,
  type ServedTable,
  type StoredTable,
  servedStateWidth,
  storedTables,
  type TableMemory,
  type TableSpec,
} from "../../../internal.ts";
import { bear, type RowBirth } from "./born-rows.ts";
import type { TierPlaces } from "./choose-tiers.ts";
import { RowCopies, RowFile } from "./row-file.ts";
import { TieredTable } from "./tiered-table.ts";

/** A table of one version of a served model. */
export interface LoadedTable extends ServedTable {
  /** Its rows in memory; undefined: the rows are on disk. */
  readonly memory: TableMemory | undefined;
  /** Its rows on disk; undefined: all rows are in memory. */
  readonly tier: OwnTier | undefined;
  /** The map from dynamic ids to rows; undefined: the table has no dynamic ids. */
  readonly ids: ServedIds | undefined;
  /** Bytes of a row's record (`gatherRecords`). */
  readonly recordBytes: number;
}

/** A table on disk, and the copies of its rows that one version uses. */
export interface OwnTier {
  readonly table: TieredTable;
  readonly copies: RowCopies;
}

/** Rows that are moved in one slice of the thread, which takes some hundred microseconds. */
export const sliceRows = 2048;

/** Inputs for loading a table. */
interface Loading {
  readonly checkpoint: OpenCheckpoint;
  readonly kernels: Kernels;
  readonly progress: Progress;
}

/**
 * Loads all tables, in the order of the job.
 * @throws CheckpointCorruptError, TierDiskFullError, TierWriteError
 */
export async function loadTables(
  checkpoint: OpenCheckpoint,
  kernels: Kernels,
  progress: Progress,
  places: TierPlaces,
): Promise<LoadedTable[]> {
  const { job } = checkpoint;
  const { sparse } = job.optimizer;
  const inMemory = job.model.tables.filter((_, table) => places.shapes[table] === undefined);
  const memories = createServedMemory(kernels, inMemory, sparse)[Symbol.iterator]();
  const key = keyOf(job.seed);
  const loaded: LoadedTable[] = [];
  const loading = { checkpoint, kernels, progress };
  try {
    for (const stored of storedTables(checkpoint)) {
      const { spec, table } = stored;
      progress.expect(stored.bytes);
      const ids = await readIds(loading, stored);
      const recordBytes = recordBytesOf(spec, servedStateWidth(sparse, spec.dim));
      const birth = { spec, table, key };
      const shape = places.shapes[table];
      if (shape === undefined) {
        const memory: TableMemory | undefined = memories.next().value;
        if (memory === undefined) throw new RangeError(`There is no memory of table ${spec.name}`);
        await fillMemory(loading, stored, birth, memory);
        const at = { rows: memory.rows, places: memory.homes, base: memory.base };
        loaded.push({ ...at, find: ids?.find, memory, tier: undefined, ids, recordBytes });
        continue;
      }
      const { disk, directory } = places;
      const file = new RowFile(disk, directory, { ...spec, recordBytes });
      const tiered = new TieredTable(
        kernels,
        birth,
        shape,
        file,
        servedStateWidth(sparse, spec.dim),
      );
      const tier = { table: tiered, copies: new RowCopies() };
      loaded.push(tieredTable(tier, ids, recordBytes));
      await fillFile(loading, stored, tier);
    }
    return loaded;
  } catch (error) {
    for (const { tier } of loaded) tier?.table.close();
    throw error;
  }
}

/** A table on disk, whose cache slots the kernels read. */
export function tieredTable(
  tier: OwnTier,
  ids: ServedIds | undefined,
  recordBytes: number,
): LoadedTable {
  const { table } = tier;
  const find: LoadedTable["find"] = (low, high) => {
    const row = ids === undefined ? low : ids.find(low, high);
    return row < 0 ? -1 : table.placeOf(row);
  };
  const at = { rows: table.rows, places: undefined, base: 0, find };
  return { ...at, memory: undefined, tier, ids, recordBytes };
}

async function fillMemory(
  loading: Loading,
  { spec, ...stored }: StoredTable,
  birth: RowBirth,
  memory: TableMemory,
): Promise<void> {
  const { kernels, progress } = loading;
  const placeOf = (row: number) => memory.homes?.[row] ?? row + memory.base;
  for (let first = 0; first < spec.rows; first += sliceRows) {
    const ids = range(first, Math.min(spec.rows, first + sliceRows));
    bear(kernels, memory.rows, ids.map(placeOf), ids, birth);
    await progress.breathe();
  }
  await eachSlice(loading, { spec, ...stored }, (rows, records) => {
    kernels.scatterRecords(memory.rows, rows.map(placeOf), records);
  });
}

/** Writes the trained rows to disk; all others are initialised when they are looked up. */
async function fillFile(
  loading: Loading,
  stored: StoredTable,
  { table, copies }: OwnTier,
): Promise<void> {
  await eachSlice(loading, stored, (rows, records) => {
    table.file.write(rows, records, () => 0);
    for (const row of rows) if (copies.of(row) < 0) copies.turn(row);
  });
}

/** Passes the stored rows of a table and their records to `take`, in slices of the thread. */
async function eachSlice(
  { checkpoint, kernels, progress }: Loading,
  stored: StoredTable,
  take: (rows: Int32Array, records: Uint8Array) => void,
): Promise<void> {
  const { spec } = stored;
  const width = servedStateWidth(checkpoint.job.optimizer.sparse, spec.dim);
  const maker = new RecordMaker(kernels, spec, width);
  for await (const chunk of rowsOfTable(checkpoint, stored, progress)) {
    for (let at = 0; at < chunk.rows.length; at += sliceRows) {
      const some = slicedRecords(chunk, at, Math.min(chunk.rows.length, at + sliceRows));
      take(some.rows, maker.recordsOf(some));
      await progress.breathe();
    }
  }
}

async function readIds({ checkpoint, progress }: Loading, { spec, table }: StoredTable) {
  const own = idsOfTable(checkpoint, table);
  return own && (await servedIds(spec, [...own.all()].reverse(), progress));
}

/** Builds the id map. The highest row should come first, so that memory is allocated once. */
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
  bornRecords(ids: Int32Array, birth: RowBirth): Uint8Array {
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

/** Extracts the moving average's lag and steps (n, width) from all state (n, ·): first and last. */
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

function range(first: number, end: number): Int32Array {
  return Int32Array.from({ length: end - first }, (_, i) => first + i);
}
