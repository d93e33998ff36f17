// The options of a job's planner: whether the run searches for better plans while it trains.

import { z } from "zod";

const adapt = z.strictObject({
  everySteps: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(500)
    .describe("Steps of each device between two searches, at least; as many warm up first."),
  gainMin: z
    .number()
    .min(0)
    .max(0.99)
    .default(0.05)
    .describe("Share of a step that a plan must save."),
  margin: z
    .number()
    .min(0)
    .max(1000)
    .default(2)
    .describe(
      "How many times the seconds of the move a plan must save in the steps that are left.",
    ),
});

export const plannerOptions = z.strictObject({
  adapt: z
    .union([adapt, z.boolean().transform((is) => (is ? adapt.parse({}) : undefined))])
    .optional()
    .describe(
      "Left out or `false`: the run keeps its plan. Else, while the run trains, what its devices measure refines the prediction, and the run goes on with a better plan where that pays for the move; changes no bit. `true`: with the defaults below; only with `sharding: auto`, and without a `plan`.",
    ),
});

export type PlannerOptions = z.input<typeof plannerOptions>;

/** Conditions under which a run switches to another plan. */
export type AdaptSpec = z.output<typeof adapt>;
