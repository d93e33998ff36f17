// Decodes a line of text into a sample, or returns the reason why it cannot.
//
//   integer x      log(1 + max(x, 0)); empty: 0
//   decimal x      x, or log(1 + max(x, 0)) where the options say so; empty: 0
//   hashed text    row 1 + MurmurHash3(bytes, seed = the feature's index) mod (rows - 1);
//                  empty: row 0
//   integer id     row x - offset; empty: an empty bag
//   64-bit id      x - offset, signed, exactly; empty: an empty bag
//   several ids    each by the rules above, empty parts left out; empty: an empty bag
//   id and weight  the id by the rules above, then, behind the last separator, a finite number

import { parse } from "csv-parse/sync";
import { murmurHash3 } from "../murmur-hash.ts";
import { bagIdsMax, type Sample } from "../sample.ts";
import type { CategoricalField, Columns, DenseField } from "./columns.ts";

/**
 * Fills `sample` from a line with one byte per character. Returns the line's fault, if it has one.
 */
export function decodeLine(sample: Sample, line: string, columns: Columns): string | undefined {
  const fields = splitLine(line, columns.delimiter, columns.hasQuotes);
  if (typeof fields === "string") return fields;
  if (fields.length !== columns.fields) {
    return `expected ${columns.fields} fields, got ${fields.length}`;
  }
  const label = fields[columns.label];
  if (label !== "0" && label !== "1") return `expected the label to be 0 or 1, got ${show(label)}`;
  sample.label = label === "1" ? 1 : 0;
  return decodeFeatures(sample, fields, columns);
}

/** Fills the features of `sample` from the fields of a line. Returns the line's fault, if any. */
export function decodeFeatures(
  sample: Sample,
  fields: readonly string[],
  columns: Columns,
): string | undefined {
  sample.clear();
  for (const [index, dense] of columns.dense.entries()) {
    const value = decodeDense(fields[dense.field] ?? "", dense);
    if (typeof value === "string") return value;
    sample.dense[index] = value;
  }
  for (const [feature, categorical] of columns.categorical.entries()) {
    const reason = decodeBag(sample, feature, fields[categorical.field] ?? "", categorical);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

/**
 * The fields of one line, or the line's fault. Every record is one line: a quoted field that
 * continues on the next line counts as unclosed.
 */
export function splitLine(line: string, delimiter: string, hasQuotes: boolean): string[] | string {
  if (!hasQuotes || !line.includes('"')) return line.split(delimiter);
  try {
    const records: string[][] = parse(line, { delimiter, relax_column_count: true });
    return records[0] ?? [];
  } catch {
    return "a quoted field is not closed, or has text around its quotes";
  }
}

/** Decodes text with one byte per character as UTF-8. */
export function decodeText(bytes: string): string {
  return Buffer.from(bytes, "latin1").toString("utf8");
}

const integer = /^[+-]?\d{1,15}$/;
/**
 * Up to 20 digits: one more than 64-bit numbers need, so that a larger number gets a message about
 * the range.
 */
const wideInteger = /^[+-]?\d{1,20}$/;

/** The value of a dense field, or its fault. Each character is one byte. */
export function decodeDense(text: string, { name, isInteger, log }: DenseField): number | string {
  if (text === "") return 0;
  if (isInteger && !integer.test(text)) {
    return `expected \`${name}\` to be an integer, got ${show(text)}`;
  }
  const value = decimal(text);
  if (value === undefined) return `expected \`${name}\` to be a number, got ${show(text)}`;
  return log ? Math.log1p(Math.max(value, 0)) : value;
}

/** The number in a text; undefined for text that is no number, or no finite float32. */
function decimal(text: string): number | undefined {
  const value = Number(text);
  return Number.isFinite(Math.fround(value)) && text.trim() !== "" ? value : undefined;
}

/** Appends the ids of a field to a feature's bag. Returns the field's fault, if it has one. */
export function decodeBag(
  sample: Sample,
  feature: number,
  text: string,
  column: CategoricalField,
): string | undefined {
  if (column.separator !== undefined) {
    for (const part of text.split(column.separator)) {
      const reason = part === "" ? undefined : decodeEntry(sample, feature, part, column);
      if (reason !== undefined) return reason;
    }
    return undefined;
  }
  if (text !== "") return decodeEntry(sample, feature, text, column);
  if (column.ids === "hash") sample.push(feature, 0);
  return undefined;
}

/** Appends one id, with its weight if it has one. Returns its fault, if it has one. */
export function decodeEntry(
  sample: Sample,
  feature: number,
  text: string,
  column: CategoricalField,
): string | undefined {
  const { name, weightSeparator } = column;
  if (weightSeparator === undefined) return decodeId(sample, feature, text, 1, column);
  const at = text.lastIndexOf(weightSeparator);
  const weight = at > 0 ? decimal(text.slice(at + 1)) : undefined;
  if (weight !== undefined) return decodeId(sample, feature, text.slice(0, at), weight, column);
  const form = `an id, \`${weightSeparator}\` and a number`;
  return `expected \`${name}\` to be ${form}, got ${show(text)}`;
}

function decodeId(
  sample: Sample,
  feature: number,
  text: string,
  weight: number,
  column: CategoricalField,
): string | undefined {
  if (column.isWide) return decodeWideId(sample, feature, text, weight, column);
  const { name, ids, offset, rows } = column;
  let id: number;
  if (ids === "hash") {
    id = 1 + (murmurHash3(text, feature) % (rows - 1));
  } else {
    if (!integer.test(text)) return `expected \`${name}\` to be an integer, got ${show(text)}`;
    id = Number(text) - offset;
    if (id < 0 || id >= rows) {
      return `expected \`${name}\` to lie in ${offset}..${offset + rows - 1}, got ${show(text)}`;
    }
  }
  return sample.push(feature, id, weight)
    ? undefined
    : `\`${name}\` has more than ${bagIdsMax} ids`;
}

/** Appends an id of 64 bits. Whether the table has a row for the id is for its policy to decide. */
function decodeWideId(
  sample: Sample,
  feature: number,
  text: string,
  weight: number,
  { name, offset }: CategoricalField,
): string | undefined {
  if (!wideInteger.test(text)) return `expected \`${name}\` to be an integer, got ${show(text)}`;
  const id = BigInt(text.startsWith("+") ? text.slice(1) : text) - BigInt(offset);
  if (BigInt.asIntN(64, id) !== id) {
    const [least, most] = [-(2n ** 63n), 2n ** 63n - 1n].map((end) => end + BigInt(offset));
    return `expected \`${name}\` to lie in ${least}..${most}, got ${show(text)}`;
  }
  const [low, high] = [Number(BigInt.asIntN(32, id)), Number(id >> 32n)];
  return sample.push(feature, low, weight, high)
    ? undefined
    : `\`${name}\` has more than ${bagIdsMax} ids`;
}

function show(text: string | undefined): string {
  if (text === undefined) return "nothing";
  const readable = decodeText(text);
  return `\`${readable.length > 40 ? `${readable.slice(0, 37)}...` : readable}\``;
}
