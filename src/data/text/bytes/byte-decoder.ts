// Decodes a line of delimited text from its bytes, as line-decoder.ts does from its text, and
// faster: no field becomes a string. What is frequent takes a short way: short decimal numbers,
// hashed ids, integers, and labels of one character. Everything else, faults too, goes the way of
// text, field by field; a line that is JSON, has quotes, or has another number of fields goes that
// way as a whole.

import type { CategoricalField, DenseField } from "../../columnar/named-columns.ts";
import { murmurHash3Of } from "../../murmur-hash.ts";
import type { Sample } from "../../sample.ts";
import type { Columns } from "../columns.ts";
import type { Fault } from "../faults.ts";
import {
  decodeBag,
  decodeDense,
  decodeEntry,
  decodeLine,
  decodeMissing,
  decodeTargets,
} from "../line-decoder.ts";
import type { KeyCollector } from "../split-keys.ts";
import type { ByteLines } from "../text-lines.ts";

/** Fills `sample` from a line of a chunk. Returns the line's fault, if it has one. */
export type DecodeBytes = (sample: Sample, lines: ByteLines, index: number) => Fault | undefined;

/** The decoder of lines with these columns, which reads their keys if `keys` are wanted. */
export function byteDecoder(columns: Columns, keys?: Pick<KeyCollector, "read">): DecodeBytes {
  if (columns.json !== undefined) {
    return (sample, lines, index) => decodeLine(sample, lines.text(index), columns, keys);
  }
  const fields = new Fields(columns);
  const decodeHead = headDecoder(columns, keys);
  const dense = columns.dense.map((column) => new DenseReader(column));
  const bags = columns.categorical.map((column, feature) => new BagReader(column, feature));
  return (sample, lines, index) => {
    if (!fields.cut(lines, index)) return decodeLine(sample, lines.text(index), columns, keys);
    const fault = decodeHead(sample, fields);
    if (fault !== undefined) return fault;
    sample.clear();
    for (let i = 0; i < dense.length; i++) {
      const unread = dense[i]?.read(sample, fields);
      if (unread !== undefined) return unread;
    }
    for (let i = 0; i < bags.length; i++) {
      const unread = bags[i]?.read(sample, fields);
      if (unread !== undefined) return unread;
    }
    return undefined;
  };
}

/** The fields of one line. */
class Fields {
  bytes: Buffer = Buffer.alloc(0);
  /** The same bytes. */
  view: DataView = new DataView(new ArrayBuffer(0));
  /** First byte of each field, and one byte behind the end of the last one. */
  readonly begins: Int32Array;
  readonly #count: number;
  readonly #delimiter: number;
  readonly #quote: number;

  constructor({ fields, delimiter, hasQuotes }: Columns) {
    this.begins = new Int32Array(fields + 1);
    this.#count = fields;
    this.#delimiter = delimiter.charCodeAt(0); // One of ASCII, as the separators are.
    this.#quote = hasQuotes ? 34 : -1;
  }

  /** Takes a line. Returns false where it has quotes, or another number of fields than columns. */
  cut({ bytes, view, begins: starts, ends }: ByteLines, index: number): boolean {
    const [delimiter, quote, most, begins] = [
      this.#delimiter,
      this.#quote,
      this.#count,
      this.begins,
    ];
    const [begin, end] = [starts[index] ?? 0, ends[index] ?? 0];
    this.bytes = bytes;
    this.view = view;
    begins[0] = begin;
    let count = 1;
    for (let at = begin; at < end; at++) {
      const byte = bytes[at];
      if (byte === delimiter) {
        if (count === most) return false;
        begins[count++] = at + 1;
      } else if (byte === quote) return false;
    }
    begins[count] = end + 1;
    return count === most;
  }

  /** Byte behind a field. */
  end(field: number): number {
    return (this.begins[field + 1] ?? 0) - 1;
  }

  /** A field, one character for each byte. */
  text(field: number): string {
    return this.bytes.toString("latin1", this.begins[field], this.end(field));
  }
}

type DecodeHead = (sample: Sample, fields: Fields) => Fault | undefined;

/** Decodes what a line has beside its features. */
function headDecoder(columns: Columns, keys?: Pick<KeyCollector, "read">): DecodeHead {
  const { key, labels, readLabels, weight, group } = columns;
  const isLabelAlone = weight === undefined && group === undefined && labels.length === 1;
  const needsKey = key !== undefined && keys !== undefined;
  const of = [key ?? [], labels, weight?.field ?? [], group?.field ?? []].flat();
  const texts: string[] = new Array(columns.fields).fill("");
  const bySlowWay: DecodeHead = (sample, fields) => {
    for (const field of of) texts[field] = fields.text(field);
    return decodeTargets(sample, texts, columns, keys);
  };
  const [label = 0] = labels;
  const [readLabel] = readLabels;
  if (!isLabelAlone || needsKey || readLabel === undefined) return bySlowWay;
  const short = Array.from({ length: 256 }, (_, byte) => {
    const value = readLabel(String.fromCharCode(byte));
    return typeof value === "number" ? value : Number.NaN;
  });
  return (sample, fields) => {
    const begin = fields.begins[label] ?? 0;
    const value = fields.end(label) - begin === 1 ? short[fields.bytes[begin] ?? 0] : undefined;
    if (value === undefined || Number.isNaN(value)) return bySlowWay(sample, fields);
    sample.label = value;
    return undefined;
  };
}

/** Integers whose logarithms are known. */
const knownLogs = Float32Array.from({ length: 4096 }, (_, value) => Math.log1p(value));
/** Powers of ten that are exact, as far as short numbers need them. */
const powersOfTen = Float64Array.from({ length: 16 }, (_, exponent) => 10 ** exponent);
/** Characters of a number of which all digits fit into the 53 bits of a float64. */
const shortMax = 16;

