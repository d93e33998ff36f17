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
import type { TierPlaces } from "./choose-tiers.ts";
import { RowCopies, RowFile } from "./row-file.ts";
import {
  type InitialRows,
  initialiseRows,
  RecordMaker,
  range,
  slicedRecords,
  sliceRows,
} from "./row-records.ts";
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
      const initial = { spec, table, key };
      const shape = places.shapes[table];
      if (shape === undefined) {
        const memory: TableMemory | undefined = memories.next().value;
        if (memory === undefined) throw new RangeError(`There is no memory of table ${spec.name}`);
        await fillMemory(loading, stored, initial, memory);
        const at = { rows: memory.rows, places: memory.homes, base: memory.base };
        loaded.push({ ...at, find: ids?.find, memory, tier: undefined, ids, recordBytes });
        continue;
      }
      const { disk, directory } = places;
      const file = new RowFile(disk, directory, { ...spec, recordBytes });
      const tiered = new TieredTable(
        kernels,
        initial,
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
  initial: InitialRows,
  memory: TableMemory,
): Promise<void> {
  const { kernels, progress } = loading;
  const placeOf = (row: number) => memory.homes?.[row] ?? row + memory.base;
  for (let first = 0; first < spec.rows; first += sliceRows) {
    const ids = range(first, Math.min(spec.rows, first + sliceRows));
    initialiseRows(kernels, memory.rows, ids.map(placeOf), ids, initial);
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
  const ids = idsOfTable(checkpoint, table);
  return ids && (await servedIds(spec, [...ids.all()].reverse(), progress));
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
