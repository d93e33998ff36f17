// Decides which inputs categorical features take: rows of tables, or raw ids, which are the
// integers in the feature's column of the data. From raw ids the model itself computes the same
// rows as training, if ONNX can express the computation. Other features take rows, and the reason
// is reported.

import {
  columnsOf,
  featuresOf,
  InvalidOptionError,
  type JobSpec,
  outputsOf,
  shapesOf,
  type Transform,
  type TransformInput,
  type TransformOf,
  transformsOf,
} from "../../../../internal.ts";

/** The forms of ids that a model takes as inputs. */
export const inputIds = ["rows", "raw"] as const;
/** One of these forms. */
export type InputIds = (typeof inputIds)[number];

/** The input of a categorical feature. */
export interface FeatureInput {
  readonly feature: string;
  /** `FEATURE.ids` for raw and for dynamic ids, else `FEATURE.rows`. */
  readonly name: string;
  readonly raw: RawIds | undefined;
  /** Why the feature takes no raw ids although they were requested. */
  readonly notRaw: string | undefined;
}

/** The computation from raw ids to rows. */
export interface RawIds {
  /** The column with the ids, and how it is split into bags. */
  readonly source: TransformInput;
  /** Transforms that the model applies first, in this order. */
  readonly transforms: readonly IdTransform[];
  /** The number that is then subtracted; and below, the width of the table's ids. */
  readonly offset: number;
  readonly bits: 32 | 64;
  readonly rows: number;
  /** The table's policy for ids outside its rows; undefined: its ids are dynamic. */
  readonly beyond: "reject" | "clamp" | "hash" | undefined;
  /** Range of transformed ids that the job accepts; others are rejected. */
  readonly least: bigint;
  readonly most: bigint;
}

/** Transforms that map one id to one id and that ONNX operators can express. */
type IdTransform = TransformOf<"sigridHash"> | TransformOf<"positiveModulus">;

const [int64Min, int64Max] = [-(2n ** 63n), 2n ** 63n - 1n];
/** A 32-bit id is read from text of at most 15 digits (src/data/text/line-decoder.ts). */
const digitsMax = 10n ** 15n - 1n;

/**
 * The inputs of all features, in their order.
 * @throws InvalidOptionError where raw ids are requested and no feature supports them
 */
export function featureInputs(
  { data, model }: Pick<JobSpec, "data" | "model">,
  ids: InputIds = "rows",
): FeatureInput[] {
  const { categorical } = columnsOf(data, shapesOf(model));
  const transforms = transformsOf(data) ?? [];
  const inputs = featuresOf(model).map(({ name, table }, i): FeatureInput => {
    const field = categorical[i];
    if (field === undefined) throw new RangeError(`No feature ${i}`);
    const isDynamic = model.tables[table]?.dynamic !== undefined;
    const found = ids === "raw" ? rawIdsOf(field, transforms, isDynamic) : undefined;
    const [raw, notRaw] = typeof found === "string" ? [undefined, found] : [found, undefined];
    const isIds = isDynamic || raw !== undefined;
    return { feature: name, name: `${name}.${isIds ? "ids" : "rows"}`, raw, notRaw };
  });
  if (ids === "rows" || inputs.some(({ raw }) => raw !== undefined)) return inputs;
  const [first] = inputs;
  const why = first === undefined ? "there is none" : `of \`${first.feature}\`, ${first.notRaw}`;
  const message = `Expected a feature whose raw ids ONNX can map to rows, with \`ids: raw\`: ${why}`;
  throw new InvalidOptionError("ids", `${message}; export without it`);
}

type Field = ReturnType<typeof columnsOf>["categorical"][number];

/** The computation from a column's ids to rows, or why ONNX cannot express it. */
function rawIdsOf(field: Field, all: readonly Transform[], isDynamic: boolean): RawIds | string {
  const { name, ids, offset, rows, isWide, separator, list, weightSeparator } = field;
  if (ids === "hash") return "rows are hashes of text, which ONNX has no operators for";
  const way = wayOf({ column: name, separator, list, weightSeparator }, all);
  if (typeof way === "string") return way;
  const beyond = isDynamic ? undefined : field.beyond;
  const shift = BigInt(offset);
  const [low, high] = isWide ? [int64Min, int64Max] : [-digitsMax, digitsMax];
  const [first, last] = beyond === "reject" ? [0n, BigInt(rows - 1)] : [int64Min, int64Max];
  return {
    ...way,
    ...{ offset, bits: isWide ? 64 : 32, rows, beyond },
    least: low > first + shift ? low : first + shift,
    most: high < last + shift ? high : last + shift,
  };
}

/**
 * The source column and the chain of transforms that make column `to`, or why one transform has no
 * operator.
 */
function wayOf(
  to: TransformInput,
  all: readonly Transform[],
): Pick<RawIds, "source" | "transforms"> | string {
  const maker = all.find((transform) => outputsOf(transform).includes(to.column));
  if (maker === undefined) {
    // In records, an id of a weighted list is the text `id:weight` (src/data/records.ts).
    const weights = to.list === "weighted" && { weightSeparator: ":" };
    return { source: { ...to, ...weights }, transforms: [] };
  }
  if (maker.op !== "sigridHash" && maker.op !== "positiveModulus") {
    return `\`${to.column}\` is made by \`${maker.op}\`, and not of one integer each`;
  }
  const way = wayOf(maker.input, all);
  return typeof way === "string" ? way : { ...way, transforms: [...way.transforms, maker] };
}
