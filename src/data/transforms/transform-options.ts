// The schema of an entry of `data.transforms`: its op, what it reads, what it makes, and its
// arguments.

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
          column: visibleName,
          /** Splits a field of text into a list. @default none: one value a field */
          separator: character.optional(),
          /** Stands between an id and its weight. @default none: no weights */
          weightSeparator: character.optional(),
          /**
           * Of files with lists, as Parquet: a list of values, or of ids with weights. @default
           * none: one
           */
          list: z.enum(["plain", "weighted"]).optional(),
        })
        .refine(({ separator, weightSeparator: own }) => own === undefined || own !== separator, {
          path: ["weightSeparator"],
          error: "another character than `separator`",
        }),
    ],
    { error: inputAre },
  )
  .transform((entry) => (typeof entry === "string" ? { column: entry } : entry));

/** What every op has that makes a column. */
const made = {
  /** Of the op: another release may compute something else under another number. */
  version: z.literal(1).default(1),
  /** The name of what it makes: features and other transforms read it as a column. */
  output: visibleName,
};
const one = { ...made, input };
const inputs = z.array(input).refine((all) => all.length === 2, { error: "a list of two columns" });
const two = { ...made, inputs };

const integerMax = Number.MAX_SAFE_INTEGER;
const finite = z.number();
/** 64 bits, signed: text where a number of JSON would be rounded. */
const salt = z
  .union([z.int(), z.string().regex(/^-?\d{1,19}$/, "an integer of 64 bits")], {
    error: "an integer, or one as text",
  })
  .transform(String)
  .refine((text) => BigInt.asIntN(64, BigInt(text)) === BigInt(text), {
    error: "an integer of 64 bits",
  });
const hashed = {
  /** Seed of the hash. @default 0 */
  salt: salt.prefault(0),
  /** Ids are below it. */
  max: z.int().min(1).max(modulusMax),
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
  });

const numberOps = [
  z.strictObject({ op: z.literal("log"), ...one, plus: finite.default(0) }),
  z.strictObject({
    op: z.literal("boxCox"),
    ...one,
    lambda1: finite,
    lambda2: finite.default(0),
  }),
  z.strictObject({ op: z.literal("logit"), ...one, eps: z.number().gt(0).lt(0.5).default(1e-6) }),
  z.strictObject({
    op: z.literal("scale"),
    ...one,
    minus: finite.default(0),
    over: finite.refine((value) => value !== 0, { error: "another number than 0" }),
  }),
  z
    .strictObject({ op: z.literal("clamp"), ...one, min: finite, max: finite })
    .refine(({ min, max }) => min <= max, { path: ["max"], error: "at least `min`" }),
  z.strictObject({
    op: z.literal("fill"),
    ...one,
    value: z.number().min(-integerMax).max(integerMax),
  }),
  z.strictObject({ op: z.literal("bucketize"), ...one, borders }),
  z
    .strictObject({
      op: z.literal("onehot"),
      ...one,
      low: finite,
      high: finite,
      buckets: z.int().min(1).max(4096),
    })
    .refine(({ low, high }) => low < high, { path: ["high"], error: "greater than `low`" }),
  z.strictObject({
    op: z.literal("getLocalHour"),
    ...one,
    offsetSeconds: z.int().min(-86_400).max(86_400).default(0),
  }),
] as const;

const idOps = [
  z.strictObject({ op: z.literal("sigridHash"), ...one, ...hashed }),
  z.strictObject({
    op: z.literal("positiveModulus"),
    ...one,
    modulus: z.int().min(1).max(modulusMax),
  }),
  z.strictObject({ op: z.literal("firstX"), ...one, x: z.int().min(1).max(65_535) }),
  z.strictObject({ op: z.literal("enumerate"), ...one }),
  z.strictObject({ op: z.literal("hashText"), ...one }),
  z.strictObject({
    op: z.literal("mapId"),
    ...one,
    /** A file: texts, a line each; or pairs of ids. */
    vocabulary: pathOption("data", z.string().min(1)),
    form: z.enum(["texts", "pairs"]).default("texts"),
    /** The id of what the vocabulary lacks. @default none: it is left out */
    unknown: z.int().optional(),
    /** Of the file, hex. @default that of the file when the job is submitted */
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/, "64 hexadecimal digits")
      .optional(),
  }),
  z.strictObject({ op: z.literal("nGram"), ...one, n: z.int().min(1).max(64), ...hashed }),
] as const;

const pairOps = [
  z.strictObject({
    op: z.literal("cartesian"),
    ...two,
    ...hashed,
    pairsMax: z.int().min(1).max(65_535).default(65_535),
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
  version: z.literal(1).default(1),
  /** Share of the rows that are kept. */
  rate: z.number().gt(0).max(1),
  /** Another one keeps other rows. @default 1 */
  seed: z.int().min(0).default(1),
  /** Column whose first id is the row's identity. @default none: its place in its file */
  by: input.optional(),
});

/** One entry. */
export const transformOptions = z.discriminatedUnion("op", [
  ...numberOps,
  ...idOps,
  ...pairOps,
  sampling,
]);

/** A transform after its checks. */
export type Transform = z.output<typeof transformOptions>;
/** What a transform reads: a column of the file, or the output of another transform. */
export type TransformInput = z.output<typeof input>;
