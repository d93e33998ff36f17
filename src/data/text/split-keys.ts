// Parses and collects split keys: the number, point in time or hash of a column's value, by which
// lines are split into training, validation and test.

import { murmurHash3 } from "../murmur-hash.ts";
import { type KeyColumn, type KeyForm, type SplitKeys, sliceTextsMax } from "../split-keys.ts";
import { type LineFault, show } from "./faults.ts";

/** A number, or a date in milliseconds since 1970. */
export interface Moment {
  readonly form: "number" | "date";
  readonly value: number;
}

const decimal = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
const isoDate =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(\.\d{1,9})?)?(?:(Z)|([+-])(\d\d):?(\d\d))?)?$/;

/**
 * Parses a number or an ISO date. A date without a zone is UTC, on every host. Undefined for other
 * text, and for a day that does not exist.
 */
export function momentOf(text: string): Moment | undefined {
  const trimmed = text.trim();
  if (decimal.test(trimmed)) {
    const value = Number(trimmed);
    return Number.isFinite(value) ? { form: "number", value } : undefined;
  }
  const date = partsOf(trimmed);
  if (date === undefined) return undefined;
  const { dayMs, seconds, fraction } = date;
  return { form: "date", value: dayMs + 1000 * (seconds + Number(`0.${fraction}`)) };
}

/** Whether a text is a decimal number. */
export function isNumber(text: string): boolean {
  return decimal.test(text);
}

/**
 * Parses an ISO date as whole seconds since 1970, and the digits of the fraction; undefined for
 * other text.
 */
export function dateIn(
  text: string,
): { readonly seconds: number; readonly fraction: string } | undefined {
  const date = partsOf(text);
  return date && { seconds: date.dayMs / 1000 + date.seconds, fraction: date.fraction };
}

interface DateParts {
  /** Start of its day, in UTC milliseconds since 1970. */
  readonly dayMs: number;
  readonly seconds: number;
  /** Up to nine digits. */
  readonly fraction: string;
}

function partsOf(text: string): DateParts | undefined {
  const parts = isoDate.exec(text);
  if (parts === null) return undefined;
  const numberAt = (place: number) => Number(parts[place] ?? 0);
  const [year, month, day] = [numberAt(1), numberAt(2), numberAt(3)];
  const [hour, minute, second] = [numberAt(4), numberAt(5), numberAt(6)];
  const [zoneHours, zoneMinutes] = [numberAt(10), numberAt(11)];
  if (hour > 23 || minute > 59 || second > 59 || zoneHours > 23 || zoneMinutes > 59)
    return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  const zone = (parts[9] === "-" ? -1 : 1) * (60 * zoneHours + zoneMinutes);
  const seconds = 60 * (60 * hour + minute - zone) + second;
  return { dayMs: date.getTime(), seconds, fraction: parts[7]?.slice(1) ?? "" };
}

/** Formats a date as ISO text. */
export function dateOf(value: number): string {
  return new Date(value).toISOString();
}

/**
 * Collects the keys of lines. A column must hold only numbers or only dates, because the two have
 * no common order.
 */
export class KeyCollector {
  readonly #key: KeyColumn;
  #form: KeyForm | undefined;
  #values = new Float64Array(1024);
  #count = 0;
  #next = 0;
  /** The texts of slices, and the index of each. */
  readonly #texts = new Map<string, number>();
  /** Determines which lines the split of the data accepts. */
  readonly #keptBy: KeyCollector | undefined;

  constructor(key: KeyColumn) {
    this.#key = key;
    if (key.kind === "slice" && key.keptBy) this.#keptBy = new KeyCollector(key.keptBy);
  }

  /** Reads the key of a line from its field, one byte per character. Returns its fault, if any. */
  read(text: string): LineFault | undefined {
    const { kind, column } = this.#key;
    if (kind === "slice") return this.#takeSlice(text, this.#keptBy?.read(text));
    if (text.trim() === "") return { kind: `\`${column}\`, which splits the data, is missing` };
    if (this.#key.kind === "hash") {
      this.#next = murmurHash3(text, this.#key.salt);
      this.#form = "hash";
      return undefined;
    }
    const moment = momentOf(text);
    if (moment !== undefined) return this.take(moment, text);
    const what = `expected \`${column}\`, which splits the data by ${kind}, to be`;
    return { kind: `${what} a number or an ISO date`, got: show(text) };
  }

  /** Takes a parsed key, which messages show as `text`. Returns its fault, if any. */
  take(moment: Moment, text: string): LineFault | undefined {
    const { kind, column } = this.#key;
    if (kind === "slice") return this.#takeSlice(text, this.#keptBy?.take(moment, text));
    this.#form ??= moment.form;
    if (moment.form !== this.#form) {
      const all = `a ${this.#form}, as in the first line`;
      return { kind: `expected \`${column}\` to be ${all}`, got: show(text) };
    }
    this.#next = moment.value;
    return undefined;
  }

  /** Takes a slice; any text is valid. `fault`: the fault of the line's split key. */
  #takeSlice(text: string, fault: LineFault | undefined): undefined {
    this.#form = "text";
    if (this.#keptBy !== undefined) this.#next = fault === undefined ? 1 : 0;
    else {
      const own = text.trim() === "" ? "" : text; // Blank text is a missing value.
      const known = this.#texts.get(own) ?? Math.min(this.#texts.size, sliceTextsMax);
      if (known === this.#texts.size && known < sliceTextsMax) this.#texts.set(own, known);
      this.#next = known;
    }
  }

  /** Keeps the last key that was read, because its line is good. */
  keep(): void {
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(2 * this.#count);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.#count++] = this.#next;
  }

  keys(): SplitKeys {
    const values = this.#values.slice(0, this.#count);
    const texts = this.#key.kind === "slice" ? { texts: [...this.#texts.keys()] } : {};
    return { form: this.#form ?? "number", values, ...texts };
  }
}
