// Decodes a line of delimited text from its bytes, with the results of line-decoder.ts but faster,
// because fields do not become strings. The fast path covers short decimal numbers, hashed ids,
// integers, and labels of one character. Other fields, including faults, take the text path. A line
// that is JSON, has quotes, or has a wrong number of fields takes the text path as a whole.

import type { CategoricalField, DenseField } from "../../columnar/named-columns.ts";
import type { Sample } from "../../sample.ts";
import type { Columns } from "../columns.ts";
import type { LineFault } from "../faults.ts";
import type { LabelReader } from "../labels.ts";
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
import { ChunkFields, type FieldValues, hashedRow, integerRow } from "./field-values.ts";

/** Fills `sample` from a line of a chunk. Returns the line's fault, if any. */
export type DecodeBytes = (
  sample: Sample,
  lines: ByteLines,
  index: number,
) => LineFault | undefined;

/**
 * Creates a decoder of lines with these columns, which also collects split keys if `keys` is given.
 * The lines of a chunk must be decoded together. `chunks` reads the fields of a chunk.
 */
export function byteDecoder(
  columns: Columns,
  keys?: Pick<KeyCollector, "read">,
  chunks: ChunkFields = new ChunkFields(columns),
): DecodeBytes {
  if (columns.json !== undefined) {
    return (sample, lines, index) => decodeLine(sample, lines.text(index), columns, keys);
  }
  const fields = new Fields(chunks);
  const decodeHead = headDecoder(columns, keys);
  const dense = columns.dense.map((column, i) => new DenseReader(column, i));
  const bags = columns.categorical.map((column, feature) => new BagReader(column, feature));
  return (sample, lines, index) => {
    if (!fields.take(lines, index)) return decodeLine(sample, lines.text(index), columns, keys);
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
  readonly #chunks: ChunkFields;
  #lines: ByteLines | undefined;
  #values: FieldValues;
  bytes: Buffer = Buffer.alloc(0);
  /** The same bytes, as a view. */
  view: DataView = new DataView(new ArrayBuffer(0));
  /** Index of the line, and of its first entry in `FieldValues.begins`. */
  #line = 0;
  #first = 0;

  constructor(chunks: ChunkFields) {
    this.#chunks = chunks;
    this.#values = chunks.values;
  }

  /** Selects a line. Returns false if the line has quotes or a wrong number of fields. */
  take(lines: ByteLines, index: number): boolean {
    if (lines !== this.#lines) {
      this.#values = this.#chunks.of(lines);
      this.#lines = lines;
      this.bytes = lines.bytes;
      this.view = lines.view;
    }
    this.#line = index;
    this.#first = index * (this.#values.plan.fields + 1);
    return this.#values.begins[this.#first] !== -1;
  }

  begin(field: number): number {
    return this.#values.begins[this.#first + field] ?? 0;
  }

  /** The number of a dense feature, as in `FieldValues.numbers`. */
  number(index: number): number {
    return this.#values.numbers[index * this.#values.lines + this.#line] ?? Number.NaN;
  }

  /** The table row of a feature, as in `FieldValues.ids`. */
  id(feature: number): number {
    return this.#values.ids[feature * this.#values.lines + this.#line] ?? -1;
  }

  /** End of a field. */
  end(field: number): number {
    return this.begin(field + 1) - 1;
  }

  /** The text of a field, one character per byte. */
  text(field: number): string {
    return this.bytes.toString("latin1", this.begin(field), this.end(field));
  }
}

type DecodeHead = (sample: Sample, fields: Fields) => LineFault | undefined;

/** Creates a decoder of a line's label, weight, group and key. */
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
  const short = shortLabels(readLabel);
  return (sample, fields) => {
    const begin = fields.begin(label);
    const value = fields.end(label) - begin === 1 ? short[fields.bytes[begin] ?? 0] : undefined;
    if (value === undefined || Number.isNaN(value)) return bySlowWay(sample, fields);
    sample.label = value;
    return undefined;
  };
}

