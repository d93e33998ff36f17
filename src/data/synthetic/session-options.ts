// Options of generated data: the number of ids in bags, and `sessions`, whose samples repeat lists.

import { z } from "zod";
import { visibleName } from "../column-name-options.ts";

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

/** Most samples of a session; longer sessions are truncated. */
export const sessionSamplesMax = 65_536;
/**
 * Most samples of sessions in time order, because their order takes 12 bytes of memory per sample.
 */
const timedSamplesMax = 2 ** 28;

/** A feature whose list may stay the same from one sample of a session to the next. */
const sessionFeature = z.strictObject({
  d: z
    .number()
    .min(0)
    .max(1)
    .describe(
      "Probability that the list is the same in the next sample. Else its first id is removed, and a new id is appended.",
    ),
  l: idsPerBag
    .optional()
    .describe(
      "Length of the list, drawn once per session. Left out: as in `perFeature`, else `idsPerBag`.",
    ),
  group: visibleName
    .optional()
    .describe("Features with the same group name change together. Left out: each changes alone."),
});

export const sessionOptions = z
  .strictObject({
    mean: z
      .number()
      .min(1)
      .max(10_000)
      .optional()
      .describe("Mean number of samples of a session; lengths have a geometric distribution."),
    samples: z
      .int()
      .min(1)
      .max(sessionSamplesMax)
      .optional()
      .describe("Number of samples of every session, instead of `mean`."),
    features: z
      .record(visibleName, sessionFeature)
      .describe(
        "Features whose lists repeat, by name, such as `{ history: { d: 0.95, l: 26, group: clicks } }`. `d`: probability that the list is the same in the next sample, else it shifts by one new id; `l`: its length, as `idsPerBag`; features of the same `group` change together.",
      ),
    order: z
      .enum(["session", "time"])
      .default("session")
      .describe(
        "`session`: the samples of a session are adjacent; `time`: samples of many sessions are interleaved, as in a log.",
      ),
    open: z
      .int()
      .min(1)
      .max(1_000_000)
      .optional()
      .describe("`order: time`: number of concurrent sessions. Left out: 6,400."),
  })
  .superRefine(({ mean, samples, order, open, features }, context) => {
    if ((mean === undefined) === (samples === undefined)) {
      const message = "one of `mean` and `samples`";
      context.addIssue({ code: "custom", path: [], message, input: { mean, samples } });
    }
    if (order === "session" && open !== undefined) {
      const message = 'left out, or `order: "time"` beside it';
      context.addIssue({ code: "custom", path: ["open"], message, input: open });
    }
    const rates = new Map<string, number>();
    for (const [name, { d, group }] of Object.entries(features)) {
      if (group === undefined) continue;
      const other = rates.get(group) ?? d;
      rates.set(group, other);
      if (other === d) continue;
      const message = `${other}, as that of the group ${group}: its features change together`;
      context.addIssue({ code: "custom", path: ["features", name, "d"], message, input: d });
    }
  });

/** The option after its checks. */
export type ResolvedSessionOptions = z.output<typeof sessionOptions>;

/** Limits the samples in time order, whose order is kept in memory. */
export function refuseManyTimed(
  {
    samples,
    sessions,
  }: { readonly samples: number; readonly sessions?: ResolvedSessionOptions | undefined },
  context: z.RefinementCtx,
): void {
  if (sessions?.order !== "time" || samples <= timedSamplesMax) return;
  const message = `at most ${timedSamplesMax} with sessions in time order`;
  context.addIssue({ code: "custom", path: ["samples"], message, input: samples });
}
