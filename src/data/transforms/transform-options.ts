// The schema of an entry of `data.transforms`: its op, inputs, output and arguments.

import { z } from "zod";
import { pathOption } from "../../ports/option-schemas.ts";
import { character, visibleName } from "../column-name-options.ts";
import { modulusMax } from "./hash64.ts";

const inputAre =
  "the name of a column or of another transform's output, or an object with `column` and perhaps " +
  "`separator`, `weightSeparator`, `list`";
const input = z
  .union(
    [
      visibleName,
      z
        .strictObject({
          column: visibleName.describe("Name of the column."),
          separator: character
            .optional()
            .describe(
              "Character that splits a text field into a list. Left out: one value a field.",
            ),
          weightSeparator: character
            .optional()
            .describe("Character between an id and its weight. Left out: no weights."),
          list: z
            .enum(["plain", "weighted"])
            .optional()
            .describe(
              "Files with lists, such as Parquet: `plain`, a list of values; `weighted`, a list of ids with weights. Left out: one value.",
            ),
        })
        .refine(({ separator, weightSeparator: own }) => own === undefined || own !== separator, {
          path: ["weightSeparator"],
          error: "another character than `separator`",
        }),
    ],
    { error: inputAre },
  )
  .transform((entry) => (typeof entry === "string" ? { column: entry } : entry));

/** Options of every op that makes a column. */
const made = {
  version: z
    .literal(1)
    .default(1)
    .describe("Version of the op; the function of a version never changes."),
  output: visibleName.describe("Name of the new column, for features and transforms."),
};
const one = {
  ...made,
  input: input.describe(
    "Input: a column of the files, or the output of another transform; an object for a list.",
  ),
};
const inputs = z.array(input).refine((all) => all.length === 2, { error: "a list of two columns" });
const two = {
  ...made,
  inputs: inputs.describe("The two inputs, each as `input` of other ops."),
};

const integerMax = Number.MAX_SAFE_INTEGER;
const finite = z.number();
/** A signed 64-bit integer, as text if a JSON number would be rounded. */
const salt = z
  .union([z.int(), z.string().regex(/^-?\d{1,19}$/, "an integer of 64 bits")], {
    error: "an integer, or one as text",
  })
  .transform(String)
  .refine((text) => BigInt.asIntN(64, BigInt(text)) === BigInt(text), {
    error: "an integer of 64 bits",
  });
const hashed = {
  salt: salt
    .prefault(0)
    .describe("Ops that hash: 64-bit seed; as text if a JSON number would be rounded."),
  max: z.int().min(1).max(modulusMax).describe("Ids are less than this, at most 2⁴⁸."),
};

const borders = z
  .array(finite)
  .min(1)
  .max(1_000_000)
  .refine((all) => all.every((border, i) => i === 0 || border >= (all[i - 1] as number)), {
    error: "borders that do not decrease",
  })
  .refine((all) => all.every((border, i) => i < 2 || border > (all[i - 2] as number)), {
    error: "borders of which no three are equal",
  })
  .describe("`bucketize`: numbers that do not decrease, no three of them equal.");

const numberOps = [
  z.strictObject({
    op: z.literal("log"),
    ...one,
    plus: finite.default(0).describe("`log`: added to the value before the logarithm."),
  }),
  z.strictObject({
    op: z.literal("boxCox"),
    ...one,
    lambda1: finite.describe("`boxCox`: the power λ₁."),
    lambda2: finite.default(0).describe("`boxCox`: added to the value first (λ₂)."),
  }),
  z.strictObject({
    op: z.literal("logit"),
    ...one,
    eps: z
      .number()
      .gt(0)
      .lt(0.5)
      .default(1e-6)
      .describe("`logit`: values are clamped to between eps and 1 - eps."),
  }),
  z.strictObject({
    op: z.literal("scale"),
    ...one,
    minus: finite.default(0).describe("`scale`: subtracted from the value before the division."),
    over: finite
      .refine((value) => value !== 0, { error: "another number than 0" })
      .describe("`scale`: the divisor."),
  }),
  z
    .strictObject({
      op: z.literal("clamp"),
      ...one,
      min: finite.describe("`clamp`: smaller values become this."),
      max: finite.describe("`clamp`: larger values become this."),
    })
    .refine(({ min, max }) => min <= max, { path: ["max"], error: "at least `min`" }),
  z.strictObject({
    op: z.literal("fill"),
    ...one,
    value: z
      .number()
      .min(-integerMax)
      .max(integerMax)
      .describe("`fill`: replaces a missing value."),
  }),
  z.strictObject({ op: z.literal("bucketize"), ...one, borders }),
  z
    .strictObject({
      op: z.literal("onehot"),
      ...one,
      low: finite.describe("`onehot`: start of the first bucket."),
      high: finite.describe("`onehot`: end of the last bucket."),
      buckets: z
        .int()
        .min(1)
        .max(4096)
        .describe("`onehot`: number of buckets, the elements of the vector."),
    })
    .refine(({ low, high }) => low < high, { path: ["high"], error: "greater than `low`" }),
  z.strictObject({
    op: z.literal("getLocalHour"),
    ...one,
    offsetSeconds: z
      .int()
      .min(-86_400)
      .max(86_400)
      .default(0)
      .describe("`getLocalHour`: seconds east of Greenwich."),
  }),
] as const;

