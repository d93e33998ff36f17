// The tables that a step reads before the previous step's update, with the same bits
// (`pipeline.ahead`): bags with a row that this update changes are deferred, and sent again after
// it (src/training/step/deferred.ts). The choice decides no bit. It uses no function whose result
// may differ between machines, as all hosts must choose alike.

import type { BagSizes } from "../../data/ids-room.ts";
import type { Shard } from "../../embedding/tables/shards.ts";
import type { Lookup } from "../../model/features.ts";

export interface AheadOptions {
  /** Most rows of the batch before that a mean bag of the table may have, expected; 0: no table. */
  readonly ahead: number;
  readonly batchSize: number;
  readonly tables: readonly { readonly rows: number; readonly staleness: number }[];
  readonly lookups: readonly Lookup[];
  /** By lookup. */
  readonly bagSizes: readonly BagSizes[];
  readonly shards: readonly Shard[];
  /** Whether distinct rows of the table are sent instead of vectors. */
  readonly isDistinct: (table: number) => boolean;
  readonly hostOf: readonly number[];
}

/** For each table, whether it is read ahead. */
export function aheadTables(options: AheadOptions): boolean[] {
  const { ahead, batchSize, tables, lookups, bagSizes, shards, hostOf } = options;
  if (ahead === 0 || hostOf.length === 1) return tables.map(() => false);
  const fixed = new Set([...copied(shards), ...summedOnHosts(options)]);
  /** By table: the ids of a sample, and the sum of squares of its bags' ids. */
  const [ids, squares] = [tables.map(() => 0), tables.map(() => 0)];
  for (const [lookup, { table }] of lookups.entries()) {
    const mean = bagSizes[lookup]?.mean ?? 0;
    ids[table] = (ids[table] ?? 0) + mean;
    squares[table] = (squares[table] ?? 0) + mean * mean;
  }
  return tables.map(({ rows, staleness }, table) => {
    if (staleness > 0 || fixed.has(table)) return false;
    const own = ids[table] ?? 0;
    const mean = options.isDistinct(table) ? 1 : (squares[table] ?? 0) / own;
    return own > 0 && Math.min(1, (mean * batchSize * own) / rows) <= ahead;
  });
}

/** Tables with copies on all devices: their rows are looked up where they are needed. */
function copied(shards: readonly Shard[]): number[] {
  return shards.flatMap(({ table, device }) => (device === "all" ? table : []));
}

/**
 * Tables with vectors that a host adds up for other hosts: the parts of a sum are on several
 * devices, and one of them alone cannot replace it.
 */
function summedOnHosts({ shards, hostOf, isDistinct }: AheadOptions): number[] {
  if (hostOf.every((host) => host === hostOf[0])) return [];
  const deviceOf = new Map<string, number>();
  return shards.flatMap(({ table, firstColumn, columns, device }) => {
    if (device === "all" || isDistinct(table)) return [];
    const key = `${hostOf[device]},${table},${firstColumn},${columns}`;
    const first = deviceOf.get(key) ?? device;
    deviceOf.set(key, first);
    return first === device ? [] : table;
  });
}
