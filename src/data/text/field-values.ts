// Parses the fields of a chunk of delimited lines at once: the start of each field, the numbers of
// dense features, and the table rows of ids. Only frequent forms are parsed; the text of a field
// defines all others (line-decoder.ts). The addon parses identically and faster
// (native/ingest/fields.h).

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import type { FieldColumn } from "../columnar/column.ts";
import type { CategoricalField } from "../columnar/named-columns.ts";
import { murmurHash3Of } from "../murmur-hash.ts";
import type { Columns } from "./columns.ts";
import type { ByteLines } from "./text-lines.ts";

/** The layout of a line, and the features to parse. */
export interface FieldPlan {
  /** Fields of a line. */
  readonly fields: number;
  /** The byte between fields. */
  readonly delimiter: number;
  /** The quote byte; -1 if fields are not quoted. */
  readonly quote: number;
  /** (dense, 2): field of each dense feature, and 1 if only integers are valid. */
  readonly dense: Float64Array;
  /**
   * (features, 6): field, kind, seed, rows and offset of each categorical feature, and 1 if an
   * empty field is row 0.
   */
  readonly ids: Float64Array;
}

/** Numbers per dense and per categorical feature in a plan. */
const [denseNumbers, idNumbers] = [2, 6];
/** Kinds of ids: text path only, hashed, or integers. */
const [idsOfText, idsHashed, idsInteger] = [0, 1, 2];

/**
 * The plan for lines with these columns, without the outputs of transforms. Lists, weights and
 * 64-bit ids are not parsed.
 */
export function planOf({ fields, delimiter, hasQuotes, dense, categorical }: Columns): FieldPlan {
  const ofNumbers = dense.filter(isOfLine);
  return {
    fields,
    delimiter: delimiter.charCodeAt(0), // ASCII, hence one byte.
    quote: hasQuotes ? 34 : -1,
    dense: Float64Array.from(
      ofNumbers.flatMap(({ field, isInteger }) => [field, isInteger ? 1 : 0]),
    ),
    ids: Float64Array.from(
      categorical
        .filter(isOfLine)
        .flatMap(({ field, ids, seed, rows, offset, missing, ...one }) => {
          const isList = one.separator !== undefined || one.weightSeparator !== undefined;
          const kind = isList || one.isWide ? idsOfText : ids === "hash" ? idsHashed : idsInteger;
          return [field, kind, seed, rows, offset, missing === "own" ? 1 : 0];
        }),
    ),
  };
}

/** Whether a feature is a field of the line, and not the output of a transform. */
function isOfLine({ isMade }: { readonly isMade?: boolean | undefined }): boolean {
  return isMade !== true;
}

/** The parsed fields of a chunk, in memory that the next chunk reuses. */
export class FieldValues {
  readonly plan: FieldPlan;
  /**
   * (lines, fields + 1): first byte of each field, then one byte beyond the end of the last field.
   * The first entry is -1 if the line has quotes or a wrong number of fields, or is too long: its
   * fields are not parsed.
   */
  begins = new Int32Array(0);
  /**
   * (dense, lines): the numbers; NaN for an empty field, infinity for a field that is not parsed.
   */
  numbers = new Float64Array(0);
  /** (features, lines): the table rows; -1 for a field that is not parsed. */
  ids = new Int32Array(0);
  /** (lines + 1): line r has the entry r. */
  offsets = new Int32Array(1);

  /** Number of lines of the chunk. */
  lines = 0;

  constructor(plan: FieldPlan) {
    this.plan = plan;
  }

  /** Makes room for the lines of the next chunk. */
  reserve(lines: number): void {
    const { fields, dense, ids } = this.plan;
    this.lines = lines;
    if (this.begins.length >= lines * (fields + 1)) return;
    this.begins = new Int32Array(lines * (fields + 1));
    this.offsets = Int32Array.from({ length: lines + 1 }, (_, line) => line);
    this.numbers = new Float64Array((lines * dense.length) / denseNumbers);
    this.ids = new Int32Array((lines * ids.length) / idNumbers);
  }
}

