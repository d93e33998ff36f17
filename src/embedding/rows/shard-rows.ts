// Creates the rows of one shard: memory with their initial values, or memory with the rows that a
// former thread of this host left in it (row-keeper.ts).

import type { Kernels, Rows, UndoneTile } from "../../kernels/contract/kernels.ts";
import { type Key, purposes } from "../../ports/random.ts";
import type { SparseOptimizerSpec, TableSpec } from "../tables/options.ts";
import { initialRowState, initialStateOf, rowStateOf, rowStateWidth } from "../tables/row-state.ts";
import { blockRowsOf, type Shard } from "../tables/shards.ts";
import type { Birth } from "./cached-shard.ts";
import { areIntact, createSavedRows, type SavedRows } from "./changed-rows.ts";
import { rowHashing } from "./digest.ts";
import { isKeepable, type RowKeeper } from "./row-keeper.ts";

/** The facts of a slab that decide the rows of its shards. */
export interface RowsOptions {
  readonly kernels: Kernels;
  readonly specs: readonly TableSpec[];
  readonly optimizer: SparseOptimizerSpec;
  readonly key: Key;
  /** Whether cuts may be incremental: changed rows are then tracked. */
  readonly hasIncrements?: boolean | undefined;
  /** Memory for the rows that outlives the device's thread; left out: the kernels' own. */
  readonly keeper?: RowKeeper | undefined;
}

/** The rows of a shard that is all in memory. */
export interface RowsInMemory {
  readonly rows: Rows;
  readonly saved: SavedRows;
  /** Follows the changes of rows in a keeper's memory. */
  readonly undone: UndoneTile | undefined;
}

/** The rows of a shard that is all in memory: those that a former thread left, or initial ones. */
export function rowsInMemory(options: RowsOptions, shard: Shard): RowsInMemory {
  const { kernels, specs, optimizer, keeper } = options;
  const spec = specOf(specs, shard.table);
  const sized = {
    ...tileOf(spec, shard, optimizer),
    rows: shard.rows,
    rowBlocks: shard.blocks,
    blockRows: blockRowsOf(spec),
  };
  const state = rowStateOf(optimizer);
  const { words } = rowHashing(shard, spec.dim, state);
  if (keeper === undefined || !isKeepable(sized, words)) {
    const rows = kernels.rows(sized);
    fill(options, shard, rows);
    return { rows, saved: savedOf(options, shard, shard.rows), undone: undefined };
  }
  const room = keeper.roomFor(shard, sized, words, options.hasIncrements === true);
  const rows = kernels.rows({ ...sized, memory: room.memory });
  const saved = createSavedRows(shard, { dim: spec.dim, state, places: 0 }, room);
  const isIntact = (changed: Int32Array) => areIntact(kernels, rows, saved, changed);
  const { found, undone } = keeper.track(kernels, shard, room, rows, saved, isIntact);
  if (found === "stale") {
    for (const words of [rows.touched, room.sums, room.hashes]) words.fill(0);
    kernels.fill(rows.state, 0);
  }
  if (found !== "kept") fill(options, shard, rows);
  return { rows, saved, undone };
}

/** Gives all rows of a shard their initial values; the arrays of new rows are 0. */
function fill(options: RowsOptions, shard: Shard, rows: Rows): void {
  const { key, purpose, scale, state } = birthOf(options, shard);
  options.kernels.born(rows, key, purpose, scale);
  if (state > 0) fillStates(options, rows);
}

/** Sets the state of all rows to its initial value. */
function fillStates({ kernels, optimizer }: RowsOptions, { state, rows, dim }: Rows): void {
  if (optimizer.ema === undefined) {
    kernels.fill(state, initialStateOf(optimizer));
    return;
  }
  const own = initialRowState(optimizer, dim);
  for (let row = 0; row < rows; row++) kernels.write(kernels.part(state, row, 1), own);
}

/** Creates the change tracking of a shard with `places` slots in device memory. */
export function savedOf(
  { specs, optimizer, hasIncrements }: RowsOptions,
  shard: Shard,
  places: number,
) {
  const { dim } = specOf(specs, shard.table);
  const state = rowStateOf(optimizer);
  return createSavedRows(shard, { dim, state, places: hasIncrements === true ? places : 0 });
}

export function birthOf({ specs, optimizer, key }: RowsOptions, { table }: Shard): Birth {
  const birth = rowBirthOf(specOf(specs, table), table);
  return { key, ...birth, state: initialStateOf(optimizer) };
}

/** The purpose and scale of a table's initial draw, beside the job's key. `table`: its index. */
export function rowBirthOf(spec: TableSpec, table: number): Pick<Birth, "purpose" | "scale"> {
  return { purpose: purposes.rowInit + table, scale: scaleOf(spec) };
}

export function tileOf(spec: TableSpec, shard: Shard, optimizer: SparseOptimizerSpec) {
  return {
    dim: shard.columns,
    pooling: spec.pooling,
    stateWidth: rowStateWidth(optimizer, shard.columns),
    averaged: optimizer.ema !== undefined,
    precision: spec.precision,
    firstRow: shard.firstRow,
    firstColumn: shard.firstColumn,
    tableDim: spec.dim,
  };
}

function scaleOf({ initScale, rows }: TableSpec): number {
  return initScale > 0 ? initScale : 1 / Math.sqrt(rows);
}

export function specOf(specs: readonly TableSpec[], table: number): TableSpec {
  const spec = specs[table];
  if (spec === undefined) throw new RangeError(`The job has no table ${table}`);
  return spec;
}
