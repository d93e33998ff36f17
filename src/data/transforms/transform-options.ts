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
            .describe("Splits a field of text into a list. Left out: none: one value a field."),
          weightSeparator: character
            .optional()
            .describe("Stands between an id and its weight. Left out: none: no weights."),
          list: z
            .enum(["plain", "weighted"])
            .optional()
            .describe(
              "Of files with lists, as Parquet: a list of values, or of ids with weights. Left out: none: one.",
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
    .describe("That of the op: what a version computes never changes."),
  output: visibleName.describe(
    "The name of what it makes: features and other transforms read it as a column.",
  ),
};
const one = {
  ...made,
  input: input.describe(
    "What it reads: a column of the files, or an output of another transform; for a list, an object.",
  ),
};
const inputs = z.array(input).refine((all) => all.length === 2, { error: "a list of two columns" });
const two = {
  ...made,
  inputs: inputs.describe("What it reads: a list of two, each as `input` of other ops."),
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
    .describe("Of an op that hashes: its seed, 64 bits; as text where a number would be rounded."),
  max: z.int().min(1).max(modulusMax).describe("Ids are below it; at most 2⁴⁸."),
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
    plus: finite.default(0).describe("Of `log`: added first."),
  }),
  z.strictObject({
    op: z.literal("boxCox"),
    ...one,
    lambda1: finite.describe("Of `boxCox`: the power."),
    lambda2: finite.default(0).describe("Of `boxCox`: added first."),
  }),
  z.strictObject({
    op: z.literal("logit"),
    ...one,
    eps: z.number().gt(0).lt(0.5).default(1e-6).describe("Of `logit`: how near to 0 and 1."),
  }),
  z.strictObject({
    op: z.literal("scale"),
    ...one,
    minus: finite.default(0).describe("Of `scale`: subtracted first."),
    over: finite
      .refine((value) => value !== 0, { error: "another number than 0" })
      .describe("Of `scale`: what is divided by."),
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
      .describe("`fill`: what takes the place of a missing value."),
  }),
  z.strictObject({ op: z.literal("bucketize"), ...one, borders }),
  z
    .strictObject({
      op: z.literal("onehot"),
      ...one,
      low: finite.describe("Of `onehot`: the first value of the first bucket."),
      high: finite.describe("Of `onehot`: the end of the last one."),
      buckets: z.int().min(1).max(4096).describe("Of `onehot`: how many elements the vector has."),
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
    modulus: z.int().min(1).max(modulusMax).describe("Of `positiveModulus`, at most 2⁴⁸."),
  }),
  z.strictObject({
    op: z.literal("firstX"),
    ...one,
    x: z.int().min(1).max(65_535).describe("Of `firstX`: how many entries."),
  }),
  z.strictObject({ op: z.literal("enumerate"), ...one }),
  z.strictObject({ op: z.literal("hashText"), ...one }),
  z.strictObject({
    op: z.literal("mapId"),
    ...one,
    vocabulary: pathOption("data", z.string().min(1)).describe(
      "A file: texts, a line each; or pairs of ids.",
    ),
    form: z
      .enum(["texts", "pairs"])
      .default("texts")
      .describe("Of `mapId`: the file has `texts`, or `pairs` of ids."),
    unknown: z
      .int()
      .optional()
      .describe("Of `mapId`: the id of what the file lacks; left out, it is left out."),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/, "64 hexadecimal digits")
      .optional()
      .describe(
        "Of `mapId`: that of its file; left out, that of the file when the job is submitted.",
      ),
  }),
  z.strictObject({
    op: z.literal("nGram"),
    ...one,
    n: z.int().min(1).max(64).describe("Of `nGram`: ids of a window."),
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
      .describe("Of `cartesian`: most pairs of a row, the first ones."),
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
    .describe("That of the op: what a version computes never changes."),
  rate: z.number().gt(0).max(1).describe("Of `sampling`: the share of the rows that is kept."),
  seed: z.int().min(0).default(1).describe("Of `sampling`: another one keeps other rows."),
  by: input
    .optional()
    .describe(
      "Of `sampling`: a column of ids, as `input`, whose first id decides; left out, the file and the line.",
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
