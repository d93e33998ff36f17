// Costs of rows on a CPU, which depend more on the number of accesses than on bytes. Calibration
// measures the costs for some row widths (calibration-rows.ts).

import type { PlannedTable } from "../shards.ts";

/**
 * The costs, in seconds. `lookupId`: each id that is looked up; `lookupRow`: in addition each
 * distinct row of a batch, which is read from memory; `vector`: each pooled vector. `updateId` and
 * `updateRow`: the same for an update, which sorts ids and adds up gradients. `sumsId` and
 * `sumsRow`: the same for the row sums that are exchanged where columns are split.
 */
export const rowCostNames = [
  "lookupId",
  "lookupRow",
  "vector",
  "updateId",
  "updateRow",
  "sumsId",
  "sumsRow",
] as const;

/** The costs of rows with `columns` columns. */
export type RowCosts = Readonly<Record<(typeof rowCostNames)[number], number>> & {
  readonly columns: number;
};

/**
 * Returns the costs of rows with `columns` columns: as measured, or interpolated linearly between
 * the nearest two measured widths; beyond the widest, in proportion to the columns. Undefined: none
 * was measured.
 */
export function rowCostsOf(measured: readonly RowCosts[], columns: number): RowCosts | undefined {
  const sorted = [...measured].sort((a, b) => a.columns - b.columns);
  const [narrowest, widest] = [sorted[0], sorted.at(-1)];
  if (narrowest === undefined || widest === undefined) return undefined;
  if (columns <= narrowest.columns) return narrowest;
  const at = sorted.findIndex((costs) => costs.columns >= columns);
  const [from, to] = [sorted[at - 1], sorted[at]];
  const between = (name: (typeof rowCostNames)[number]) => {
    if (from === undefined || to === undefined) return (widest[name] * columns) / widest.columns;
    const share = (columns - from.columns) / (to.columns - from.columns);
    return from[name] + share * (to[name] - from[name]);
  };
  const costs = Object.fromEntries(rowCostNames.map((name) => [name, between(name)]));
  return { columns, ...(costs as Omit<RowCosts, "columns">) };
}

/**
 * Cost factor of lookups in a shard with several row blocks: `blocksFactor` for long bags. The tree
 * over the rows of a bag of one id is the row; the more ids, the more blocks have sums to add.
 */
export function treeFactor(
  { poolingFactor, lookups = 1 }: Pick<PlannedTable, "poolingFactor" | "lookups">,
  blocksFactor: number,
): number {
  const others = poolingFactor > lookups ? 1 - lookups / poolingFactor : 0;
  return 1 + (blocksFactor - 1) * others;
}
