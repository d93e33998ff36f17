// Groups the parts of a step's time, so that a stacked chart stays readable: a device's computing,
// and its waits.

import type { StepTimes } from "../../../../internal.ts";

type Part = keyof StepTimes["shares"];

/** Every part of a step is in one group. */
export const stageGroups: readonly { readonly name: string; readonly parts: readonly Part[] }[] = [
  { name: "computing", parts: ["computing"] },
  { name: "batch", parts: ["batch"] },
  { name: "ids", parts: ["sendingIds", "ids"] },
  { name: "vectors", parts: ["partials", "pooled", "rows"] },
  { name: "gradients", parts: ["dPooled", "dPartials", "dRows", "rowSums", "gradients", "losses"] },
  { name: "tiers", parts: ["tiers"] },
  { name: "checkpoint", parts: ["checkpoint"] },
];

/** The share of each group, in the order of `stageGroups`. */
export function stageSharesOf(shares: Readonly<Partial<Record<Part, number>>>): number[] {
  return stageGroups.map(({ parts }) => parts.reduce((sum, part) => sum + (shares[part] ?? 0), 0));
}
