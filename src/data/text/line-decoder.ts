// Decodes a line of text into a sample, or returns the reason why it cannot.
//
//   label          labels.ts
//   weight         a number of at least 0
//   group          any text: targets.ts
//   integer x      log(1 + max(x, 0)); empty: 0
//   decimal x      x, or log(1 + max(x, 0)) where the options say so; empty: as `missing` says
//   hashed text    row 1 + MurmurHash3(bytes, seed = the table's index) mod (rows - 1)
//   integer id     x - offset: a row, or an id beyond the rows for the table's policy
//   64-bit id      x - offset, signed, exactly
//   several ids    each by the rules above, empty parts left out
//   id and weight  the id by the rules above, then, behind the last separator, a finite number
//   no id          as `missing` says: row 0, an empty bag, or a bad line
//
// docs/data.md has these rules for users.

import { parse } from "csv-parse/sync";
import type { CategoricalField, DenseField, FieldColumns } from "../columnar/named-columns.ts";
import { mix64Low, murmurHash3 } from "../murmur-hash.ts";
import { bagIdsMax, type Sample } from "../sample.ts";
import { groupOf } from "../targets.ts";
import type { Columns } from "./columns.ts";
import { type Fault, show } from "./faults.ts";
import { jsonFields } from "./json-lines.ts";
import type { KeyCollector } from "./split-keys.ts";

/**
 * Fills `sample` from a line with one byte per character, and reads its key if `keys` are wanted.
 * Returns the line's fault, if it has one.
 */
export function decodeLine(
  sample: Sample,
  line: string,
  columns: Columns,
  keys?: Pick<KeyCollector, "read">,
): Fault | undefined {
  const fields = fieldsOf(line, columns);
  return Array.isArray(fields) ? decodeFields(sample, fields, columns, keys) : fields;
}

/** As `decodeLine`, of a line that is cut into its fields. `made`: what transforms make of it. */
export function decodeFields(
  sample: Sample,
  fields: readonly string[],
  columns: Columns,
  keys?: Pick<KeyCollector, "read">,
  made?: MadeRow,
): Fault | undefined {
  return (
    decodeTargets(sample, fields, columns, keys) ?? decodeFeatures(sample, fields, columns, made)
  );
}

/** The features of one row that transforms make (made-features.ts). */
export interface MadeRow {
  /** Why transforms have no value of it; undefined: they have. */
  fault(): Fault | undefined;
  /** As `decodeDense`. */
  dense(sample: Sample, column: DenseField): Fault | undefined;
  /** As `decodeBag`. */
  bag(sample: Sample, feature: number, column: CategoricalField): Fault | undefined;
}

/** Fills what `sample` has beside its features, and reads its key. Returns their fault, if any. */
export function decodeTargets(
  sample: Sample,
  fields: readonly string[],
  { key, labels, readLabels, weight, group }: FieldColumns,
  keys?: Pick<KeyCollector, "read">,
): Fault | undefined {
  const fault = key === undefined ? undefined : keys?.read(fields[key] ?? "");
  if (fault !== undefined) return fault;
  for (let i = 0; i < labels.length; i++) {
    const label = readLabels[i]?.(fields[labels[i] ?? 0] ?? "");
    if (typeof label === "object") return label;
    sample.labels[i] = label ?? 0;
  }
  if (weight !== undefined) {
    const text = fields[weight.field] ?? "";
    const value = decimal(text);
    if (value === undefined || value < 0) {
      const kind = `expected \`${weight.name}\`, the weight of the sample, to be a number >= 0`;
      return { kind, got: show(text) };
    }
    sample.sampleWeight = value;
  }
  if (group !== undefined) {
    const text = fields[group.field] ?? "";
    if (text === "") return { kind: `\`${group.name}\`, the group of the sample, is missing` };
    sample.group.set(groupOf(text));
  }
  return undefined;
}

/** The fields of a line, as many as there are columns; or the line's fault. */
export function fieldsOf(line: string, columns: Columns): string[] | Fault {
  if (columns.json !== undefined) return jsonFields(line, columns.json);
  const fields = splitLine(line, columns.delimiter, columns.hasQuotes);
  if (typeof fields === "string") return { kind: fields };
  return fields.length === columns.fields
    ? fields
    : { kind: `expected ${columns.fields} fields`, got: String(fields.length) };
}

/**
 * Fills the features of `sample` from the fields of a line, and from what transforms make of it.
 * Returns the line's fault, if any.
 */
