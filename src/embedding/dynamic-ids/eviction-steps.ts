// The steps at which ids of a table with dynamic ids lose their rows.

import type { DynamicSpec } from "../tables/dynamic-options.ts";

/** What of a table decides when its ids lose rows. */
interface EvictingTable {
  readonly dynamic?: DynamicSpec | undefined;
}

/** Whether ids of a table lose their rows before step `step` looks any up. */
export function isEvictionStep({ dynamic }: EvictingTable, step: number): boolean {
  return dynamic !== undefined && step > 0 && step % dynamic.everySteps === 0;
}

/** The first step after `step` at which ids of some table lose their rows. */
export function nextEvictionStep(tables: readonly EvictingTable[], step: number): number {
  return tables.reduce((next, { dynamic }) => {
    if (dynamic === undefined) return next;
    const { everySteps } = dynamic;
    return Math.min(next, (Math.floor(step / everySteps) + 1) * everySteps);
  }, Number.POSITIVE_INFINITY);
}
