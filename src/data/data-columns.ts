// The columns of files that a job's data names, whatever it wants of them.

import { transformsOf } from "./data-kinds.ts";
import type { ResolvedDataOptions } from "./options.ts";
import { targetColumnsOf } from "./targets.ts";
import { categoricalOf } from "./text/match-features.ts";
import { planOf } from "./transforms/plan.ts";

/** Labels, weight, group, features, and what transforms and `where` read; not what they make. */
export function dataColumnsOf(data: ResolvedDataOptions): string[] {
  if (data.kind === "synthetic" || data.kind === "criteo-tsv") return [];
  const { sources, outputs } = planOf(transformsOf(data) ?? []);
  const features = [...data.dense, ...categoricalOf(data)].map(({ column }) => column);
  const where = data.kind === "parquet" ? (data.where ?? []) : [];
  const read = [...sources, ...where].map(({ column }) => column);
  const own = features.filter((name) => !outputs.has(name));
  return [...new Set([...targetColumnsOf(data), ...own, ...read])];
}
