// The steps at which tables with dynamic ids evict ids from their rows.

import type { DynamicSpec } from "../tables/dynamic-options.ts";

/** The fields of a table that decide when it evicts. */
interface EvictingTable {
  readonly dynamic?: DynamicSpec | undefined;
}

/** Whether a table evicts ids before step `step` looks up any id. */
export function isEvictionStep({ dynamic }: EvictingTable, step: number): boolean {
  return dynamic !== undefined && step > 0 && step % dynamic.everySteps === 0;
}

/** The first step after `step` at which a table evicts ids. */
export function nextEvictionStep(tables: readonly EvictingTable[], step: number): number {
  return tables.reduce((next, { dynamic }) => {
    if (dynamic === undefined) return next;
    const { everySteps } = dynamic;
    return Math.min(next, (Math.floor(step / everySteps) + 1) * everySteps);
  }, Number.POSITIVE_INFINITY);
}
