// The options of a job's planner: whether the run looks for better plans while it trains.

import { z } from "zod";

const adapt = z.strictObject({
  /** Steps that each device makes between two searches, at least. */
  everySteps: z.int().min(1).max(1_000_000).default(500),
  /** The share of a step that a plan must save. */
  gainMin: z.number().min(0).max(0.99).default(0.05),
  /** How many times the time of the move a plan must save in the steps that are left. */
  margin: z.number().min(0).max(1000).default(2),
});

export const plannerOptions = z.strictObject({
  /**
   * Measured costs refine the plan of a run, which goes on with a better one where that pays for
   * the move. `true`: with the defaults. It changes no bit. @default none
   */
  adapt: z
    .union([adapt, z.boolean().transform((is) => (is ? adapt.parse({}) : undefined))])
    .optional(),
});

export type PlannerOptions = z.input<typeof plannerOptions>;

/** When a run goes on with another plan. */
export type AdaptSpec = z.output<typeof adapt>;
