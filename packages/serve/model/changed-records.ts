// Finds the rows of a table that differ between two checkpoints, as records. If the later
// checkpoint consists of the earlier one and increments, or both have the same baseline, only the
// increments are read; else both tables are read in step.

import {
  decodeRows,
  idsOfTable,
  type Kernels,
  keyOf,
  mergeFiles,
  type OpenCheckpoint,
  type Progress,
  partsByName,
  type RowRecords,
  rowsOfTable,
  type StoredTable,
  servedStateWidth,
  withIds,
} from "../../../internal.ts";
import { RecordMaker, slicedRecords, sliceRows } from "./row-records.ts";

/** Ascending rows and their concatenated records; valid until the next chunk. */
export interface Records {
  readonly rows: Int32Array;
  readonly bytes: Uint8Array;
}

/** A table in two checkpoints of a job: `table` in `from`, `later` in `to`. */
export interface TwoCheckpoints {
  readonly from: OpenCheckpoint;
  readonly to: OpenCheckpoint;
  readonly table: StoredTable;
  readonly later: StoredTable;
  readonly kernels: Kernels;
}

/** Rows of `to` that differ from those of `from`, in chunks of at most `sliceRows`. */
export async function* changedRecords(
  both: TwoCheckpoints,
  progress: Progress,
): AsyncGenerator<Records, void, undefined> {
  const { to, later, kernels } = both;
  const { sparse } = to.job.optimizer;
  const maker = () =>
    new RecordMaker(kernels, later.spec, servedStateWidth(sparse, later.spec.dim));
  const initial = { spec: later.spec, table: later.table, key: keyOf(to.job.seed) };
  const reader = maker();
  const between = incrementsBetween(both);
  const { table, from } = both;
  const known = between?.known ?? (between ? [] : rowsOfTable(from, table, progress));
  const found = between?.found ?? rowsOfTable(to, later, progress);
  const before = new Cursor(recordsOf(maker(), known, progress), reader.recordBytes);
  const rest = new Cursor(recordsOf(maker(), found, progress), reader.recordBytes);
  // Increments do not show which rows lost their ids, so these rows are found by the ids.
  const gone = between && freedRows(both)[Symbol.iterator]();
  const out = new Chunk(reader.recordBytes);
  await rest.next();
  await before.next();
  const nextGone = () => gone?.next().value ?? Number.POSITIVE_INFINITY;
  let freed = nextGone();
  for (;;) {
    const row = Math.min(before.row, rest.row, freed);
    if (row === Number.POSITIVE_INFINITY) break;
    if (rest.row !== row) out.add(row, reader.initialRecords(Int32Array.of(row), initial));
    else if (before.row !== row || !before.isSame(rest)) out.add(row, rest.record());
    if (freed === row) freed = nextGone();
    if (before.row === row) await before.next();
    if (rest.row === row) await rest.next();
    if (out.isFull) yield out.take();
  }
  yield out.take();
}

/** Rows of increments. */
interface Increments {
  /** Rows of the later checkpoint that may differ from the earlier one. */
  readonly found: Iterable<RowRecords>;
  /** Rows in the earlier checkpoint's own increment; a found row that is not in it differs. */
  readonly known: Iterable<RowRecords> | undefined;
}

/**
 * The increments by which `to` differs from `from`; undefined: `to` neither consists of `from` and
 * later increments, nor have both the same baseline, or the table's columns are split over several
 * parts.
 */
function incrementsBetween({ from, to, later }: TwoCheckpoints): Increments | undefined {
  const partOf = ({ manifest }: OpenCheckpoint, name: string | undefined) =>
    partsByName(manifest).get(name ?? "");
  const [found, known]: [Iterable<RowRecords>[], Iterable<RowRecords>[]] = [[], []];
  for (const { tiles } of later.runs) {
    const [tile, second] = tiles;
    const [after, before] = [partOf(to, tile?.name), partOf(from, tile?.name)];
    if (tile === undefined || second !== undefined || !after || !before) return undefined;
    const at = after.base.findIndex(({ sha256, cut }) => {
      return sha256 === before.sha256 && cut === from.manifest.cut;
    });
    const isSibling =
      to.job.checkpoint.differential !== "consecutive" &&
      after.base.length === 1 &&
      before.base.length === 1 &&
      after.base[0]?.sha256 === before.base[0]?.sha256;
    if (at < 0 && !isSibling) return undefined;
    found.push(newestOf(to, later, tile.name, at < 0 ? 1 : after.base.length - at));
    if (at < 0) known.push(newestOf(from, later, tile.name, 1));
  }
  return { found: joined(found), known: known.length === 0 ? undefined : joined(known) };
}

