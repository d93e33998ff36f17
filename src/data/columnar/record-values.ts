// Reads values of in-memory records into features with the result that their text would give.
// Numbers, the most frequent values, skip the conversion to text if it cannot change the result.

import type { Sample } from "../sample.ts";
import type { LineFault } from "../text/faults.ts";
import {
  decodeBag,
  decodeDense,
  decodeEntry,
  decodeMissing,
  pushId,
  setDense,
} from "../text/line-decoder.ts";
import { SourceColumns } from "../text/source-columns.ts";
import type { CompiledTransforms } from "../transforms/compile.ts";
import type { BagReader } from "./bag-reader.ts";
import type { CategoricalField, DenseField, FieldColumns } from "./named-columns.ts";
import type { Fill } from "./plain-records.ts";
import { bagFill, denseFill } from "./row-encoder.ts";

/** Reads one column of a record. Returns the value's fault, if any. */
export type ReadValue = (sample: Sample, value: unknown) => LineFault | undefined;

/** Integers below this limit have at most 15 digits, are exact, and print without an exponent. */
const shortEnd = 1e15;

/**
 * Creates the reader of a dense feature. `areNumbers`: whether booleans are 1 and 0 in the training
 * data, as in columnar files. In text they are words, which `unreadable: missing` turns into
 * missing values.
 */
export function denseValueReader(column: DenseField, areNumbers: boolean): ReadValue {
  const isWord = !areNumbers && column.unreadable === "missing";
  return (sample, value) => {
    if (typeof value === "boolean" && !isWord) return setDense(sample, value ? 1 : 0, column);
    if (typeof value === "number") {
      const isRead = column.isInteger ? isShort(value) : Number.isFinite(Math.fround(value));
      // Adding 0 turns -0 into 0, whose text it shares.
      if (isRead) return setDense(sample, value + 0, column);
    } else if (value === null || value === undefined) return setDense(sample, undefined, column);
    const text = textOf(value);
    return text === undefined
      ? noValue(column.name, "one number")
      : decodeDense(sample, text, column);
  };
}

/** Creates the reader of a categorical feature. `isBag`: whether its column may hold a list. */
export function bagValueReader(
  feature: number,
  column: CategoricalField,
  isBag: boolean,
): ReadValue {
  const { ids, isWide, weightSeparator, separator = "", offset, rows } = column;
  // Numbers skip the text path only if no separator could split their digits or sign.
  const isPlain = ids === "integer" && weightSeparator === undefined && !/[-\d]/.test(separator);
  const idOf = (value: unknown): number => {
    if (!isPlain || typeof value !== "number" || !isShort(value)) return Number.NaN;
    const id = value - offset;
    const isKnown = isWide ? Number.isSafeInteger(id) : id >= 0 && id < rows;
    return isKnown ? id : Number.NaN;
  };
  const push = (sample: Sample, id: number): LineFault | undefined => {
    const high = isWide ? Math.floor(id / 2 ** 32) : 0;
    return pushId(sample, feature, id | 0, 1, high, column);
  };
  return (sample, value) => {
    const id = idOf(value);
    if (!Number.isNaN(id)) return push(sample, id);
    if (!Array.isArray(value)) {
      const text = idTextOf(value, column);
      if (text === undefined) return noId(column, isBag ? "an id or a list" : "one id", value);
      return decodeBag(sample, feature, text, column);
    }
    if (!isBag) {
      return { kind: `expected \`${column.name}\` to be one id`, got: `a list of ${value.length}` };
    }
    for (const entry of value) {
      const known = idOf(entry);
      let fault: LineFault | undefined;
      if (!Number.isNaN(known)) fault = push(sample, known);
      else {
        const text = idTextOf(entry, column);
        if (text === undefined) return noId(column, "a list of ids", entry);
        fault = text === "" ? undefined : decodeEntry(sample, feature, text, column);
      }
      if (fault !== undefined) return fault;
    }
    return sample.lengths[feature] === 0 ? decodeMissing(sample, feature, column) : undefined;
  };
}

/** The features that transforms make of records. */
export interface MadeFeatures {
  /** Why the transforms fail on a record, by its index. */
  readonly faults: ReadonlyMap<number, LineFault>;
  /** The filler of each dense, then each categorical feature; undefined: no transform makes it. */
  readonly fills: readonly (Fill | undefined)[];
}

