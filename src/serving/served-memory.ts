// Row memory of a served model: each row has a place, and there are spare places, so that the rows
// of a new version are written beside those of the version that serves.
//
//   places of a group:   [ rows of table a | rows of table b | … | spare places of the group ]
//   with row blocks:     [ block 0 | its spare places | block 1 | its spare places | … ]
//
// Tables of one shape share a group, so that one call pools the rows of a sample's lookups in all
// of them. Spare places cost memory only once they are written: the operating system allocates
// pages on first access.
//
// Invariants
//   W1. The places of a version are not overwritten: `take` returns spare places only.
//   W2. With row blocks, all places of a row lie in the row's block, because a pooled vector is
//       summed by a tree over blocks.

import type { SparseOptimizerSpec, TableSpec } from "../embedding/tables/options.ts";
import { blockRowsOf } from "../embedding/tables/shards.ts";
import { type Kernels, type Rows, rowsMax } from "../kernels/contract/kernels.ts";
import { recordBytesOf } from "../kernels/contract/records.ts";

export interface TableMemory {
  readonly rows: Rows;
  /** The place of row 0; with row blocks, rows have `homes`. */
  readonly base: number;
  /** By row, its initial place, if rows do not lie in order. */
  readonly homes: Int32Array | undefined;
  /** Bytes of a stored row: see `gatherRecords`. */
  readonly recordBytes: number;
  /** The spare places from which a row may take one. */
  sparesOf(row: number): SparePlaces;
}

/**
 * Optimizer state per row that predictions read, in floats: for a moving average, the row's lag
 * (dim) and the step of that lag.
 */
export function servedStateWidth({ ema }: Pick<SparseOptimizerSpec, "ema">, dim: number): number {
  return ema === undefined ? 0 : dim + 1;
}

/** Allocates memory for all tables of a model, in their order, filled with 0. */
export function createServedMemory(
  kernels: Kernels,
  tables: readonly TableSpec[],
  optimizer: Pick<SparseOptimizerSpec, "ema">,
): TableMemory[] {
  const groups = new Map<string, number[]>();
  const sums = new Map<string, number>();
  for (const [table, { rows, dim, precision, rowBlocks }] of tables.entries()) {
    const shape = `${dim} ${precision}`;
    const known = sums.get(shape) ?? 0;
    const isAlone = rowBlocks > 1 || (known + rows) * dim > groupFloatsMax;
    const key = isAlone ? `table ${table}` : shape;
    if (!isAlone) sums.set(shape, known + rows);
    groups.set(key, [...(groups.get(key) ?? []), table]);
  }
  const made: TableMemory[] = [];
  for (const group of groups.values()) {
    const [first = 0] = group;
    const spec = tables[first];
    if (spec === undefined) continue;
    const width = servedStateWidth(optimizer, spec.dim);
    if (spec.rowBlocks > 1) made[first] = blocksOf(kernels, spec, width);
    else for (const [i, own] of groupOf(kernels, tables, group, width)) made[i] = own;
  }
  return made;
}

/** Most floats of a group's rows: with as many spare places, they still fit into one array. */
const groupFloatsMax = 2 ** 30;

function* groupOf(
  kernels: Kernels,
  tables: readonly TableSpec[],
  group: readonly number[],
  stateWidth: number,
): Generator<[number, TableMemory]> {
  const { dim = 1, precision = "float32" } = tables[group[0] ?? 0] ?? {};
  const sum = group.reduce((rows, table) => rows + (tables[table]?.rows ?? 0), 0);
  const most = Math.max(sum, Math.min(rowsMax, Math.floor((2 * groupFloatsMax) / dim)));
  const count = Math.min(2 * sum, most);
  const shape = { dim, precision, stateWidth, averaged: stateWidth > 0, pooling: "sum" as const };
  const rows = kernels.rows({ ...shape, rows: count, rowBlocks: 1 });
  const spare = new SparePlaces(sum, count);
  const recordBytes = recordBytesOf({ dim, precision }, stateWidth);
  let base = 0;
  for (const table of group) {
    yield [table, { rows, base, homes: undefined, recordBytes, sparesOf: () => spare }];
    base += tables[table]?.rows ?? 0;
  }
}

function blocksOf(kernels: Kernels, spec: TableSpec, stateWidth: number): TableMemory {
  const { dim, precision, rowBlocks } = spec;
  const blockRows = blockRowsOf(spec);
  const width = 2 * blockRows;
  const shape = { dim, precision, stateWidth, averaged: stateWidth > 0, pooling: "sum" as const };
  const rows = kernels.rows({
    ...{ ...shape, rowBlocks, blockRows: width },
    rows: rowBlocks * width,
  });
  const blocks = Array.from({ length: rowBlocks }, (_, block) => {
    return new SparePlaces(block * width + blockRows, (block + 1) * width);
  });
  const homes = Int32Array.from({ length: spec.rows }, (_, row) => {
    return row + Math.floor(row / blockRows) * blockRows;
  });
  const sparesOf = (row: number): SparePlaces => {
    const own = blocks[Math.floor(row / blockRows)];
    if (own === undefined) throw new RangeError(`The table has no row ${row}`);
    return own;
  };
  return {
    rows,
    base: 0,
    homes,
    recordBytes: recordBytesOf({ dim, precision }, stateWidth),
    sparesOf,
  };
}

/**
 * A free list of places: returned places are reused first, then untouched places. Returned places
 * are kept in the arrays in which they come, so that each call takes constant time.
 */
export class SparePlaces {
  #next: number;
  readonly #end: number;
  readonly #given: Int32Array[] = [];
  /** Places of the last returned array that are still free. */
  #left = 0;

  constructor(first: number, end: number) {
    this.#next = first;
    this.#end = end;
  }

  /** Takes a free place; -1: none is left. */
  take(): number {
    const given = this.#given.at(-1);
    if (given === undefined) return this.#next < this.#end ? this.#next++ : -1;
    const place = given[--this.#left] ?? -1;
    if (this.#left === 0) {
      this.#given.pop();
      this.#left = this.#given.at(-1)?.length ?? 0;
    }
    return place;
  }

  /**
   * Returns places that no version uses any more. Keeps the array: the caller must not use it
   * again.
   */
  give(places: Int32Array): void {
    if (places.length === 0) return;
    const started = this.#given.at(-1);
    if (started !== undefined)
      this.#given[this.#given.length - 1] = started.subarray(0, this.#left);
    this.#given.push(places);
    this.#left = places.length;
  }
}