/** (256): the label of each text of one byte; NaN if the text is no label. */
export function shortLabels(readLabel: LabelReader): Float64Array {
  return Float64Array.from({ length: 256 }, (_, byte) => {
    const value = readLabel(String.fromCharCode(byte));
    return typeof value === "number" ? value : Number.NaN;
  });
}

/** Precomputed log(1 + n) of small integers n. */
const knownLogs = Float32Array.from({ length: 4096 }, (_, value) => Math.log1p(value));
/** Reads a dense feature. */
class DenseReader {
  readonly #column: DenseField;
  readonly #index: number;
  /** Copies of the column's fields, because each line reads them. */
  readonly #at: number;
  readonly #log: boolean;
  readonly #indicates: boolean;

  constructor(column: DenseField, index: number) {
    this.#column = column;
    this.#index = index;
    this.#at = column.at;
    this.#log = column.log;
    this.#indicates = column.missing === "indicator";
  }

  /** As `decodeDense`. */
  read(sample: Sample, fields: Fields): LineFault | undefined {
    const value = fields.number(this.#index);
    if (!Number.isFinite(value)) {
      return decodeDense(sample, fields.text(this.#column.field), this.#column);
    }
    sample.missing[this.#at] = 0;
    if (this.#indicates) sample.dense[this.#at + 1] = 0;
    sample.dense[this.#at] = this.#log ? logOf(value) : value;
    return undefined;
  }
}

/** log(1 + max(value, 0)) of a dense feature. */
export function logOf(value: number): number {
  const positive = Math.max(value, 0);
  // Indexing with a fraction would be a slow property lookup, so only integers use the table.
  const whole = positive | 0;
  const isKnown = whole === positive && whole < knownLogs.length;
  return isKnown ? (knownLogs[whole] ?? 0) : Math.log1p(positive);
}

/** Reads the bag of a feature. */
class BagReader {
  readonly #column: CategoricalField;
  readonly #feature: number;

  constructor(column: CategoricalField, feature: number) {
    this.#column = column;
    this.#feature = feature;
  }

  /** As `decodeBag`. */
  read(sample: Sample, fields: Fields): LineFault | undefined {
    const id = fields.id(this.#feature);
    if (id >= 0 && sample.push(this.#feature, id)) return undefined;
    const { field, separator, weightSeparator, isWide } = this.#column;
    const [begin, end] = [fields.begin(field), fields.end(field)];
    if (begin === end) return decodeMissing(sample, this.#feature, this.#column);
    if (separator === undefined || weightSeparator !== undefined || isWide) {
      return decodeBag(sample, this.#feature, fields.text(field), this.#column);
    }
    return this.#readList(sample, fields, begin, end, separator.charCodeAt(0));
  }

  #readList(
    sample: Sample,
    fields: Fields,
    first: number,
    end: number,
    separator: number,
  ): LineFault | undefined {
    for (let begin = first, at = first; at <= end; at++) {
      if (at < end && fields.bytes[at] !== separator) continue;
      const fault = begin === at ? undefined : this.#readId(sample, fields, begin, at);
      if (fault !== undefined) return fault;
      begin = at + 1;
    }
    return sample.lengths[this.#feature] === 0
      ? decodeMissing(sample, this.#feature, this.#column)
      : undefined;
  }

  #readId(sample: Sample, fields: Fields, begin: number, end: number): LineFault | undefined {
    const { ids, seed, rows, offset } = this.#column;
    const { bytes, view } = fields;
    const id =
      ids === "hash"
        ? hashedRow(view, begin, end, seed, rows)
        : integerRow(bytes, begin, end, rows, offset);
    if (id >= 0 && sample.push(this.#feature, id)) return undefined;
    return decodeEntry(sample, this.#feature, bytes.toString("latin1", begin, end), this.#column);
  }
}
