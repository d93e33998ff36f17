// Lists the file columns that a job's data section refers to.

import { transformsOf } from "./data-kinds.ts";
import type { ResolvedDataOptions } from "./options.ts";
import { targetColumnsOf } from "./targets.ts";
import { categoricalOf } from "./text/match-features.ts";
import { planOf } from "./transforms/plan.ts";

/**
 * File columns of labels, weight, group and features, and inputs of transforms and `where`; not the
 * outputs of transforms.
 */
export function dataColumnsOf(data: ResolvedDataOptions): string[] {
  if (data.kind === "synthetic" || data.kind === "criteo-tsv") return [];
  const { sources, outputs } = planOf(transformsOf(data) ?? []);
  const features = [...data.dense, ...categoricalOf(data)].map(({ column }) => column);
  const where = data.kind === "parquet" ? (data.where ?? []) : [];
  const read = [...sources, ...where].map(({ column }) => column);
  const own = features.filter((name) => !outputs.has(name));
  return [...new Set([...targetColumnsOf(data), ...own, ...read])];
}
