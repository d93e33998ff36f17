// Options for the number of ids in bags of generated data.

import { z } from "zod";

/** Ids of a bag: exactly this many, between `min` and `max`, or drawn around a mean. */
export const idsPerBag = z.union([
  z
    .int()
    .min(1)
    .max(65_535)
    .transform((ids) => ({ min: ids, max: ids })),
  z
    .strictObject({
      min: z.int().min(0).max(65_535).describe("Fewest ids of a bag."),
      max: z.int().min(1).max(65_535).describe("Most ids of a bag."),
    })
    .refine(({ min, max }) => min <= max, {
      error: "a range whose `min` is at most its `max`",
    }),
]);

export const idsAround = z.strictObject({
  mean: z.number().gt(0).max(10_000).describe("Mean number of ids of a bag."),
  spread: z
    .number()
    .min(0)
    .max(2)
    .default(0)
    .describe("Standard deviation of the length's logarithm: lengths are lognormal. Default: 0."),
});
