// Options of a learning rate schedule. They are in a file apart from rate-schedule.ts, so that
// worker threads, which compute rates, load no schemas.

import { z } from "zod";

const warmUpSteps = z
  .int()
  .min(0)
  .default(0)
  .describe("The rate rises linearly over this many first steps; 0: no warm-up.");
const from = z
  .int()
  .min(0)
  .optional()
  .describe("Step at which the decay begins. Left out: at the end of the warm-up.");
const to = z
  .number()
  .min(0)
  .max(1)
  .default(0)
  .describe("Final rate, as a share of the learning rate.");
const steps = z.int().min(1).describe("Number of steps of the decay.");

/** A learning rate schedule. Steps are counted from the model's first step. */
export const scheduleOptions = z
  .discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("constant"), warmUpSteps }),
    /** (1 - t)^power, with t from 0 to 1 over `steps`. */
    z.strictObject({
      ...{ kind: z.literal("polynomial"), warmUpSteps, from, steps, to },
      power: z
        .int()
        .min(1)
        .max(10)
        .default(1)
        .describe("`polynomial`: exponent of the decay; 1: linear."),
    }),
    /** (1 + cos(pi t)) / 2 (Loshchilov and Hutter 2017, without restarts). */
    z.strictObject({ kind: z.literal("cosine"), warmUpSteps, from, steps, to }),
    /** Multiplies the rate by `factor` every `everySteps` steps. */
    z.strictObject({
      ...{
        kind: z.literal("step"),
        warmUpSteps,
        from,
        everySteps: z
          .int()
          .min(1)
          .describe("`step`: number of steps between two reductions of the rate."),
      },
      factor: z
        .number()
        .gt(0)
        .lt(1)
        .default(0.1)
        .describe("`step`: factor of the rate at each reduction."),
    }),
  ])
  .superRefine((schedule, context) => {
    if (schedule.kind === "constant" || (schedule.from ?? Infinity) >= schedule.warmUpSteps) return;
    const message = `at least \`warmUpSteps\`, ${schedule.warmUpSteps}`;
    context.addIssue({ code: "custom", path: ["from"], message });
  });

export type RateSchedule = z.output<typeof scheduleOptions>;
