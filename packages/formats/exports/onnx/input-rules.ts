// Describes, for authors of clients, how the columns of a record become the inputs of an exported
// model: for each dense and each categorical feature, its column and every rule that applies.

import {
  areNumeric,
  columnsOf,
  featuresOf,
  labelsOf,
  shapesOf,
  transformsOf,
  weightedOf,
} from "../../../../internal.ts";
import type { ExportedModel } from "../exported-model.ts";
import type { FeatureInput, RawIds } from "./raw-ids.ts";

/** The input rules of a model, as a JSON value. */
export function inputRulesOf(model: ExportedModel, inputs: readonly FeatureInput[]) {
  const { job } = model.checkpoint;
  const isNumber = areNumeric(job.data);
  const labels = labelsOf(job.data).map((column, i) => {
    return { column, prediction: isNumber[i] === true ? "value" : "probability" };
  });
  const transforms = transformsOf(job.data) ?? [];
  return { labels, transforms, dense: denseRules(model), features: featureRules(model, inputs) };
}

function denseRules({ checkpoint: { job, manifest } }: ExportedModel) {
  const { dense } = columnsOf(job.data, shapesOf(job.model));
  return dense.map(({ at, name, isMade, isInteger, log, missing, unreadable, decimalComma }) => ({
    ...{ at, column: name, madeByTransform: isMade === true, integer: isInteger, log, missing },
    ...(missing === "mean" && { mean: manifest.means?.[at] ?? 0 }),
    unreadable,
    ...(decimalComma === true && { decimalComma }),
  }));
}

function featureRules({ checkpoint: { job } }: ExportedModel, inputs: readonly FeatureInput[]) {
  const shapes = shapesOf(job.model);
  const { categorical } = columnsOf(job.data, shapes);
  const weighted = weightedOf(job.data, shapes);
  return featuresOf(job.model).map(({ name, table, pooling, positions, kept }, i) => {
    const spec = job.model.tables[table];
    const field = categorical[i];
    const input = inputs[i];
    if (spec === undefined || field === undefined || input === undefined) {
      throw new RangeError(`No feature ${i}`);
    }
    const { raw, notRaw } = input;
    const { column, separator, list, weightSeparator } = raw?.source ?? {
      ...field,
      column: field.name,
    };
    const madeByTransform = raw === undefined && field.isMade === true;
    const { missing } = field;
    return {
      ...{ feature: name, column, madeByTransform },
      ...{ input: input.name, table: spec.name, rows: spec.rows },
      id: raw === undefined ? idRule(field, spec.dynamic !== undefined) : rawRule(raw),
      ...{ separator, list, weighted: weighted[i] === true, weightSeparator, missing, pooling },
      ...(pooling === "none" && { positions, kept }),
      notRaw,
    };
  });
}

/** The rule by which an id's text or number becomes the input's value. */
function idRule(
  field: ReturnType<typeof columnsOf>["categorical"][number],
  isDynamic: boolean,
): Readonly<Record<string, unknown>> {
  const { ids, seed, offset, isWide, beyond } = field;
  if (ids === "hash") {
    const input = "1 + murmur3_32(UTF-8 bytes of the text, seed) % (rows - 1)";
    return { kind: "hash", seed, input };
  }
  const rule = { kind: "integer", bits: isWide ? 64 : 32, offset };
  if (isDynamic) return { ...rule, input: "id - offset" };
  return { ...rule, beyond, input: beyondRules[beyond](isWide) };
}

/** The rule of raw ids: the accepted range, and what the model computes from them. */
function rawRule({ transforms, offset, bits, beyond, least, most }: RawIds) {
  const computed = transforms.map(({ op, output }) => ({ op, output }));
  const range = transforms.length === 0 && { least: String(least), most: String(most) };
  const input = "the integer, as the column has it";
  return { kind: "raw", ...range, computed, bits, offset, beyond, input };
}

/** Rules for integers outside the table's rows (src/embedding/lookup/ids-to-rows.ts). */
const beyondRules = {
  reject: () => "id - offset; others than 0 .. rows - 1 are refused",
  clamp: () => "id - offset, but at least 0 and at most rows - 1",
  hash: (isWide: boolean) =>
    isWide
      ? "id - offset; others than 0 .. rows - 1: fmix64(id - offset) % rows, unsigned"
      : "id - offset; others than 0 .. rows - 1: fmix32(id - offset) % rows, unsigned; of more " +
        "than 32 bits: fmix32(lower half of fmix64(id - offset), highest bit set) % rows",
} as const;