/** The rows in the newest `count` files of a part; of dynamic tables only rows that have an id. */
function newestOf(
  checkpoint: OpenCheckpoint,
  { table, spec, width }: StoredTable,
  name: string,
  count: number,
): Iterable<RowRecords> {
  const { store, manifest } = checkpoint;
  const files = store.readFiles(manifest, name).slice(0, count);
  const expect = { dim: spec.dim, width, path: name, rows: spec.rows };
  const rows = mergeFiles(files.map((pieces) => decodeRows(pieces, expect)));
  const ids = idsOfTable(checkpoint, table);
  return ids === undefined ? rows : withIds(ids, rows);
}

function* joined(runs: readonly Iterable<RowRecords>[]): Generator<RowRecords> {
  for (const run of runs) yield* run;
}

/** Rows of a dynamic table that have an id in `from` but not in `to`, ascending. */
function* freedRows({ from, to, later }: TwoCheckpoints): Generator<number, undefined> {
  const [before, after] = [idsOfTable(from, later.table), idsOfTable(to, later.table)];
  for (const { row } of before?.all() ?? []) if (after?.idOf(row) === undefined) yield row;
}

async function* recordsOf(
  maker: RecordMaker,
  chunks: AsyncIterable<RowRecords> | Iterable<RowRecords>,
  progress: Progress,
): AsyncGenerator<Records, void, undefined> {
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.rows.length; at += sliceRows) {
      const some = slicedRecords(chunk, at, Math.min(chunk.rows.length, at + sliceRows));
      yield { rows: some.rows, bytes: maker.recordsOf(some) };
      await progress.breathe();
    }
  }
}

/** A stream of records with a current record. */
class Cursor {
  readonly #source: AsyncGenerator<Records, void, undefined>;
  readonly #recordBytes: number;
  #chunk: Records | undefined;
  #at = -1;

  constructor(source: AsyncGenerator<Records, void, undefined>, recordBytes: number) {
    this.#source = source;
    this.#recordBytes = recordBytes;
  }

  /** The current row number; Infinity after the last row. */
  get row(): number {
    return this.#chunk?.rows[this.#at] ?? Number.POSITIVE_INFINITY;
  }

  /** The record of the current row. */
  record(): Uint8Array {
    const first = this.#at * this.#recordBytes;
    return this.#chunk?.bytes.subarray(first, first + this.#recordBytes) ?? new Uint8Array();
  }

  isSame(other: Cursor): boolean {
    return Buffer.compare(this.record(), other.record()) === 0;
  }

  async next(): Promise<void> {
    this.#at++;
    while (this.#chunk === undefined || this.#at >= this.#chunk.rows.length) {
      const found = await this.#source.next();
      this.#at = 0;
      this.#chunk = found.done === true ? undefined : found.value;
      if (this.#chunk === undefined) return;
    }
  }
}

/** Collects records up to a full chunk. */
class Chunk {
  readonly #recordBytes: number;
  readonly #rows = new Int32Array(sliceRows);
  readonly #bytes: Uint8Array;
  #count = 0;

  constructor(recordBytes: number) {
    this.#recordBytes = recordBytes;
    this.#bytes = new Uint8Array(sliceRows * recordBytes);
  }

  get isFull(): boolean {
    return this.#count === sliceRows;
  }

  add(row: number, record: Uint8Array): void {
    this.#rows[this.#count] = row;
    this.#bytes.set(record, this.#count * this.#recordBytes);
    this.#count++;
  }

  /** Returns the collected records and empties the chunk. */
  take(): Records {
    const count = this.#count;
    this.#count = 0;
    const bytes = this.#bytes.subarray(0, count * this.#recordBytes);
    return { rows: this.#rows.subarray(0, count), bytes };
  }
}
