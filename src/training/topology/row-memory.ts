// Predicts the memory that the rows of a job take on some devices, before any of it is reserved.

import type { SparseOptimizerSpec } from "../../embedding/tables/options.ts";
import { rowStateWidth } from "../../embedding/tables/row-state.ts";
import { packedBytes } from "../../kernels/contract/precision.ts";
import { type Topology, tableOf } from "./topology.ts";

/** The rows of one table in the memory of some devices. */
export interface TableMemory {
  readonly table: string;
  readonly rows: number;
  readonly dim: number;
  /** Weights and optimizer state, as if every row were trained. */
  readonly bytes: number;
}

/**
 * The tables with rows in the memory of the devices `ranks`, the largest first. Rows of cached
 * tables do not count: their caches have sizes of their own.
 */
export function rowMemoryOf(
  { heldBy, distinctBy, replicated, input }: Topology,
  ranks: readonly number[],
  optimizer: SparseOptimizerSpec,
): TableMemory[] {
  const bytesOf = new Map<number, number>();
  const shards = ranks.flatMap((rank) => [
    ...(heldBy[rank] ?? []),
    ...(distinctBy[rank] ?? []),
    ...replicated,
  ]);
  for (const { table, rows, columns, tier } of shards) {
    if (tier === "cached") continue;
    const { precision } = tableOf(input.model.tables, table);
    const bytes =
      rows * (packedBytes(1, columns, precision) + 4 * rowStateWidth(optimizer, columns));
    bytesOf.set(table, (bytesOf.get(table) ?? 0) + bytes);
  }
  return [...bytesOf]
    .map(([table, bytes]) => {
      const { name, rows, dim } = tableOf(input.model.tables, table);
      return { table: name, rows, dim, bytes };
    })
    .sort((a, b) => b.bytes - a.bytes);
}
