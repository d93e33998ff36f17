// Splits a line of text into fields, and decodes the text of a field into a sample, or returns its
// fault. These rules define all samples: whatever reads numbers or bytes gives the same result.
//
//   label          labels.ts
//   weight         a number of at least 0
//   group          any text but an empty one (targets.ts)
//   integer x      log(1 + max(x, 0)); empty: 0 (Criteo)
//   decimal x      x, or log(1 + max(x, 0)) with the option `log`; empty: by `missing`
//   hashed text    row 1 + MurmurHash3(bytes, seed = the table's index) mod (rows - 1)
//   integer id     x - offset: a row, or an id beyond the rows for the table's policy
//   64-bit id      x - offset, signed, exact
//   several ids    each by the rules above; empty parts are left out
//   id and weight  the id by the rules above; after the last separator, a finite number
//   no id          by `missing`: row 0, an empty bag, or a bad line
//
// docs/data.md has these rules for users.

import type { CategoricalField, DenseField } from "../columnar/named-columns.ts";
import { mix64Low, murmurHash3 } from "../murmur-hash.ts";
import { bagIdsMax, type Sample } from "../sample.ts";
import { type LineFault, show } from "./faults.ts";

/**
 * Splits one record into fields, or returns its fault. A quote at the start of a field opens it,
 * and the next quote that is not doubled closes it, before a delimiter or the end (RFC 4180).
 */
export function splitLine(line: string, delimiter: string, hasQuotes: boolean): string[] | string {
  if (!hasQuotes || !line.includes('"')) return line.split(delimiter);
  const fields: string[] = [];
  for (let begin = 0; begin <= line.length; ) {
    const isQuoted = line[begin] === '"';
    let end = line.indexOf(isQuoted ? '"' : delimiter, begin + (isQuoted ? 1 : 0));
    while (isQuoted && end >= 0 && line[end + 1] === '"') end = line.indexOf('"', end + 2);
    if (!isQuoted && end < 0) end = line.length;
    const field = line.slice(isQuoted ? begin + 1 : begin, end);
    const next = isQuoted ? end + 1 : end;
    const isClosed = end >= 0 && (next === line.length || line[next] === delimiter);
    if (!isClosed || (!isQuoted && field.includes('"'))) {
      return "a quoted field is not closed, or has text around its quotes";
    }
    fields.push(isQuoted ? field.replaceAll('""', '"') : field);
    begin = next + 1;
  }
  return fields;
}

/** An integer, also in the form of programs that store integers as decimals: `957.0`. */
const integer = /^[+-]?\d{1,15}(\.0*)?$/;
/**
 * An integer of up to 20 digits: one more than 64-bit numbers need, so that a larger number gets a
 * message about the range.
 */
const wideInteger = /^[+-]?\d{1,20}(\.0*)?$/;

/**
 * Sets a dense feature from the text of its field, one byte per character. A missing value that is
 * filled with the mean later is NaN. Returns the field's fault, if any.
 */
export function decodeDense(
  sample: Sample,
  text: string,
  column: DenseField,
): LineFault | undefined {
  let value: number | undefined;
  if (text !== "") {
    const own = column.decimalComma === true ? text.replace(",", ".") : text;
    value = column.isInteger && !integer.test(own) ? undefined : decimal(own);
    if (value === undefined && column.unreadable === "reject") return noNumber(text, column);
  }
  return setDense(sample, value, column);
}

/**
 * Sets a dense feature to the number of its field; undefined if it is missing. Returns its fault,
 * if any.
 */
export function setDense(
  sample: Sample,
  value: number | undefined,
  { at, log, missing, name }: DenseField,
): LineFault | undefined {
  sample.missing[at] = value === undefined ? 1 : 0;
  if (missing === "indicator") sample.dense[at + 1] = value === undefined ? 1 : 0;
  if (value !== undefined) sample.dense[at] = log ? Math.log1p(Math.max(value, 0)) : value;
  else if (missing === "reject") return { kind: `\`${name}\` is missing` };
  else sample.dense[at] = missing === "mean" ? Number.NaN : 0;
  return undefined;
}

function noNumber(text: string, { name, isInteger }: DenseField): LineFault {
  const kind = `expected \`${name}\` to be ${isInteger ? "an integer" : "a number"}`;
  const advice = `\`unreadable: missing\` of \`${name}\` takes such text for a missing value`;
  return { kind, got: show(text), ...(isInteger ? {} : { advice }) };
}

/** Numbers in other bases, which `Number` accepts but data do not use: `0x1A`, `0b11`, `0o17`. */
const otherBase = /^\s*0[box]/i;

/** The decimal number of a text; undefined for other text, or if it is not finite in float32. */
export function decimal(text: string): number | undefined {
  const value = Number(text);
  const isHeld = Number.isFinite(Math.fround(value)) && text.trim() !== "";
  return isHeld && !otherBase.test(text) ? value : undefined;
}

