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
import type { CategoricalField, DenseField } from "./named-columns.ts";

/** Reads one column of a record. Returns the value's fault, if any. */
export type ReadValue = (sample: Sample, value: unknown) => LineFault | undefined;

/** Integers below this limit have at most 15 digits, are exact, and print without an exponent. */
const shortEnd = 1e15;

/**
 * Creates the reader of a dense feature. `areNumbers`: whether booleans are 1 and 0 in the training
 * data, as in columnar files. In text they are words, which `unreadable: missing` turns into
 * missing values.
 */
export function denseReader(column: DenseField, areNumbers: boolean): ReadValue {
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
export function bagReader(feature: number, column: CategoricalField, isBag: boolean): ReadValue {
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

/** Whether a number is an integer whose text every text reader parses to the same value. */
function isShort(value: number): boolean {
  return Number.isInteger(value) && value < shortEnd && value > -shortEnd;
}

/**
 * The text that training would have read for a value, one byte per character; undefined for a value
 * without a text form.
 */
export function textOf(value: unknown): string | undefined {
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
export function idTextOf(
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
export function noValue(name: string, wanted: string): LineFault {
  return { kind: `expected \`${name}\` to be ${wanted}, as text or number` };
}
