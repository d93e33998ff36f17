// Shares a budget of bytes among the caches of tables: the allocation of TorchRec's embedding
// offloading ("Toward 100TB", RecSys 2024). Tables differ in how many rows a batch needs and in how
// much a cache helps, so one load factor for all tables would waste memory.

import type { Setting } from "./cost/cost.ts";
import { distinctRows } from "./cost/distinct-rows.ts";
import { type MissPoint, missRatioAt, zipfCurve } from "./cost/miss-curve.ts";
import type { PlannedTable } from "./shards.ts";

/** Maximum number of rounds that pass the surplus of full caches to the other caches. */
const passesMax = 128;
/** Intervals of the load factor in the numerical integral of a curve. */
const pieces = 32;

/** A table that can be cached, with its miss-ratio curve. */
export type CacheableTable = PlannedTable & { readonly missCurve: readonly MissPoint[] };

/** Returns the table with its counted curve, or with the curve of Zipf's law. */
export function withCurve({ workload }: Setting, table: PlannedTable): CacheableTable {
  const { rows, zipf, poolingFactor, missCurve } = table;
  const draws = workload.batchSize * poolingFactor;
  const policy = workload.budgets?.policy ?? "lfu";
  return { ...table, missCurve: missCurve ?? zipfCurve({ rows, draws, zipf, policy }) };
}

/**
 * Returns the value of a cache to a table: the distinct rows that a batch needs, times the table's
 * cacheability, which is the area under its misses by load factor (0: a small cache suffices; 1: no
 * cache helps).
 */
export function priorityOf({ workload }: Setting, table: CacheableTable): number {
  let area = 0;
  for (let i = 0; i < pieces; i++) {
    area += missRatioAt(table.missCurve, (table.rows * (i + 0.5)) / pieces) / pieces;
  }
  return area * distinctRows(table, workload.batchSize);
}

/** One cache's claim on the budget. */
export interface Claim {
  /** Bytes of its smallest useful size, and bytes with all rows. */
  readonly leastBytes: number;
  readonly wholeBytes: number;
  readonly priority: number;
}

/**
 * Returns the bytes of each cache: its least, and a share of the remaining budget by priority, up
 * to all of its rows; any surplus goes to the other caches. The sum is the budget, to within a byte
 * per cache, unless all caches are whole, or all at their least.
 */
export function shareBytes(claims: readonly Claim[], budget: number): number[] {
  const bytes = claims.map(({ leastBytes, wholeBytes }) => Math.min(leastBytes, wholeBytes));
  let left = budget - bytes.reduce((sum, own) => sum + own, 0);
  let open = claims.map((claim, i) => ({ ...claim, i }));
  for (let pass = 0; pass < passesMax && left >= 1; pass++) {
    open = open.filter(({ wholeBytes, i }) => (bytes[i] ?? 0) < wholeBytes);
    const whole = open.reduce((sum, { priority }) => sum + priority, 0);
    if (open.length === 0) break;
    const given = left;
    for (const { i, wholeBytes, priority } of open) {
      const share = whole === 0 ? given / open.length : (given * priority) / whole;
      const next = Math.min(wholeBytes, (bytes[i] ?? 0) + share);
      left -= next - (bytes[i] ?? 0);
      bytes[i] = next;
    }
  }
  return bytes.map(Math.floor);
}