/** Reads the fields of all lines of a chunk into `values`. */
export type ReadFields = (values: FieldValues, lines: ByteLines) => void;

/**
 * Creates a parser of the chunks of a file. The fields of a chunk are valid until the next chunk is
 * parsed.
 */
export function fieldParser(
  columns: Columns,
  read: ReadFields = fieldReader(),
): (lines: ByteLines) => FieldValues {
  const values = new FieldValues(planOf(columns));
  const { fields, dense, ids } = values.plan;
  return (lines) => {
    read(values, lines);
    const count = values.lines;
    for (let line = 0; line < count; line++) {
      if (values.begins[line * (fields + 1)] !== -1) continue;
      for (let i = 0; denseNumbers * i < dense.length; i++) {
        values.numbers[i * count + line] = Infinity;
      }
      for (let i = 0; idNumbers * i < ids.length; i++) values.ids[i * count + line] = -1;
    }
    return values;
  };
}

/**
 * The table rows of a field that is a list, as `FieldColumn.entries`. A list with an entry of a
 * rare form has the entry -1.
 */
export function listEntries(
  { begins, plan, lines }: FieldValues,
  { bytes, view }: ByteLines,
  { field, separator = "", ids, seed, rows, offset }: CategoricalField,
): FieldColumn["entries"] {
  const between = separator.charCodeAt(0); // ASCII, hence one byte.
  const rowOf = (begin: number, end: number) =>
    ids === "hash"
      ? hashedRow(view, begin, end, seed, rows)
      : integerRow(bytes, begin, end, rows, offset);
  const offsets = new Int32Array(lines + 1);
  const found: number[] = [];
  for (let line = 0, place = 0; line < lines; line++, place += plan.fields + 1) {
    const isSplit = begins[place] !== -1;
    const end = isSplit ? (begins[place + field + 1] ?? 0) - 1 : -1;
    if (!isSplit) found.push(-1);
    for (let begin = begins[place + field] ?? 0, at = begin; at <= end; at++) {
      if (at < end && bytes[at] !== between) continue;
      if (at > begin) found.push(rowOf(begin, at));
      begin = at + 1;
    }
    offsets[line + 1] = found.length;
  }
  return { offsets, rows: Int32Array.from(found) };
}

/** The fastest available reader: the addon's if it is built, otherwise `readFields`. */
export function fieldReader(addon: Addon | undefined = loadAddon()): ReadFields {
  if (addon === undefined) return readFields;
  return (values, { bytes, begins, ends }) => {
    const { fields, delimiter, quote, dense, ids } = values.plan;
    values.reserve(ends.length);
    assert(begins.length >= ends.length, "a begin for each line");
    assert((ends.at(-1) ?? 0) <= bytes.length, "lines within the bytes");
    const results = [values.begins, values.numbers, values.ids];
    const places = [Int32Array.from(begins), Int32Array.from(ends)];
    addon.readFields(...results, bytes, ...places, fields, delimiter, quote, dense, ids);
  };
}

/** The reference reader, in TypeScript, which defines the results. */
export const readFields: ReadFields = (values, lines) => {
  values.reserve(lines.count);
  const { plan, begins } = values;
  for (let line = 0; line < lines.count; line++) {
    const first = line * (plan.fields + 1);
    if (cut(begins, first, lines, line, plan)) {
      readNumbers(values, line, first, lines.bytes);
      readIds(values, line, first, lines);
    } else begins[first] = -1;
  }
};

/**
 * Finds the fields of a line. Returns false if it has quotes, a wrong number of fields, or no end.
 */
