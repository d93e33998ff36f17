// The parts of a checkpoint with rows of tables: how the shards of a slab are written, and restored
// (parts.ts). A slab may lie on a device, or on a parameter server.

import { withoutRows, withRows } from "../../embedding/checkpoint/incremental-files.ts";
import { decodeRows, encodeRows } from "../../embedding/checkpoint/rows-part.ts";
import { leavesOf } from "../../embedding/rows/digest.ts";
import type { RowRecords } from "../../embedding/rows/row-records.ts";
import { createRowSet } from "../../embedding/rows/row-set.ts";
import type { Slab } from "../../embedding/rows/slab.ts";
import type { SparseOptimizerSpec, TableSpec } from "../../embedding/tables/options.ts";
import { rowStateOf, rowStateWidth } from "../../embedding/tables/row-state.ts";
import { extentOf } from "../../embedding/tables/shards.ts";
import { tableOf } from "../topology/topology.ts";
import { partNameOf, tableOfPart } from "./part-names.ts";

/** Slabs, and the facts that decide the parts of their rows. */
export interface RowsOwner {
  readonly tables: readonly TableSpec[];
  readonly sparse: SparseOptimizerSpec;
  readonly slabs: readonly Slab[];
  /** Whether a dynamic id owns a row of a shard; left out: rows need no owner. */
  isOwned?(slab: Slab, at: number): ((row: number) => boolean) | undefined;
}

/** Restores a part with rows into all shards of the slabs; see `restorePart`. */
export async function restoreRows(
  { tables, sparse, slabs, isOwned }: RowsOwner,
  name: string,
  layers: readonly Iterable<Uint8Array>[],
  kept: ReadonlySet<number> = new Set(),
  withElements = true,
): Promise<void> {
  const part = tableOfPart(name, tables);
  if (part === undefined) return;
  const { rows } = tableOf(tables, part.table);
  const extent = extentOf(tableOf(tables, part.table), part);
  const { columns: dim } = extent;
  const width = rowStateWidth(sparse, dim);
  const leftOut = withElements ? 0 : rowStateOf(sparse).perElement * dim;
  const seen = createRowSet();
  for (const [layer, bytes] of layers.entries()) {
    const isLast = layer === layers.length - 1;
    for (const all of decodeRows(bytes, { dim, width, path: name, rows, leftOut })) {
      const records = layer === 0 ? all : withoutRows(all, seen);
      if (!isLast) for (const row of records.rows) seen.add(row);
      for (const slab of slabs) {
        for (const at of placesIn(slab, part.table)) {
          if (kept.has(slab.shards[at]?.shard ?? -1)) continue;
          const hasRow = isOwned?.(slab, at);
          const own = hasRow === undefined ? records : withRows(records, hasRow);
          await slab.restore(at, extent, own, !isLast);
        }
      }
    }
  }
}

const placesBySlab = new WeakMap<Slab, ReadonlyMap<number, readonly number[]>>();

/** The places of a table's shards in a slab: restoring each part must not search all of them. */
export function placesIn(slab: Slab, table: number): readonly number[] {
  const known = placesBySlab.get(slab) ?? placesOf(slab.shards);
  placesBySlab.set(slab, known);
  return known.get(table) ?? [];
}

export function placesOf(shards: readonly { readonly table: number }[]): Map<number, number[]> {
  const places = new Map<number, number[]>();
  for (const [at, { table }] of shards.entries()) {
    const known = places.get(table);
    if (known === undefined) places.set(table, [at]);
    else known.push(at);
  }
  return places;
}

/** The parts of a slab's shards, in their order. */
export function rowsPartsOf({ tables, sparse }: Pick<RowsOwner, "tables" | "sparse">, slab: Slab) {
  return slab.shards.map((shard, at) => {
    const spec = tableOf(tables, shard.table);
    const width = rowStateWidth(sparse, shard.columns);
    const encode = (records: AsyncIterable<RowRecords>) =>
      encodeRows(shard.columns, width, records, spec.precision);
    return {
      name: partNameOf(shard, tables),
      leaves: () => leavesOf(shard, spec, rowStateOf(sparse), slab.records(at)),
      bytes: () => encode(slab.records(at)),
      encode,
    };
  });
}
