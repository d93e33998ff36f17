// Cross-checks between options of `data`, and conversions of checked options.

import type { z } from "zod";
import { type FeatureSection, featureProblems } from "../transforms/plan.ts";

/** Default directory of caches. */
export const cacheDirectory = ".osiris/cache";

/** Both spellings of `epochs`, as a user may have written them. */
interface Spellings {
  readonly epochs?: number | undefined;
  readonly passes?: number | undefined;
}

export function refuseTwoSpellings({ epochs, passes }: Spellings, context: z.RefinementCtx): void {
  if (epochs === undefined || passes === undefined || epochs === passes) return;
  const message = `left out, as \`epochs\` is ${epochs} and \`passes\` is its old spelling`;
  context.addIssue({ code: "custom", path: ["passes"], message, input: passes });
}

/** Resolves `cache: none` to its meaning: a stream, with its index in the default directory. */
export function withStream<Section extends { readonly cache: string }>(section: Section): Section {
  if (section.cache !== "none") return section;
  return { ...section, cache: cacheDirectory, streamed: true };
}

/** A global order needs a cache, which gives random access to all samples. */
export function refuseGlobalStream(
  {
    streamed,
    order,
  }: { readonly streamed?: boolean | undefined; readonly order?: string | undefined },
  context: z.RefinementCtx,
): void {
  if (streamed !== true || order !== "global") return;
  const message = "`split` or left out, as samples without a cache are read piece by piece";
  context.addIssue({ code: "custom", path: ["order"], message, input: order });
}

/** `splitSamples` of generated data requires streaming. */
export function refuseSplits(
  {
    streamed,
    splitSamples,
  }: { readonly streamed?: boolean | undefined; readonly splitSamples?: number | undefined },
  context: z.RefinementCtx,
): void {
  if (streamed === true || splitSamples === undefined) return;
  const message = "left out, or `cache: none` beside it: it cuts samples that have no cache";
  context.addIssue({ code: "custom", path: ["splitSamples"], message, input: splitSamples });
}

/** `cache: none` requires a format with an index: without one, a sample cannot be found again. */
export function refuseNoCache(
  { cache }: { readonly cache: string },
  context: z.RefinementCtx,
): void {
  if (cache !== "none") return;
  const message =
    "a directory: only Parquet, Arrow and generated samples do without a cache, by `cache: none`";
  context.addIssue({ code: "custom", path: ["cache"], message, input: cache });
}

/** Refuses features that do not match the transforms that make them. */
export function refuseWrongFeatures(section: FeatureSection, context: z.RefinementCtx): void {
  for (const { path, error, input } of featureProblems(section)) {
    context.addIssue({ code: "custom", path, message: error, input });
  }
}

/**
 * The section with the number of epochs under its old key, `passes`. job.json of every checkpoint
 * and the messages between hosts use the old key.
 */
export function withPasses<Section extends Spellings>(
  section: Section,
): Omit<Section, "epochs" | "passes"> & { readonly passes: number } {
  const { epochs, passes, ...rest } = section;
  return { ...rest, passes: epochs ?? passes ?? 1 };
}