/** Runs the transforms on records. Sampling is ignored: it applies to training data only. */
export function madeOfRecords(
  transforms: CompiledTransforms,
  records: readonly Readonly<Record<string, unknown>>[],
  of: {
    readonly isGood: (index: number) => boolean;
    readonly columns: FieldColumns;
    /** The reader of the ids of each feature that a transform makes. */
    readonly readers: readonly (BagReader | undefined)[];
    /** Whether transforms read booleans as numbers, as in columnar files. */
    readonly areNumbers: boolean;
  },
): MadeFeatures {
  // In records, an entry of a weighted list is text: an id, `:`, a weight.
  const sources = transforms.sources.map((source) => {
    return source.list === "weighted" ? { ...source, weightSeparator: ":" } : source;
  });
  const columns = new SourceColumns(sources, records.length);
  const faults = new Map<number, LineFault>();
  for (const [index, record] of records.entries()) {
    let unfit: LineFault | undefined;
    const fieldOf = (source: number): string | readonly string[] => {
      const { column: name = "", form } = transforms.sources[source] ?? {};
      const value = record[name];
      const isId = form === "ids" || form === "texts";
      const read = (one: unknown) => {
        if (isId) return idTextOf(one, { isWide: true });
        return textOf(typeof one === "boolean" && of.areNumbers ? Number(one) : one);
      };
      const texts = (Array.isArray(value) ? value : [value]).map(read);
      if (texts.includes(undefined)) {
        unfit ??= noValue(name, "text, a number, a bigint or a list of them");
      }
      const known = texts.map((text) => text ?? "");
      return Array.isArray(value) ? known : (known[0] ?? "");
    };
    const fault = columns.add(of.isGood(index) ? fieldOf : undefined);
    const wrong = unfit ?? fault;
    if (wrong !== undefined) faults.set(index, wrong);
  }
  const rows = { rows: records.length, place: 0, firstRow: 0 };
  const made = transforms.run(columns.columns(), rows);
  for (const [row, kind] of made.faults) if (!faults.has(row)) faults.set(row, { kind });
  const columnOf = (name: string) => {
    const column = made.columns.get(name);
    if (column === undefined || column.form === "lists") throw new TypeError(`a column ${name}`);
    return column;
  };
  const { dense, categorical } = of.columns;
  const fills = [
    ...dense.map((field) => {
      return field.isMade === true ? denseFill(columnOf(field.name), field) : undefined;
    }),
    ...categorical.map((field, i) => {
      if (field.isMade !== true) return undefined;
      return bagFill(columnOf(field.name), field, i, of.readers[i]);
    }),
  ];
  return { faults, fills };
}

/** Whether a number is an integer whose text every text reader parses to the same value. */
function isShort(value: number): boolean {
  return Number.isInteger(value) && value < shortEnd && value > -shortEnd;
}

/**
 * The text that training would have read for a value, one byte per character; undefined for a value
 * without a text form.
 */
function textOf(value: unknown): string | undefined {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (typeof value === "boolean") return String(value); // As for JSON Lines and tables.
  if (typeof value !== "string") return undefined;
  return isAscii(value) ? value : Buffer.from(value, "utf8").toString("latin1");
}

/** Whether a text is ASCII, so that its characters are its UTF-8 bytes. */
function isAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7f) return false;
  return true;
}

/**
 * As `textOf`, for an id. A number beyond 2^53 is refused, because it may have been rounded to
 * another id. For 64-bit ids, fractions are refused too.
 */
function idTextOf(
  value: unknown,
  { isWide }: Pick<CategoricalField, "isWide">,
): string | undefined {
  if (typeof value !== "number" || Number.isSafeInteger(value)) return textOf(value);
  return isWide || Number.isInteger(value) ? undefined : textOf(value);
}

function noId({ name, isWide }: CategoricalField, wanted: string, value: unknown): LineFault {
  if (!isWide && typeof value !== "number") return noValue(name, wanted);
  return { kind: `expected \`${name}\` to be ${wanted}, as text, bigint or a safe integer` };
}

/** The fault of a value without a text form. */
function noValue(name: string, wanted: string): LineFault {
  return { kind: `expected \`${name}\` to be ${wanted}, as text or number` };
}
