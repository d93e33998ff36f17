// Distributes rows over the sparse servers. Rows are not split by columns, so that a server updates
// them alone. The row blocks of a table are spread over the servers; tables of one block are placed
// by size.

import type { TableSpec } from "../embedding/tables/options.ts";
import { type Shard, shardsOf } from "../embedding/tables/shards.ts";
import { place } from "../planner/placement.ts";
import type { ShardRows } from "./parameter-servers.ts";

/** The sparse servers of a run: as many as its option says, or one for each host. */
export function serversOf(
  { servers }: { readonly servers: number },
  hosts: number,
  devices: number,
): number {
  return servers === 0 ? hosts : Math.min(servers, devices);
}

/** The shards of a job's tables; the device of each is its server. */
export function shardsOnServers(tables: readonly TableSpec[], servers: number): Shard[] {
  const sized = tables.map(({ name, rows, dim, rowBlocks }) => {
    const scheme = rowBlocks > 1 ? ("row-wise" as const) : ("table-wise" as const);
    return { name, rows, dim, rowBlocks, scheme, cost: rows * dim };
  });
  return shardsOf(tables, place(sized, { hosts: 1, perHost: servers }));
}

/** Divides ascending rows of a table among its shards; rows become relative to their shard. */
export function* rowsByShard(
  shards: readonly Shard[],
  rows: Int32Array,
): Generator<ShardRows & { readonly at: number }> {
  let at = 0;
  for (const { shard, firstRow, rows: count } of shards) {
    let end = at;
    while (end < rows.length && (rows[end] ?? 0) < firstRow + count) end++;
    if (end > at) yield { shard, at, rows: rows.slice(at, end).map((row) => row - firstRow) };
    at = end;
  }
}
