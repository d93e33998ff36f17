// Options of DIN and BST, whose layers work on sequences (sequences.ts).

import { z } from "zod";
import {
  commonOptions,
  commonProblems,
  type Problem,
  topProblems,
  topWidths,
  widths,
} from "./common-options.ts";

/** A target feature, and the sequence feature that is pooled for it. */
const pair = {
  target: z.string().describe("Name of a pooled feature, the target of the attention."),
  sequence: z.string().describe("Name of a feature with `pooling: none`, the sequence."),
};

/** DIN: sequences pooled by target attention, and an MLP. */
export const dinOptions = z.strictObject({
  kind: z.literal("din"),
  ...commonOptions,
  attention: z
    .array(
      z.strictObject({
        ...pair,
        hidden: widths
          .default([80, 40])
          .describe(
            "`din`: widths of the hidden layers of the MLP that computes the weight of each id.",
          ),
        softmax: z
          .boolean()
          .default(false)
          .describe(
            "`din`: `true`: the weights of a sequence are normalised to the sum 1; `false`: they are not, as in the paper.",
          ),
      }),
    )
    .max(100)
    .default([])
    .describe(
      "`din`: sequences that are pooled by attention, each with a target. An empty list: the model is a plain MLP.",
    ),
  activation: z
    .enum(["relu", "dice"])
    .optional()
    .meta({ default: "relu" })
    .describe(
      "`din`: activation of the hidden layers of all its MLPs: `relu`, or `dice` as in the paper.",
    ),
  top: widths
    .min(1)
    .describe(
      "Widths of the top MLP's layers; the last is 1. The activation follows every layer but the last.",
    ),
});

/** BST: transformer blocks over each sequence and its target, and an MLP. */
export const bstOptions = z.strictObject({
  kind: z.literal("bst"),
  ...commonOptions,
  transformers: z
    .array(
      z.strictObject({
        ...pair,
        blocks: z
          .int()
          .min(1)
          .max(16)
          .default(1)
          .describe("`bst`: number of transformer blocks in sequence."),
        heads: z
          .int()
          .min(1)
          .max(64)
          .default(2)
          .describe(
            "`bst`: heads of a block's attention; each has an equal share of a vector's columns.",
          ),
        hidden: z
          .int()
          .min(1)
          .max(65536)
          .optional()
          .describe("`bst`: columns of a block's hidden layer. Left out: as many as a vector has."),
        pooling: z
          .enum(["mean", "target", "concat"])
          .default("mean")
          .describe(
            "`bst`: how the transformer's output vectors are combined: `mean` of the vectors of target and sequence, `target`, the target's vector alone, or `concat`, all vectors concatenated.",
          ),
      }),
    )
    .max(100)
    .default([])
    .describe(
      "`bst`: sequences that transformer blocks process, each with a target. An empty list: the model is a plain MLP.",
    ),
  top: topWidths,
});

/** A validated DIN or BST. */
export type SequenceSpec = z.output<typeof dinOptions> | z.output<typeof bstOptions>;

/** The model's pairs of target and sequence, and the name of the option that holds them. */
function pairsOf(model: SequenceSpec) {
  return model.kind === "din"
    ? { option: "attention", pairs: model.attention }
    : { option: "transformers", pairs: model.transformers };
}

/** Options of a DIN or BST that contradict each other. */
export function sequenceProblems(model: SequenceSpec): Problem[] {
  const problems = [...commonProblems(model), ...topProblems(model.top)];
  if (model.groups !== undefined && model.dim === undefined) {
    problems.push({ path: ["dim"], message: "the width of the vectors that groups give" });
  }
  for (const i of pairsOf(model).pairs.keys()) problems.push(...pairProblems(model, i));
  return problems;
}

function pairProblems(model: SequenceSpec, index: number): Problem[] {
  const { option, pairs } = pairsOf(model);
  const own = pairs[index];
  if (own === undefined) return [];
  const problems: Problem[] = [];
  const refuse = (part: "target" | "sequence" | "heads", message: string) =>
    problems.push({ path: [option, index, part], message });
  const [target, sequence] = [featureNamed(model, own.target), featureNamed(model, own.sequence)];
  const isGrouped = model.groups?.some(({ features }) => features.includes(own.target)) === true;
  if (target === undefined) refuse("target", "the name of a feature");
  else if (target.pooling === "none") refuse("target", "a feature that is pooled");
  else if (isGrouped) refuse("target", "a feature that is in no group");
  else if (target.vectors !== undefined) refuse("target", "a feature without `vectors` of its own");
  if (sequence === undefined) refuse("sequence", "the name of a feature");
  else if (sequence.pooling !== "none") refuse("sequence", 'a feature with `pooling: "none"`');
  else if (sequence.vectors !== undefined) {
    refuse("sequence", "a feature without `vectors` of its own");
  } else if (sequence.isEncoded) refuse("sequence", "a feature without an `encoder`");
  if (problems.length > 0) return problems;
  const width = model.dim ?? target?.dim ?? 0;
  if ("heads" in own && width % own.heads !== 0) {
    refuse("heads", `a divisor of the columns of its vectors, ${width}`);
  }
  if (model.dim === undefined && target?.dim !== sequence?.dim) {
    const message = `of a table as wide as that of its target, ${target?.dim} columns; or \`model.dim\``;
    refuse("sequence", message);
  }
  return problems;
}

/** The options of the named feature; in a model without features, of the table with that name. */
function featureNamed({ tables, features }: SequenceSpec, of: string) {
  const tableNamed = (wanted: string) => tables.find(({ name }) => name === wanted);
  if (features === undefined) {
    const table = tableNamed(of);
    return (
      table && { pooling: table.pooling, vectors: undefined, isEncoded: false, dim: table.dim }
    );
  }
  const feature = features.find(({ name, column }) => (name ?? column) === of);
  if (feature === undefined) return undefined;
  const { pooling, vectors, table, column, encoder } = feature;
  const isEncoded = encoder !== undefined;
  return { pooling, vectors, isEncoded, dim: tableNamed(table ?? column)?.dim };
}
