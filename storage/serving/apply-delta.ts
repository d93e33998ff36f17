// Puts the tables of a delta beside those of the version that serves, in slices of the thread that
// are short: between two of them, requests are answered by the version that serves.
//
// Invariants
//   A1. Nothing of the version that serves is written: rows go to spare places, or to the copies on
//       disk that it does not have; maps and ids are new ones.
//   A2. Where anything fails, every place that was taken is spare again.

import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { CheckpointCorruptError, DeltaRefusedError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import type { IdRow } from "../../src/serving/served-ids.ts";
import type { TableMemory } from "../../src/serving/served-memory.ts";
import { chunksOf, type DeltaData, type DeltaIndex, type DeltaTable } from "./delta-file.ts";
import { type LoadedTable, type OwnTier, servedIds, tieredTable } from "./load-tables.ts";

/** Tables of the next version, and places: those that it took, and those that it leaves. */
export interface NextTables {
  readonly tables: readonly LoadedTable[];
  /** Has cached rows that differ be read anew. Nothing else is scored between it and the turn. */
  enter(): Promise<void>;
  /** Makes the places of the version before spare: once nothing reads them any more. */
  leave(): Promise<void>;
  /** Makes the places of this version spare again: it will not serve. */
  undo(): Promise<void>;
}

/** Yields the thread. @throws the signal's reason */
type Breathe = () => Promise<void>;

/**
 * The tables of the version that a delta leads to. Reads its data, but for the dense parameters.
 * @throws CheckpointCorruptError, DeltaRefusedError
 */
export async function nextTables(
  kernels: Kernels,
  job: JobSpec,
  current: readonly LoadedTable[],
  index: DeltaIndex,
  data: DeltaData,
  { path, signal }: { readonly path: string; readonly signal: AbortSignal | undefined },
): Promise<NextTables> {
  const breathe = async (): Promise<void> => {
    await setImmediate();
    signal?.throwIfAborted();
  };
  const takers: TakenPlaces[] = [];
  const undo = async () => {
    for (const taker of takers) await taker.giveBack("taken");
  };
  try {
    const tables: LoadedTable[] = [];
    for (const [i, table] of current.entries()) {
      const of = index.tables[i];
      const spec = job.model.tables[i];
      if (of === undefined || spec?.name !== of.name || of.recordBytes !== table.recordBytes) {
        throw new DeltaRefusedError(path, "it has other tables than the model that serves");
      }
      if (table.tier !== undefined) {
        const tier = await writeCopies(table.tier, of, data, { path, rows: spec.rows, breathe });
        const ids = await nextIds(table, spec, of, data, breathe);
        tables.push(tieredTable(tier, ids, table.recordBytes));
        continue;
      }
      assert(table.memory !== undefined, "a table lies on disk or in memory");
      const taker = new TakenPlaces(table, table.memory, path);
      takers.push(taker);
      const places = await placeRows(kernels, taker, of, data, spec.rows, breathe);
      const ids = await nextIds(table, spec, of, data, breathe);
      tables.push({ ...table, places, ids, find: ids?.find });
    }
    return {
      tables,
      undo,
      async enter() {
        for (const [i, { tier }] of current.entries()) {
          const after = tables[i]?.tier?.copies;
          if (tier === undefined || after === undefined || after === tier.copies) continue;
          await tier.table.forget(tier.copies, after, () => setImmediate());
        }
      },
      async leave() {
        for (const taker of takers) await taker.giveBack("left");
      },
    };
  } catch (error) {
    await undo(); // A2
    throw error;
  }
}

/** Entries of a map that are copied in one slice. */
const sliceEntries = 2 ** 14;

/** Writes the changed rows to spare places. Returns the map from rows to places. */
async function placeRows(
  kernels: Kernels,
  taker: TakenPlaces,
  of: DeltaTable,
  data: DeltaData,
  tableRows: number,
  breathe: Breathe,
): Promise<Int32Array | undefined> {
  const { table } = taker;
  if (of.changed === 0) return table.places;
  const places = new Int32Array(tableRows);
  for (let first = 0; first < tableRows; first += sliceEntries) {
    const end = Math.min(tableRows, first + sliceEntries);
    if (table.places !== undefined) places.set(table.places.subarray(first, end), first);
    else for (let row = first; row < end; row++) places[row] = row + table.base;
    await breathe();
  }
  for await (const { rows, bytes } of changedRows(of, data, {
    path: taker.path,
    rows: tableRows,
  })) {
    await breathe();
    const taken = taker.take(rows, places);
    kernels.scatterRecords(table.rows, taken, bytes); // A1
    await breathe();
  }
  return places;
}

/** Writes the changed rows to their other copies on disk. Returns those of the next version. */
async function writeCopies(
  { table, copies: current }: OwnTier,
  of: DeltaTable,
  data: DeltaData,
  { breathe, ...extent }: { path: string; rows: number; breathe: Breathe },
): Promise<OwnTier> {
  if (of.changed === 0) return { table, copies: current };
  const copies = current.clone();
  for await (const { rows, bytes } of changedRows(of, data, extent)) {
    await breathe();
    table.file.write(rows, bytes, (row) => current.spareOf(row)); // A1
    for (const row of rows) copies.turn(row);
    await breathe();
  }
  return { table, copies };
}

/** The changed rows of a table, with their records. @throws CheckpointCorruptError */
async function* changedRows(
  of: DeltaTable,
  data: DeltaData,
  { path, rows: tableRows }: { readonly path: string; readonly rows: number },
): AsyncGenerator<{ readonly rows: Int32Array; readonly bytes: Uint8Array }> {
  let last = -1;
  for (const { at, rows: count } of chunksOf(of)) {
    const bytes = await data.next(at, count * (4 + of.recordBytes));
    const rows = new Int32Array(bytes.buffer, 0, count);
    for (const row of rows) {
      if (row <= last || row >= tableRows) {
        throw new CheckpointCorruptError(path, `row ${row} behind row ${last}`);
      }
      last = row;
    }
    yield { rows, bytes: bytes.subarray(4 * count) };
  }
}

/** The ids of the next version; those of the current one where none changed. */
async function nextIds(
  { ids }: LoadedTable,
  spec: JobSpec["model"]["tables"][number],
  { ids: of }: DeltaTable,
  data: DeltaData,
  breathe: Breathe,
): Promise<LoadedTable["ids"]> {
  if (of === undefined || ids === undefined) return ids;
  const { changed, freed } = of;
  const bytes = await data.next(of.at, 4 * (changed + freed) + 8 * changed);
  if (changed + freed === 0) return ids;
  const rows = new Int32Array(bytes.buffer, 0, changed + freed);
  const values = new BigInt64Array(bytes.slice(4 * (changed + freed)).buffer);
  const gone = new Set(rows);
  const come = Array.from(rows.subarray(0, changed), (row, i): IdRow => {
    return { row, id: values[i] ?? 0n };
  }).reverse();
  return servedIds(spec, descending(ids.descending(), come, gone, spec), { breathe });
}

/** Ids that stay and ids that come, by row, descending: then memory grows once. */
function* descending(
  known: Iterable<IdRow>,
  come: readonly IdRow[],
  gone: ReadonlySet<number>,
  { rows }: { readonly rows: number },
): Generator<IdRow, void, undefined> {
  // The highest row first; all others in any order.
  const [highest] = come;
  if (highest !== undefined && highest.row < rows) yield highest;
  for (const one of known) if (!gone.has(one.row)) yield one;
  yield* come.slice(1);
}

/** Places of some rows: those that they take, and those that they leave. */
interface Moved {
  readonly rows: Int32Array;
  readonly taken: Int32Array;
  readonly left: Int32Array;
}

/** The places that a table's next version takes, and those that it leaves. */
class TakenPlaces {
  readonly table: LoadedTable;
  readonly path: string;
  readonly #memory: TableMemory;
  readonly #moved: Moved[] = [];

  constructor(table: LoadedTable, memory: TableMemory, path: string) {
    this.table = table;
    this.#memory = memory;
    this.path = path;
  }

  /** Places for the new content of rows, which lie at `places` now: these become the new ones. */
  take(rows: Int32Array, places: Int32Array): Int32Array {
    const memory = this.#memory;
    const [taken, left] = [new Int32Array(rows.length), new Int32Array(rows.length)];
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i] ?? 0;
      const place = memory.sparesOf(row).take();
      if (place < 0) {
        this.#moved.push({ rows: rows.subarray(0, i), taken: taken.subarray(0, i), left });
        const why = "it changes more rows than there is room for beside those that serve";
        throw new DeltaRefusedError(this.path, why);
      }
      taken[i] = place;
      left[i] = places[row] ?? 0;
      places[row] = place;
    }
    this.#moved.push({ rows: rows.slice(), taken, left });
    return taken;
  }

  /** Makes places spare. The calling code reads neither kind of them any more. */
  async giveBack(which: "taken" | "left"): Promise<void> {
    const memory = this.#memory;
    for (const { rows, ...moved } of this.#moved.splice(0)) {
      const places = moved[which];
      if (memory.homes === undefined) memory.sparesOf(0).give(places);
      else {
        for (const [i, row] of rows.entries()) memory.sparesOf(row).give(places.slice(i, i + 1));
        await setImmediate();
      }
    }
  }
}
