// Reads whole rows of one table of a checkpoint, however the table was sharded into tiles. Parts
// with the same rows are read in step, and their columns joined. One chunk is in memory at a time.

import { mergeFiles, withRows } from "../../src/embedding/checkpoint/incremental-files.ts";
import { decodeRows } from "../../src/embedding/checkpoint/rows-part.ts";
import type { RowRecords } from "../../src/embedding/rows/row-records.ts";
import type { TableSpec } from "../../src/embedding/tables/options.ts";
import { rowStateOf, rowStateWidth } from "../../src/embedding/tables/row-state.ts";
import { extentOf } from "../../src/embedding/tables/shards.ts";
import { CheckpointCorruptError, InvalidOptionError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { StateShape } from "../../src/kernels/contract/kernels.ts";
import { lagShare, type RowAverage } from "../../src/kernels/contract/row-average.ts";
import { tableOfPart } from "../../src/training/checkpoint/part-names.ts";
import type { Progress } from "../disk/progress.ts";
import type { OpenCheckpoint } from "./open-checkpoint.ts";
import { idsOfTable, type TableIds } from "./part-ids.ts";
import { bytesToRead, type Manifest } from "./store/checkpoint-store.ts";
import { partsOfTable } from "./store/part-index.ts";

/** A table in a checkpoint. */
export interface StoredTable {
  readonly spec: TableSpec;
  /** Index of the table in the job. */
  readonly table: number;
  readonly state: StateShape;
  /** State floats of a whole row. */
  readonly width: number;
  /** Its row blocks in order, grouped into runs of blocks that are in the same parts. */
  readonly runs: readonly RowRun[];
  /** Bytes of the table's parts and of their bases. */
  readonly bytes: number;
}

/** Parts that have the same rows and together all columns of them. */
export interface RowRun {
  readonly firstBlock: number;
  readonly blocks: number;
  readonly firstRow: number;
  readonly rows: number;
  readonly tiles: readonly TilePart[];
}

/** One part of a run: a tile. */
interface TilePart {
  readonly name: string;
  readonly firstQuantum: number;
  readonly quanta: number;
  readonly firstColumn: number;
  readonly columns: number;
}

/** All tables of a checkpoint, in the order of the job. */
export function storedTables({ job, manifest }: Pick<OpenCheckpoint, "job" | "manifest">) {
  return job.model.tables.map((_, table) => storedAt(job, manifest, table));
}

/** @throws InvalidOptionError where the job has no table of that name */
export function storedTable(
  { job, manifest }: Pick<OpenCheckpoint, "job" | "manifest">,
  name: string,
): StoredTable {
  const names = job.model.tables.map((one) => one.name);
  const table = names.indexOf(name);
  if (table >= 0) return storedAt(job, manifest, table);
  const known = names.map((one) => `\`${one}\``).join(", ");
  throw new InvalidOptionError("table", `Expected a table of the model, ${known}, got \`${name}\``);
}

function storedAt(job: JobSpec, manifest: Manifest, table: number): StoredTable {
  const { tables } = job.model;
  const spec = tables[table];
  if (spec === undefined) throw new RangeError(`The job has no table ${table}`);
  const { sparse } = job.optimizer;
  const runs = new Map<number, RowRun & { readonly tiles: TilePart[] }>();
  let bytes = 0;
  for (const { tile, part } of partsOfTable(manifest, tables, table).tiles) {
    const { name } = part;
    bytes += bytesToRead(part);
    const { firstBlock, blocks, firstQuantum, quanta } = tile;
    const { firstRow, rows, firstColumn, columns } = extentOf(spec, tile);
    const run = runs.get(firstBlock) ?? { firstBlock, blocks, firstRow, rows, tiles: [] };
    runs.set(firstBlock, run);
    run.tiles.push({ name, firstQuantum, quanta, firstColumn, columns });
  }
  for (const { tiles } of runs.values()) tiles.sort((a, b) => a.firstColumn - b.firstColumn);
  const ordered = [...runs.values()].sort((a, b) => a.firstBlock - b.firstBlock);
  const state = rowStateOf(sparse);
  return { spec, table, state, width: rowStateWidth(sparse, spec.dim), runs: ordered, bytes };
}

/**
 * The initialised rows, ascending, in chunks; each is valid until the next one. The hashes are
 * checked at the end of the stream, so output made from earlier chunks must not count before.
 * @throws CheckpointCorruptError
 */
export async function* rowsOfTable(
  checkpoint: OpenCheckpoint,
  table: StoredTable,
  progress: Progress,
): AsyncGenerator<RowRecords, void, undefined> {
  for (const run of table.runs) {
    for (const rows of rowsOfRun(checkpoint, table, run, progress)) {
      await progress.breathe();
      yield rows;
    }
  }
}

function rowsOfRun(
  checkpoint: OpenCheckpoint,
  table: StoredTable,
  { tiles }: RowRun,
  progress: Progress,
): Iterable<RowRecords> {
  const { perElement, perRow } = table.state;
  const streams = tiles.map(({ name, columns }) => {
    const width = perElement * columns + perRow;
    return rowsOfPart(checkpoint, { name, dim: columns, width }, progress);
  });
  const [only, second] = streams;
  if (only !== undefined && second === undefined) return only;
  return joinColumns(table, tiles, streams);
}

/** Joins the columns of tiles that have the same rows. */
function* joinColumns(
  { spec: { dim }, state, width }: StoredTable,
  tiles: readonly TilePart[],
  streams: readonly Generator<RowRecords>[],
): Generator<RowRecords> {
  const heads = streams.map(() => ({ chunk: undefined as RowRecords | undefined, at: 0 }));
  try {
    for (;;) {
      for (const [i, head] of heads.entries()) {
        if (head.chunk !== undefined && head.at < head.chunk.rows.length) continue;
        const next = streams[i]?.next();
        head.chunk = next?.done === true ? undefined : next?.value;
        head.at = 0;
      }
      const [first] = heads;
      const left = heads.map(({ chunk, at }) => (chunk?.rows.length ?? 0) - at);
      const count = Math.min(...left);
      if (Math.max(...left) === 0 || first?.chunk === undefined) return;
      const rows = first.chunk.rows.slice(first.at, first.at + count);
      const weights = new Float32Array(count * dim);
      const states = new Float32Array(count * width);
      for (const [i, { chunk, at }] of heads.entries()) {
        const tile = tiles[i];
        if (tile === undefined || chunk === undefined || !isSame(rows, chunk.rows, at)) {
          throw new CheckpointCorruptError(tile?.name ?? "", "its rows are not those beside it");
        }
        for (let row = 0; row < count; row++) {
          putTile({ weights, states, dim, state }, row, tile, chunk, at + row);
        }
      }
      for (const head of heads) head.at += count;
      yield { rows, weights, state: states };
    }
  } finally {
    for (const stream of streams) stream.return(undefined);
  }
}

function isSame(rows: Int32Array, others: Int32Array, at: number): boolean {
  return rows.length > 0 && rows.every((row, i) => row === others[at + i]);
}

/** Copies row `from` of a tile's chunk into whole row `to`. */
function putTile(
  whole: { weights: Float32Array; states: Float32Array; dim: number; state: StateShape },
  to: number,
  { firstColumn, columns }: TilePart,
  chunk: RowRecords,
  from: number,
): void {
  const { weights, states, dim, state } = whole;
  const { perElement, perRow } = state;
  const own = chunk.weights.subarray(from * columns, (from + 1) * columns);
  weights.set(own, to * dim + firstColumn);
  const [width, ownWidth] = [perElement * dim + perRow, perElement * columns + perRow];
  for (let copy = 0; copy < perElement; copy++) {
    const start = from * ownWidth + copy * columns;
    const elements = chunk.state.subarray(start, start + columns);
    states.set(elements, to * width + copy * dim + firstColumn);
  }
  const ofRow = chunk.state.subarray((from + 1) * ownWidth - perRow, (from + 1) * ownWidth);
  states.set(ofRow, (to + 1) * width - perRow);
}

/**
 * The initialised rows of a tile, ascending, in chunks; each is valid until the next one. The hash
 * is checked at the end of the stream. @throws CheckpointCorruptError
 */
export function rowsOfPart(
  checkpoint: OpenCheckpoint,
  { name, dim, width }: { name: string; dim: number; width: number },
  progress: Progress,
): Generator<RowRecords> {
  const { store, manifest, job } = checkpoint;
  const files = store.readFiles(manifest, name);
  const table = tableOfPart(name, job.model.tables)?.table ?? -1;
  const rowsMax = job.model.tables[table]?.rows ?? 0;
  const leftOut = store.statedDigests && rowStateOf(job.optimizer.sparse).perElement * dim;
  const expect = { dim, width, path: name, rows: rowsMax, leftOut: leftOut ?? 0 };
  const rows = mergeFiles(files.map((pieces) => decodeRows(progress.count(pieces), expect)));
  const ids = idsOfTable(checkpoint, table);
  return ids === undefined ? rows : withIds(ids, rows);
}

/** Drops the rows of a dynamic table that no id owns: their ids were evicted. */
export function* withIds(ids: TableIds, chunks: Iterable<RowRecords>): Generator<RowRecords> {
  for (const chunk of chunks) {
    const own = withRows(chunk, (row) => ids.idOf(row) !== undefined);
    if (own.rows.length > 0) yield own;
  }
}

/** The moving-average settings of a checkpoint's rows; undefined: rows have no average. */
export function rowAverageIn({
  job,
  manifest,
}: Pick<OpenCheckpoint, "job" | "manifest">): RowAverage | undefined {
  const { ema } = job.optimizer.sparse;
  return ema && { decay: ema.decay, steps: manifest.cut };
}

/**
 * The moving averages (n, D) of whole rows, with the values that an evaluation after the
 * checkpoint's last step uses (row-average.ts); without an `average`, the weights.
 */
export function averagesOf(
  { rows, weights, state }: RowRecords,
  average: RowAverage | undefined,
): Float32Array {
  if (average === undefined) return weights;
  const [dim, width] = [weights.length / rows.length, state.length / rows.length];
  const averages = new Float32Array(weights.length);
  for (let row = 0; row < rows.length; row++) {
    const share = Math.fround(lagShare(average, state[(row + 1) * width - 1] ?? 0));
    for (let c = 0; c < dim; c++) {
      const lag = state[row * width + c] ?? 0;
      averages[row * dim + c] = (weights[row * dim + c] ?? 0) + share * lag;
    }
  }
  return averages;
}
