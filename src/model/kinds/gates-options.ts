// Options of the models that gate the vectors of a sample (gates.ts): MaskNet and FinalMLP.

import { z } from "zod";
import {
  commonOptions,
  commonProblems,
  type Problem,
  topProblems,
  topWidths,
  widths,
} from "./common-options.ts";

/** MaskNet: layers with multiplicative masks, which an MLP computes from all vectors. */
export const maskNetOptions = z.strictObject({
  kind: z.literal("maskNet"),
  ...commonOptions,
  blocks: z.int().min(1).max(64).describe("`maskNet`: number of mask blocks."),
  width: z
    .int()
    .min(1)
    .max(65536)
    .describe(
      "`autoInt`: columns of a layer's output vectors, over all heads; `maskNet`: columns of a block's output.",
    ),
  reduction: z
    .number()
    .gt(0)
    .max(64)
    .default(1)
    .describe(
      "`maskNet`: hidden columns of the MLP that computes a mask, as a multiple of the mask's columns.",
    ),
  structure: z
    .enum(["parallel", "serial"])
    .default("parallel")
    .describe(
      "`parallel`: each block's input is all vectors; `serial`: its input is the output of the previous block.",
    ),
  top: topWidths,
});

/**
 * FinalMLP: two MLPs over vectors with gates of their own, and a bilinear fusion of their outputs.
 */
export const finalMlpOptions = z.strictObject({
  kind: z.literal("finalMlp"),
  ...commonOptions,
  first: widths
    .min(1)
    .describe(
      "`finalMlp`: widths of the first MLP's layers, with ReLU after every layer; `finalNet`: widths of the first block's layers, even numbers.",
    ),
  second: widths.min(1).describe("Widths of the second MLP's layers."),
  heads: z
    .int()
    .min(1)
    .max(64)
    .default(1)
    .describe("Heads of the bilinear fusion of both outputs; a divisor of the widths of both."),
  gates: widths
    .optional()
    .describe("`finalMlp`: widths of the hidden layers of the gates. Left out: no gates."),
  contexts: z
    .tuple([z.array(z.string()).min(1), z.array(z.string()).min(1)])
    .optional()
    .describe(
      "`finalMlp`: for each of the two gates, the features that are its input, which have tables of their own. Left out: the input is a trained vector.",
    ),
});

/** A validated MaskNet or FinalMLP. */
export type GateSpec = z.output<typeof maskNetOptions> | z.output<typeof finalMlpOptions>;

/** Options of a MaskNet or FinalMLP that contradict each other. */
export function gateProblems(model: GateSpec): Problem[] {
  const problems = commonProblems(model);
  if (model.groups !== undefined && model.dim === undefined) {
    problems.push({ path: ["dim"], message: "the width of the vectors that groups give" });
  }
  if (model.kind === "maskNet") return [...problems, ...topProblems(model.top)];
  return [...problems, ...finalMlpProblems(model)];
}

function finalMlpProblems(model: z.output<typeof finalMlpOptions>): Problem[] {
  const { heads, gates, contexts, tables, features } = model;
  const problems: Problem[] = [];
  for (const stream of ["first", "second"] as const) {
    const last = model[stream].length - 1;
    if ((model[stream][last] ?? 0) % heads === 0) continue;
    problems.push({ path: [stream, last], message: `a multiple of the heads, ${heads}` });
  }
  if (contexts !== undefined && gates === undefined) {
    problems.push({ path: ["contexts"], message: "left out, as there are no `gates`" });
  }
  const names = new Set(features?.map(({ name, column }) => name ?? column));
  const known = features === undefined ? new Set(tables.map(({ name }) => name)) : names;
  for (const [i, context] of (contexts ?? []).entries()) {
    const at = context.findIndex((name) => !known.has(name));
    if (at >= 0) problems.push({ path: ["contexts", i, at], message: "the name of a feature" });
  }
  const used = new Set(contexts?.flat());
  if (model.dense === 0 && [...known].every((name) => used.has(name))) {
    problems.push({ path: ["contexts"], message: "some of the features, not all of them" });
  }
  return problems;
}
