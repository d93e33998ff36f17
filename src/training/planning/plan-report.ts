// How a generation places its tables, and the report on it that `run.started` and `osiris plan`
// show.

import { z } from "zod";
import { measuredLinksSchema } from "../../planner/fleet.ts";
import type { PackedPlan } from "../../planner/packed-plan.ts";
import { placementKinds } from "../../planner/placement.ts";
import { packedPlanSchema } from "../../planner/plan-file.ts";
import { schemes } from "../../planner/shards.ts";

const bytes = z.number().min(0);

/**
 * Schema of the report on a generation's plan; its size is bounded, however many tables there are.
 */
export const planReportSchema = z.object({
  /**
   * Who placed the tables: a search (`auto`), the job's `plan`, or each table's own `sharding`
   * alone.
   */
  by: z.enum(["auto", "plan", "as-written"]),
  /** Why the plan differs from the job's request, what makes it fit, or which costs decided. */
  note: z.string().optional(),
  /** Hash of the text of the plan file. */
  sha256: z.string().optional(),
  /** Number of tables of each scheme. `tables` names the scheme of each table of a small job. */
  schemes: z.partialRecord(z.enum(schemes), z.int()).optional(),
  tables: z.record(z.string(), z.enum(schemes)).optional(),
  /** The job's placement, with the servers of this generation; left out: `auto`. */
  placement: z.object({ kind: z.enum(placementKinds), servers: z.int() }).optional(),
  /** Tables with rows below memory. */
  cached: z.int().optional(),
  /** Predicted seconds of a step; left out if the machine was not calibrated. */
  stepSeconds: z.number().optional(),
  /** Predicted load of the busiest device, over the mean of all. */
  imbalance: z.number().optional(),
  /** Predicted memory of each device. */
  memoryBytes: z.array(bytes).readonly().optional(),
  /** Source of the machine constants behind the predictions. */
  constants: z.string().optional(),
  /** The measured links between hosts that it counts with; left out: one host, or assumed ones. */
  links: measuredLinksSchema.optional(),
  /**
   * Where hosts are unequal, for each: its memory for rows, and its speed relative to the first.
   */
  hosts: z
    .array(z.object({ memoryBytes: bytes, rowSpeed: bytes, denseSpeed: bytes }))
    .readonly()
    .optional(),
  /** Hash of the file of learned costs that the search followed; left out: formulas decided. */
  costs: z.string().optional(),
  /** Whether the data's statistics were known; else bags and popularity are assumed. */
  statistics: z.boolean().optional(),
});

/** The report on a generation's plan. */
export type PlanReport = z.output<typeof planReportSchema>;

export const runPlanSchema = z.object({
  /**
   * The plan that the search found; left out: the job's plan, or each table by its own `sharding`.
   */
  plan: packedPlanSchema.optional(),
  report: planReportSchema,
  /** Why the plan does not honour the pins, where a plan without them was found. */
  unpinned: z.string().optional(),
  /** With measured costs: predicted seconds of a step by the present plan, and by this plan. */
  refined: z.object({ now: z.number(), planned: z.number() }).optional(),
});

/** How a generation places its tables. */
export interface RunPlan {
  readonly plan?: PackedPlan | undefined;
  readonly report: PlanReport;
  readonly unpinned?: string | undefined;
  readonly refined?: { readonly now: number; readonly planned: number } | undefined;
}

/** Places each table by its own `sharding`; `note` is the reason. */
export function unplanned(note?: string): RunPlan {
  return { report: { by: "as-written", ...(note === undefined ? {} : { note }) } };
}

/** Adds to the note of a plan. */
export function withNote(found: RunPlan, more: string): RunPlan {
  const { report } = found;
  const note = report.note === undefined ? more : `${report.note}; ${more}`;
  return { ...found, report: { ...report, note } };
}
