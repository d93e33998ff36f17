// Options of a table with dynamic ids: admission of ids to rows, and eviction from them.

import { z } from "zod";

/** When an id without a row gets one; until then it adds nothing to its bag. */
const admissionOptions = z.discriminatedUnion("kind", [
  /** At its first occurrence. */
  z.strictObject({ kind: z.literal("all") }),
  /** At its `count`-th occurrence. The count restarts after an eviction period without the id. */
  z.strictObject({
    kind: z.literal("frequency"),
    count: z
      .int()
      .min(1)
      .max(1_000_000)
      .describe("`frequency`: number of the occurrence at which an id is admitted."),
  }),
  /** At each occurrence with this probability, drawn by the job's seed. */
  z.strictObject({
    kind: z.literal("probability"),
    probability: z
      .number()
      .gt(0)
      .max(1)
      .describe(
        "`probability`: probability of admission at each occurrence, drawn by the job's seed.",
      ),
  }),
]);

/** Which ids lose their rows at an eviction step. */
const evictionOptions = z.discriminatedUnion("kind", [
  /**
   * The ids with the lowest counts, as many as needed to leave this share of each block's rows
   * free. Counts are halved at each eviction step.
   */
  z.strictObject({
    kind: z.literal("lfu"),
    free: z
      .number()
      .min(0)
      .lt(1)
      .default(0.1)
      .describe(
        "`lfu`: share of each row block that is free after an eviction step; 0: no id is evicted.",
      ),
  }),
  /** The ids that were in no batch of the last `steps` steps. */
  z.strictObject({
    kind: z.literal("age"),
    steps: z
      .int()
      .min(1)
      .describe("`age`: an id is evicted after this many steps in which no batch had it."),
  }),
]);

/** Dynamic ids: any 64-bit id gets a row of its own while there are free rows. */
export const dynamicOptions = z.strictObject({
  admission: admissionOptions
    .prefault({ kind: "all" })
    .describe("When an id without a row gets one. Left out: at its first occurrence."),
  eviction: evictionOptions
    .prefault({ kind: "lfu" })
    .describe(
      "Which ids lose their rows at an eviction step. Left out: those with the lowest counts.",
    ),
  everySteps: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(100)
    .describe(
      "Eviction interval: ids are evicted before each step whose number is a multiple of this; a part of the arithmetic.",
    ),
});

export type DynamicSpec = z.output<typeof dynamicOptions>;