/** Reads a dense feature. */
class DenseReader {
  readonly #column: DenseField;
  /** Taken apart, as they are asked for each line. */
  readonly #field: number;
  readonly #at: number;
  readonly #log: boolean;
  readonly #isInteger: boolean;
  readonly #indicates: boolean;

  constructor(column: DenseField) {
    this.#column = column;
    this.#field = column.field;
    this.#at = column.at;
    this.#log = column.log;
    this.#isInteger = column.isInteger;
    this.#indicates = column.missing === "indicator";
  }

  /** As `decodeDense`. A short number is one rounding of two exact ones, as `Number` rounds. */
  read(sample: Sample, fields: Fields): Fault | undefined {
    const { bytes } = fields;
    const begin = fields.begins[this.#field] ?? 0;
    const end = fields.end(this.#field);
    const isNegative = bytes[begin] === 45;
    let at = isNegative ? begin + 1 : begin;
    if (at === end || end - at > shortMax) return this.#readText(sample, fields);
    let digits = 0;
    let point = -1;
    for (; at < end; at++) {
      const digit = (bytes[at] ?? 0) - 48;
      if (digit >= 0 && digit <= 9) digits = 10 * digits + digit;
      else if (digit === -2 && point < 0 && !this.#isInteger) point = at;
      else return this.#readText(sample, fields);
    }
    const decimals = point < 0 ? 0 : end - point - 1;
    const length = end - begin - (isNegative ? 1 : 0) - (point < 0 ? 0 : 1);
    if (length === 0 || length === shortMax) return this.#readText(sample, fields);
    const size = decimals === 0 ? digits : digits / (powersOfTen[decimals] ?? 1);
    const value = isNegative ? -size : size;
    sample.missing[this.#at] = 0;
    if (this.#indicates) sample.dense[this.#at + 1] = 0;
    sample.dense[this.#at] = this.#log ? logOf(value) : value;
    return undefined;
  }

  #readText(sample: Sample, fields: Fields): Fault | undefined {
    return decodeDense(sample, fields.text(this.#field), this.#column);
  }
}

function logOf(value: number): number {
  const positive = Math.max(value, 0);
  return knownLogs[positive] ?? Math.log1p(positive);
}

/** Digits of an integer that 32 bits hold for certain. */
const digitsMax = 9;

/** Reads the bag of a feature. */
class BagReader {
  readonly #column: CategoricalField;
  readonly #feature: number;
  readonly #field: number;
  readonly #separator: number | undefined;
  readonly #isHashed: boolean;
  readonly #seed: number;
  readonly #rows: number;
  /** 1 / (rows - 1) */
  readonly #perRow: number;
  readonly #offset: number;
  /** Whether all goes the way of text. */
  readonly #isText: boolean;

  constructor(column: CategoricalField, feature: number) {
    const { field, separator, weightSeparator, ids, seed, rows, offset, isWide } = column;
    this.#column = column;
    this.#feature = feature;
    this.#field = field;
    this.#separator = separator?.charCodeAt(0);
    this.#isHashed = ids === "hash";
    this.#seed = seed;
    this.#rows = rows;
    this.#perRow = 1 / (rows - 1);
    this.#offset = offset;
    this.#isText = isWide || weightSeparator !== undefined;
  }

  /** As `decodeBag`. */
  read(sample: Sample, fields: Fields): Fault | undefined {
    if (this.#isText) {
      return decodeBag(sample, this.#feature, fields.text(this.#field), this.#column);
    }
    const begin = fields.begins[this.#field] ?? 0;
    const end = fields.end(this.#field);
    if (this.#separator !== undefined) return this.#readList(sample, fields, begin, end);
    return begin === end
      ? decodeMissing(sample, this.#feature, this.#column)
      : this.#readId(sample, fields, begin, end);
  }

  #readList(sample: Sample, fields: Fields, first: number, end: number): Fault | undefined {
    for (let begin = first, at = first; at <= end; at++) {
      if (at < end && fields.bytes[at] !== this.#separator) continue;
      const fault = begin === at ? undefined : this.#readId(sample, fields, begin, at);
      if (fault !== undefined) return fault;
      begin = at + 1;
    }
    return sample.lengths[this.#feature] === 0
      ? decodeMissing(sample, this.#feature, this.#column)
      : undefined;
  }

  #readId(sample: Sample, fields: Fields, begin: number, end: number): Fault | undefined {
    const { bytes, view } = fields;
    const id = this.#isHashed ? this.#rowOf(view, begin, end) : this.#integer(bytes, begin, end);
    if (id >= 0 && id < this.#rows && sample.push(this.#feature, id)) return undefined;
    return decodeEntry(sample, this.#feature, bytes.toString("latin1", begin, end), this.#column);
  }

  #rowOf(bytes: DataView, begin: number, end: number): number {
    const hash = murmurHash3Of(bytes, begin, end, this.#seed);
    // hash % (rows - 1): the quotient of the rounded reciprocal is at most one off.
    const rest = hash - Math.floor(hash * this.#perRow) * (this.#rows - 1);
    if (rest < 0) return rest + this.#rows;
    return rest < this.#rows - 1 ? rest + 1 : rest + 2 - this.#rows;
  }

  /** The id of an integer; -1: it is for the way of text. */
  #integer(bytes: Buffer, begin: number, end: number): number {
    if (end - begin > digitsMax) return -1;
    let value = 0;
    for (let at = begin; at < end; at++) {
      const digit = (bytes[at] ?? 0) - 48;
      if (digit < 0 || digit > 9) return -1;
      value = 10 * value + digit;
    }
    return value - this.#offset;
  }
}
