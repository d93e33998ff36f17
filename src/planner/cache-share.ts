// How much of its rows each table's cache holds, under a budget of bytes: the allocation of
// TorchRec's embedding offloading ("Toward 100TB", RecSys 2024). Tables differ in how many rows a
// batch needs of them and in how much a cache helps, so that one load factor for all wastes memory.

import { distinctRows, type Setting } from "./cost.ts";
import { type MissPoint, missRatioAt, zipfCurve } from "./miss-curve.ts";
import type { PlannedTable } from "./shards.ts";

/** Passes in which what full caches leave is given to the others. */
const passesMax = 128;
/** Pieces of the load factor over which a curve's area is added up. */
const pieces = 32;

/** A table that can be cached, with its curve. */
export type CacheableTable = PlannedTable & { readonly missCurve: readonly MissPoint[] };

/** The table with the curve that was counted for it, or else with that of Zipf's law. */
export function withCurve({ workload }: Setting, table: PlannedTable): CacheableTable {
  const { rows, zipf, poolingFactor, missCurve } = table;
  const draws = workload.batchSize * poolingFactor;
  const policy = workload.budgets?.policy ?? "lfu";
  return { ...table, missCurve: missCurve ?? zipfCurve({ rows, draws, zipf, policy }) };
}

/**
 * What a cache is worth to a table: the distinct rows that a batch needs of it, times its
 * cacheability, the area under its misses by load factor (0: a small cache does; 1: none helps).
 */
export function priorityOf({ workload }: Setting, table: CacheableTable): number {
  let area = 0;
  for (let i = 0; i < pieces; i++) {
    area += missRatioAt(table.missCurve, (table.rows * (i + 0.5)) / pieces) / pieces;
  }
  return area * distinctRows(table, workload.batchSize);
}

/** A cache among others. */
export interface Claim {
  /** Bytes of the least that it can be, and with all rows. */
  readonly leastBytes: number;
  readonly wholeBytes: number;
  readonly priority: number;
}

/**
 * Bytes of each cache: its least, and of the rest of the budget a share by priority, up to all of
 * its rows; what is over then goes to the others. All together are the budget, to within a byte,
 * unless they are all whole, or all least.
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