/** Appends the ids of a field to a feature's bag. Returns the field's fault, if any. */
export function decodeBag(
  sample: Sample,
  feature: number,
  text: string,
  column: CategoricalField,
): LineFault | undefined {
  if (column.separator === undefined) {
    return text === ""
      ? decodeMissing(sample, feature, column)
      : decodeEntry(sample, feature, text, column);
  }
  for (const part of text.split(column.separator)) {
    const fault = part === "" ? undefined : decodeEntry(sample, feature, part, column);
    if (fault !== undefined) return fault;
  }
  return sample.lengths[feature] === 0 ? decodeMissing(sample, feature, column) : undefined;
}

/**
 * Fills the bag of a feature without an id, by its rule `missing`. Returns the fault, if the rule
 * is `reject`.
 */
export function decodeMissing(
  sample: Sample,
  feature: number,
  { missing, name }: CategoricalField,
): LineFault | undefined {
  if (missing === "reject") return { kind: `\`${name}\` is missing` };
  if (missing === "own") sample.push(feature, 0);
  return undefined;
}

/** Appends one id, with its weight if the column has weights. Returns its fault, if any. */
export function decodeEntry(
  sample: Sample,
  feature: number,
  text: string,
  column: CategoricalField,
): LineFault | undefined {
  const { name, weightSeparator } = column;
  if (weightSeparator === undefined) return decodeId(sample, feature, text, 1, column);
  const at = text.lastIndexOf(weightSeparator);
  const weight = at > 0 ? decimal(text.slice(at + 1)) : undefined;
  if (weight !== undefined) return decodeId(sample, feature, text.slice(0, at), weight, column);
  const form = `an id, \`${weightSeparator}\` and a number`;
  return { kind: `expected \`${name}\` to be ${form}`, got: show(text) };
}

/** Appends the id of a text, with its weight. Returns its fault, if any. */
export function decodeId(
  sample: Sample,
  feature: number,
  text: string,
  weight: number,
  column: CategoricalField,
): LineFault | undefined {
  if (column.isWide) return decodeWideId(sample, feature, text, weight, column);
  const { ids, offset, rows, seed, watch } = column;
  let id: number;
  if (ids === "hash") {
    id = 1 + (murmurHash3(text, seed) % (rows - 1));
  } else {
    if (!integer.test(text)) return noInteger(text, column);
    id = Number(text) - offset;
    if (id < 0 || id >= rows) {
      if (column.beyond === "reject") return outOfRows(text, column);
      id = idBeyond(id, column.beyond);
    }
  }
  watch?.take(ids === "hash" ? text : String(Number(text)), id);
  return pushId(sample, feature, id, weight, 0, column);
}

/**
 * Appends an id to a bag; `id` and `high` as for `Sample.push`. Returns a fault if the bag is full.
 */
export function pushId(
  sample: Sample,
  feature: number,
  id: number,
  weight: number,
  high: number,
  column: CategoricalField,
): LineFault | undefined {
  return sample.push(feature, id, weight, high) ? undefined : tooManyIds(column);
}

/**
 * Reduces an id beyond the table's rows to 32 bits. The device applies the table's policy and
 * counts such ids. A larger id stays beyond the rows: for `clamp` it keeps the same nearest row;
 * for `hash` its bits are mixed into a negative id.
 */
function idBeyond(id: number, policy: "clamp" | "hash"): number {
  if ((id | 0) === id) return id;
  if (policy === "clamp") return id < 0 ? -1 : 0x7fff_ffff;
  const high = Math.floor(id / 0x1_0000_0000);
  return mix64Low((id - high * 0x1_0000_0000) | 0, high) | 0x8000_0000;
}

/** Appends a 64-bit id. The table's policy maps it to a row later. */
function decodeWideId(
  sample: Sample,
  feature: number,
  text: string,
  weight: number,
  column: CategoricalField,
): LineFault | undefined {
  if (!wideInteger.test(text)) return noInteger(text, column);
  const { name, offset } = column;
  const [whole = ""] = text.split(".");
  const id = BigInt(whole.startsWith("+") ? whole.slice(1) : whole) - BigInt(offset);
  if (BigInt.asIntN(64, id) !== id) {
    const [least, most] = [-(2n ** 63n), 2n ** 63n - 1n].map((end) => end + BigInt(offset));
    return { kind: `expected \`${name}\` to lie in ${least}..${most}`, got: show(text) };
  }
  const [low, high] = [Number(BigInt.asIntN(32, id)), Number(id >> 32n)];
  column.watch?.take(String(id), low, high);
  return pushId(sample, feature, low, weight, high, column);
}

function noInteger(text: string, { name, isWide }: CategoricalField): LineFault {
  const advice = isWide ? undefined : `\`ids: hash\` of the column \`${name}\` takes any text`;
  return { kind: `expected \`${name}\` to be an integer`, got: show(text), advice };
}

function outOfRows(text: string, { name, offset, rows }: CategoricalField): LineFault {
  const kind = `expected \`${name}\` to lie in ${offset}..${offset + rows - 1}`;
  const advice = `give the table of \`${name}\` more \`rows\`, or \`ids: clamp\`, or \`ids: hash\``;
  return { kind, got: show(text), advice };
}

function tooManyIds({ name }: CategoricalField): LineFault {
  const advice =
    `\`transforms\` with \`firstX\` keep the first ids of \`${name}\`, or split it over ` +
    "several columns";
  return { kind: `\`${name}\` has more than ${bagIdsMax} ids`, advice };
}
