// Builds the tables of a delta's version beside those of the serving version. The work is done in
// short slices of the thread, between which the serving version answers requests.
//
// Invariants
//   A1. Nothing that the serving version reads is written: changed rows go to spare slots, or to
//       the copies on disk that the serving version does not use; maps and ids are new objects.
//   A2. If anything fails, every slot that was taken is spare again.

import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import {
  CheckpointCorruptError,
  DeltaRefusedError,
  type IdRow,
  type JobSpec,
  type Kernels,
  type OpenedModel,
  type Scorer,
  type TableMemory,
} from "../../../internal.ts";
import { chunksOf, type DeltaData, type DeltaIndex, type DeltaTable } from "./delta-file.ts";
import { type LoadedTable, type OwnTier, servedIds, tieredTable } from "./load-tables.ts";

/** The tables of the next version, and the handling of the slots that it takes and leaves. */
export interface NextTables {
  readonly tables: readonly LoadedTable[];
  /**
   * Invalidates cached rows that differ. Between this call and the switch, nothing may be scored.
   */
  enter(): Promise<void>;
  /** Frees the former version's slots. Call it once nothing reads them any more. */
  leave(): Promise<void>;
  /** Frees this version's slots again, if it will not serve. */
  undo(): Promise<void>;
}

/**
 * Checks that a delta applies to the version of a model that serves.
 * @throws DeltaRefusedError
 */
export function checkFollows(
  path: string,
  { jobIdentity, arithmetic, tables, from }: DeltaIndex,
  { manifest, job }: Pick<OpenedModel, "manifest" | "job">,
  serving: { readonly digest: string; readonly step: number },
): void {
  if (jobIdentity !== manifest.jobIdentity || tables.length !== job.model.tables.length) {
    throw new DeltaRefusedError(path, "it belongs to another job than the serving model");
  }
  if (arithmetic !== manifest.arithmetic) {
    throw new DeltaRefusedError(path, `it was trained with the arithmetic ${arithmetic}`);
  }
  if (from.digest === serving.digest && from.step === serving.step) return;
  const start = `it starts from step ${from.step} (${from.digest})`;
  const serves = `the serving version is step ${serving.step} (${serving.digest})`;
  throw new DeltaRefusedError(path, `${start}, but ${serves}`);
}

/** Reads the next version's dense parameters into its scorer. @throws DeltaRefusedError */
export async function nextDense(
  path: string,
  { dense: { at, count } }: DeltaIndex,
  data: DeltaData,
  scorer: Scorer,
): Promise<Float32Array> {
  if (count !== scorer.graph.layout.length) {
    throw new DeltaRefusedError(path, "its layers differ from those of the serving model");
  }
  const bytes = await data.next(at, 4 * count);
  const dense = new Float32Array(bytes.slice().buffer);
  scorer.setDense(dense);
  return dense;
}

/** Yields the thread. @throws the signal's reason */
type Breathe = () => Promise<void>;

/**
 * Builds the tables of a delta's version. Reads the delta's data except the dense parameters.
 * @throws CheckpointCorruptError, DeltaRefusedError
 */
export async function nextTables(
  { kernels, job }: Pick<OpenedModel, "kernels" | "job">,
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
        throw new DeltaRefusedError(path, "its tables differ from those of the serving model");
      }
      if (table.tier !== undefined) {
        const tier = await writeCopies(table.tier, of, data, { path, rows: spec.rows, breathe });
        const ids = await nextIds(table, spec, of, data, breathe);
        tables.push(tieredTable(tier, ids, table.recordBytes));
        continue;
      }
      assert(table.memory !== undefined, "a table that is not on disk is in memory");
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
          await tier.table.invalidate(tier.copies, after, () => setImmediate());
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

/** Map entries that are copied in one slice of the thread. */
const sliceEntries = 2 ** 14;

/** Writes the changed rows to spare slots. Returns the map from rows to slots. */
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

/** Writes the changed rows to their unused copies on disk. Returns the next version's copies. */
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
        throw new CheckpointCorruptError(path, `row ${row} follows row ${last}`);
      }
      last = row;
    }
    yield { rows, bytes: bytes.subarray(4 * count) };
  }
}

/** The ids of the next version; the current ones if none changed. */
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

/** Merges kept and new ids. The highest row comes first, so that memory is allocated once. */
function* descending(
  known: Iterable<IdRow>,
  come: readonly IdRow[],
  gone: ReadonlySet<number>,
  { rows }: { readonly rows: number },
): Generator<IdRow, void, undefined> {
  // Only the first row must be the highest; the others may come in any order.
  const [highest] = come;
  if (highest !== undefined && highest.row < rows) yield highest;
  for (const one of known) if (!gone.has(one.row)) yield one;
  yield* come.slice(1);
}

/** Some rows, with the slots that they take and leave. */
interface Moved {
  readonly rows: Int32Array;
  readonly taken: Int32Array;
  readonly left: Int32Array;
}

/** The slots that a table's next version takes, and those that it leaves. */
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

  /** Takes a spare slot for each row, and updates the map `places`. Returns the slots. */
  take(rows: Int32Array, places: Int32Array): Int32Array {
    const memory = this.#memory;
    const [taken, left] = [new Int32Array(rows.length), new Int32Array(rows.length)];
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i] ?? 0;
      const place = memory.sparesOf(row).take();
      if (place < 0) {
        this.#moved.push({ rows: rows.subarray(0, i), taken: taken.subarray(0, i), left });
        throw new DeltaRefusedError(this.path, "it changes more rows than there are spare slots");
      }
      taken[i] = place;
      left[i] = places[row] ?? 0;
      places[row] = place;
    }
    this.#moved.push({ rows: rows.slice(), taken, left });
    return taken;
  }

  /** Makes slots spare. The caller must not read them any more. */
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