export function decodeFeatures(
  sample: Sample,
  fields: readonly string[],
  columns: Columns,
  made?: MadeRow,
): Fault | undefined {
  const unmade = made?.fault();
  if (unmade !== undefined) return unmade;
  sample.clear();
  for (const dense of columns.dense) {
    const fault =
      dense.isMade === true && made !== undefined
        ? made.dense(sample, dense)
        : decodeDense(sample, fields[dense.field] ?? "", dense);
    if (fault !== undefined) return fault;
  }
  for (const [feature, categorical] of columns.categorical.entries()) {
    const fault =
      categorical.isMade === true && made !== undefined
        ? made.bag(sample, feature, categorical)
        : decodeBag(sample, feature, fields[categorical.field] ?? "", categorical);
    if (fault !== undefined) return fault;
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

/** An integer, also as programs write it whose columns are decimals: `957.0`. */
const integer = /^[+-]?\d{1,15}(\.0*)?$/;
/**
 * Up to 20 digits: one more than 64-bit numbers need, so that a larger number gets a message about
 * the range.
 */
const wideInteger = /^[+-]?\d{1,20}(\.0*)?$/;

/**
 * Sets the dense feature of a field. A missing value that awaits the mean is NaN. Returns the
 * field's fault, if it has one. Each character is one byte.
 */
export function decodeDense(sample: Sample, text: string, column: DenseField): Fault | undefined {
  let value: number | undefined;
  if (text !== "") {
    const own = column.decimalComma === true ? text.replace(",", ".") : text;
    value = column.isInteger && !integer.test(own) ? undefined : decimal(own);
    if (value === undefined && column.unreadable === "reject") return noNumber(text, column);
  }
  return setDense(sample, value, column);
}

/** Sets a dense feature to the number of its field; undefined: the field has none. */
export function setDense(
  sample: Sample,
  value: number | undefined,
  { at, log, missing, name }: DenseField,
): Fault | undefined {
  sample.missing[at] = value === undefined ? 1 : 0;
  if (missing === "indicator") sample.dense[at + 1] = value === undefined ? 1 : 0;
  if (value !== undefined) sample.dense[at] = log ? Math.log1p(Math.max(value, 0)) : value;
  else if (missing === "reject") return { kind: `\`${name}\` is missing` };
  else sample.dense[at] = missing === "mean" ? Number.NaN : 0;
  return undefined;
}

function noNumber(text: string, { name, isInteger }: DenseField): Fault {
  const kind = `expected \`${name}\` to be ${isInteger ? "an integer" : "a number"}`;
  const advice = `\`unreadable: missing\` of \`${name}\` takes such text for a missing value`;
  return { kind, got: show(text), ...(isInteger ? {} : { advice }) };
}

/** What JavaScript takes for a number and nobody writes as one: `0x1A`, `0b11`, `0o17`. */
const otherBase = /^\s*0[box]/i;

/** The decimal number in a text; undefined for other text, or where it is no finite float32. */
export function decimal(text: string): number | undefined {
  const value = Number(text);
  const isHeld = Number.isFinite(Math.fround(value)) && text.trim() !== "";
  return isHeld && !otherBase.test(text) ? value : undefined;
}

/** Appends the ids of a field to a feature's bag. Returns the field's fault, if it has one. */
export function decodeBag(
  sample: Sample,
  feature: number,
  text: string,
  column: CategoricalField,
): Fault | undefined {
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

/** Fills the bag of a feature that has no id. Returns the fault of that, if it is one. */
export function decodeMissing(
  sample: Sample,
  feature: number,
  { missing, name }: CategoricalField,
): Fault | undefined {
  if (missing === "reject") return { kind: `\`${name}\` is missing` };
  if (missing === "own") sample.push(feature, 0);
  return undefined;
}

/** Appends one id, with its weight if it has one. Returns its fault, if it has one. */
export function decodeEntry(
  sample: Sample,
  feature: number,
  text: string,
  column: CategoricalField,
): Fault | undefined {
  const { name, weightSeparator } = column;
  if (weightSeparator === undefined) return decodeId(sample, feature, text, 1, column);
  const at = text.lastIndexOf(weightSeparator);
  const weight = at > 0 ? decimal(text.slice(at + 1)) : undefined;
  if (weight !== undefined) return decodeId(sample, feature, text.slice(0, at), weight, column);
  const form = `an id, \`${weightSeparator}\` and a number`;
  return { kind: `expected \`${name}\` to be ${form}`, got: show(text) };
}

/** Appends an id of a text, with its weight. Returns its fault, if it has one. */
export function decodeId(
  sample: Sample,
  feature: number,
  text: string,
  weight: number,
  column: CategoricalField,
): Fault | undefined {
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

/** Appends an id to a bag; `id` and `high` as `Sample.push` has them. */
export function pushId(
  sample: Sample,
  feature: number,
  id: number,
  weight: number,
  high: number,
  column: CategoricalField,
): Fault | undefined {
  return sample.push(feature, id, weight, high) ? undefined : tooManyIds(column);
}

/**
 * An id beyond the rows in 32 bits, for the table's policy, which the device carries out and
 * counts. An id of more bits stays beyond the rows: clamped, it has the same nearest row; hashed,
 * its bits are mixed into a negative one.
 */
function idBeyond(id: number, policy: "clamp" | "hash"): number {
  if ((id | 0) === id) return id;
  if (policy === "clamp") return id < 0 ? -1 : 0x7fff_ffff;
  const high = Math.floor(id / 0x1_0000_0000);
  return mix64Low((id - high * 0x1_0000_0000) | 0, high) | 0x8000_0000;
}

/** Appends an id of 64 bits. Whether the table has a row for the id is for its policy to decide. */
function decodeWideId(
  sample: Sample,
  feature: number,
  text: string,
  weight: number,
  column: CategoricalField,
): Fault | undefined {
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

function noInteger(text: string, { name, isWide }: CategoricalField): Fault {
  const advice = isWide ? undefined : `\`ids: hash\` of the column \`${name}\` takes any text`;
  return { kind: `expected \`${name}\` to be an integer`, got: show(text), advice };
}

function outOfRows(text: string, { name, offset, rows }: CategoricalField): Fault {
  const kind = `expected \`${name}\` to lie in ${offset}..${offset + rows - 1}`;
  const advice = `give the table of \`${name}\` more \`rows\`, or \`ids: clamp\`, or \`ids: hash\``;
  return { kind, got: show(text), advice };
}

function tooManyIds({ name }: CategoricalField): Fault {
  return { kind: `\`${name}\` has more than ${bagIdsMax} ids` };
}
