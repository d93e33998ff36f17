// What rows cost on a processor: less their bytes than how often they are needed. Calibration
// measures the costs for rows of some numbers of columns (calibration-rows.ts).

/**
 * Seconds. Each id that is looked up, and besides each distinct row of a batch, which comes from
 * memory; each pooled vector. Then the same of an update, ids sorted and gradients added up, and of
 * the sums that a row's parts exchange where columns are split.
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

/** The costs of rows with so many columns. */
export type RowCosts = Readonly<Record<(typeof rowCostNames)[number], number>> & {
  readonly columns: number;
};

/**
 * The costs of rows with `columns` columns: as measured, or on the line between the nearest two
 * measured widths; beyond the widest, in proportion to the columns. Undefined: none was measured.
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