const idOps = [
  z.strictObject({ op: z.literal("sigridHash"), ...one, ...hashed }),
  z.strictObject({
    op: z.literal("positiveModulus"),
    ...one,
    modulus: z.int().min(1).max(modulusMax).describe("`positiveModulus`: modulus, at most 2⁴⁸."),
  }),
  z.strictObject({
    op: z.literal("firstX"),
    ...one,
    x: z.int().min(1).max(65_535).describe("`firstX`: number of first entries that are kept."),
  }),
  z.strictObject({ op: z.literal("enumerate"), ...one }),
  z.strictObject({ op: z.literal("hashText"), ...one }),
  z.strictObject({
    op: z.literal("mapId"),
    ...one,
    vocabulary: pathOption("data", z.string().min(1)).describe(
      "`mapId`: the file of the vocabulary: one text a line, or pairs of ids.",
    ),
    form: z
      .enum(["texts", "pairs"])
      .default("texts")
      .describe("`mapId`: whether the file has `texts` or `pairs` of ids."),
    unknown: z
      .int()
      .optional()
      .describe(
        "`mapId`: the id of all values that the file lacks. Left out: such values are dropped.",
      ),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/, "64 hexadecimal digits")
      .optional()
      .describe(
        "`mapId`: SHA-256 of the file; another file is refused. Left out: filled in when the job is submitted.",
      ),
  }),
  z.strictObject({
    op: z.literal("nGram"),
    ...one,
    n: z.int().min(1).max(64).describe("`nGram`: number of consecutive ids that give one new id."),
    ...hashed,
  }),
] as const;

const pairOps = [
  z.strictObject({
    op: z.literal("cartesian"),
    ...two,
    ...hashed,
    pairsMax: z
      .int()
      .min(1)
      .max(65_535)
      .default(65_535)
      .describe("`cartesian`: most pairs of a row; further pairs are dropped."),
  }),
  z.strictObject({ op: z.literal("idListTransform"), ...two }),
  z.strictObject({ op: z.literal("hasOverlap"), ...two }),
  z.strictObject({ op: z.literal("overlapCount"), ...two }),
  z.strictObject({ op: z.literal("maxCount"), ...two }),
  z.strictObject({ op: z.literal("jaccard"), ...two }),
  z.strictObject({ op: z.literal("cosine"), ...two }),
  z.strictObject({ op: z.literal("scoreSum"), ...two }),
  z.strictObject({ op: z.literal("scoreMin"), ...two }),
  z.strictObject({ op: z.literal("scoreMax"), ...two }),
] as const;

const sampling = z.strictObject({
  op: z.literal("sampling"),
  version: z
    .literal(1)
    .default(1)
    .describe("Version of the op; the function of a version never changes."),
  rate: z.number().gt(0).max(1).describe("`sampling`: share of the rows that is kept."),
  seed: z.int().min(0).default(1).describe("`sampling`: seed; another seed keeps other rows."),
  by: input
    .optional()
    .describe(
      "`sampling`: a column of ids, as `input`: rows with the same first id are all kept or all dropped. Left out: each row is drawn by its file and line.",
    ),
});

/** Schema of one transform. */
export const transformOptions = z.discriminatedUnion("op", [
  ...numberOps,
  ...idOps,
  ...pairOps,
  sampling,
]);

/** A validated transform. */
export type Transform = z.output<typeof transformOptions>;
/** An input of a transform: a column of the file, or the output of another transform. */
export type TransformInput = z.output<typeof input>;