function cut(
  begins: Int32Array,
  first: number,
  { bytes, begins: starts, ends }: ByteLines,
  line: number,
  { fields, delimiter, quote }: FieldPlan,
): boolean {
  const [begin, end] = [starts[line] ?? 0, ends[line] ?? 0];
  if (end < 0) return false;
  begins[first] = begin;
  let count = 1;
  for (let at = begin; at < end; at++) {
    const byte = bytes[at];
    if (byte === delimiter) {
      if (count === fields) return false;
      begins[first + count++] = at + 1;
    } else if (byte === quote) return false;
  }
  begins[first + count] = end + 1;
  return count === fields;
}

function readNumbers(
  { plan, begins, numbers, lines }: FieldValues,
  line: number,
  first: number,
  bytes: Uint8Array,
) {
  const { dense } = plan;
  for (let i = 0, out = line; i < dense.length; i += denseNumbers, out += lines) {
    const at = first + (dense[i] ?? 0);
    const [begin, end] = [begins[at] ?? 0, (begins[at + 1] ?? 0) - 1];
    numbers[out] = shortNumber(bytes, begin, end, dense[i + 1] === 1);
  }
}

/** Exact powers of ten. */
const powersOfTen = Float64Array.from({ length: 16 }, (_, exponent) => 10 ** exponent);
/** Digits of a number that fit into the 53 bits of a float64. */
const digitsMax = 15;

/**
 * Parses a number of few digits; NaN for an empty field, infinity for any other. The result is the
 * correctly rounded quotient of two exact numbers, as `Number(text)` would give.
 */
function shortNumber(bytes: Uint8Array, begin: number, end: number, isInteger: boolean): number {
  if (begin === end) return Number.NaN;
  const isNegative = bytes[begin] === 45;
  const start = isNegative ? begin + 1 : begin;
  let value = 0;
  let digits = 0;
  let point = -1;
  for (let at = start; at < end; at++) {
    const digit = (bytes[at] ?? 0) - 48;
    if (digit >= 0 && digit <= 9) {
      if (++digits > digitsMax) return Infinity;
      value = 10 * value + digit;
    } else if (digit === -2 && point < 0 && !isInteger) point = at;
    else return Infinity;
  }
  if (digits === 0) return Infinity;
  if (point >= 0) value /= powersOfTen[end - point - 1] ?? 1;
  return isNegative ? -value : value;
}

function readIds(
  { plan, begins, ids: out, lines: count }: FieldValues,
  line: number,
  first: number,
  lines: ByteLines,
) {
  const { ids } = plan;
  for (let i = 0, place = line; i < ids.length; i += idNumbers, place += count) {
    const at = first + (ids[i] ?? 0);
    const [begin, end] = [begins[at] ?? 0, (begins[at + 1] ?? 0) - 1];
    const [kind, rows] = [ids[i + 1], ids[i + 3] ?? 0];
    let id = -1;
    if (begin === end && ids[i + 5] === 1) id = 0;
    else if (begin < end && kind === idsHashed) {
      id = hashedRow(lines.view, begin, end, ids[i + 2] ?? 0, rows);
    } else if (begin < end && kind === idsInteger) {
      id = integerRow(lines.bytes, begin, end, rows, ids[i + 4] ?? 0);
    }
    out[place] = id;
  }
}

/** The table row of a hashed text. */
function hashedRow(
  bytes: DataView,
  begin: number,
  end: number,
  seed: number,
  rows: number,
): number {
  return 1 + (murmurHash3Of(bytes, begin, end, seed) % (rows - 1));
}

/** Digits of an integer that always fits into 32 bits. */
const integerDigitsMax = 9;

/** The table row of an integer minus an offset; -1 if it is no row, or of a rare form. */
function integerRow(
  bytes: Uint8Array,
  begin: number,
  end: number,
  rows: number,
  offset: number,
): number {
  if (end - begin > integerDigitsMax) return -1;
  let value = 0;
  for (let at = begin; at < end; at++) {
    const digit = (bytes[at] ?? 0) - 48;
    if (digit < 0 || digit > 9) return -1;
    value = 10 * value + digit;
  }
  const row = value - offset;
  return row >= 0 && row < rows ? row : -1;
}
