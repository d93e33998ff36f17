// Logical shards: how the rows of a job are cut into parts that can be placed. A shard is a
// function of the job alone; a plan only says which device holds it (law 4).

import { weightBytes } from "../kernels/precision.ts";
import type { TableSpec } from "./options.ts";

/** A part of one table that one device answers for. Today: the whole table. */
export interface Shard {
  readonly shard: number;
  /** Index of the table in the job. */
  readonly table: number;
  readonly name: string;
  /** Bytes of weights. */
  readonly bytes: number;
  /** Work of a lookup and its update, per sample: columns times mean ids. */
  readonly cost: number;
}

/** The shards of the model-parallel tables, in order of the tables. */
export function shardsOf(tables: readonly TableSpec[], idsMax: readonly number[]): Shard[] {
  const shards: Shard[] = [];
  for (const [table, spec] of tables.entries()) {
    if (spec.sharding !== "table") continue;
    shards.push({
      shard: shards.length,
      table,
      name: spec.name,
      bytes: spec.rows * spec.dim * weightBytes(spec.precision),
      cost: spec.dim * Math.max(1, idsMax[table] ?? 1),
    });
  }
  return shards;
}

/** Indices of the tables that every device holds a copy of. */
export function replicatedTables(tables: readonly TableSpec[]): number[] {
  return [...tables.keys()].filter((table) => tables[table]?.sharding === "data-parallel");
}
