// Counts the values of one column of somebody's data: of which kinds they are, how many different
// ones there are and how often each comes. A value is its bytes as characters (latin1), as readers
// hash it and as a vocabulary has it.

import { decodeText } from "../../src/data/text/faults.ts";
import { isNumber } from "../../src/data/text/split-keys.ts";
import type { Loose } from "../warehouse/inferred-type.ts";

/** Different values of a column that are counted one by one, at most. */
const distinctMax = 100_000;
/** Times as text: ISO 8601 dates, with or without a time of the day. */
const isoTime = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$/;
/** Characters that may separate ids within a text; the first one that does is taken. */
const separators = ["|", ";", ",", " "] as const;
/** An integer of 64 bits, also as programs write it whose columns are decimals: `957.0`. */
const integer = /^[+-]?\d{1,19}(\.0*)?$/;
/** A number with a decimal comma; with three digits behind it, perhaps one with thousands. */
const commaNumber = /^[+-]?\d+,(\d+)$/;
/** Times in another form than ISO 8601: `01/31/2026 12:30`, `31.1.2026`. */
const otherTime = /^\d{1,4}[/.]\d{1,2}[/.]\d{1,4}([ T,].*)?$/;
/** What is a number to people, and not to a reader; or no number, among numbers. */
const [notFinite, otherNumber] = [
  /^[+-]?(inf|infinity|nan)$/i,
  /^[+-]?[$€£¥]?\s?[+-]?(\d{1,3}([.,' ]\d{3})+|\d+)([.,]\d+)?\s?[$€£¥%]?$/,
];

/** A column, as its values show it. */
export interface ColumnProfile {
  readonly name: string;
  readonly form: "value" | "list" | "map";
  /** Rows that have a value, and rows that have none. */
  readonly present: number;
  readonly missing: number;
  /** Of the values, or of the items of lists: how many are integers, other numbers, text. */
  readonly integers: number;
  readonly fractions: number;
  readonly texts: number;
  /** Of the integers: true and false. Of the texts: infinite, and numbers with signs or commas. */
  readonly booleans: number;
  readonly infinite: number;
  readonly otherNumbers: number;
  readonly otherTimes: number;
  /** Whether its numbers have decimal commas; they count as fractions. */
  readonly decimalComma: boolean;
  /** Texts that are lists as Python writes them. */
  readonly pythonLists: number;
  /** Whether all values are integers of 64 bits, so that `12` and `12.0` are one. */
  readonly areIntegers: boolean;
  /** Least and greatest number; NaN: there is none. The mean of all, and their deviation. */
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly deviation: number;
  /** Different values that were seen; and in all data, estimated where these are a part (Chao). */
  readonly seen: number;
  readonly distinct: number;
  /** Of few different values, all of them, the most frequent first, for people. */
  readonly values: readonly string[];
  /** How often each value comes; integers without `.0`. Of very many, the first ones. */
  readonly counts: ReadonlyMap<string, number>;
  /** Items of a list: the mean, and the most. */
  readonly meanLength: number;
  readonly maxLength: number;
  /** Values that are ISO times. */
  readonly times: number;
  /** What separates ids within most of its texts. */
  readonly separator: (typeof separators)[number] | undefined;
}

/** Counts the values of one column. */
export class ColumnTally {
  #form: Loose["form"] = "value";
  #present = 0;
  #items = 0;
  #maxLength = 0;
  readonly #kinds = { integers: 0, fractions: 0, texts: 0 };
  readonly #odd = {
    booleans: 0,
    infinite: 0,
    otherNumbers: 0,
    otherTimes: 0,
    pythonLists: 0,
    times: 0,
  };
  readonly #commas = { all: 0, threes: 0 };
  #areIntegers = true;
  #min = Number.NaN;
  #max = Number.NaN;
  #numbers = 0;
  #mean = 0;
  #squares = 0;
  readonly #counts = new ValueCounts();
  /** By separator: the texts that have it, and what it separates. */
  readonly #separated = separators.map(() => ({ texts: 0, words: 0, parts: new ValueCounts() }));

  add(loose: Loose): void {
    if (loose.form === "value" && loose.value === "") return;
    this.#present++;
    this.#form = loose.form;
    const items =
      loose.form === "value"
        ? [loose.value]
        : loose.form === "list"
          ? loose.items
          : loose.pairs.map(([id]) => id);
    this.#items += items.length;
    this.#maxLength = Math.max(this.#maxLength, items.length);
    for (const item of items) this.#addItem(item);
  }

  #addItem(item: string | number | boolean): void {
    const raw = String(item);
    const text = raw.trim();
    this.#counts.add(raw);
    // Zip codes and the like: `01234` is not `1234`.
    if (!integer.test(raw) || /^[+-]?0\d/.test(raw) || !fits(raw)) this.#areIntegers = false;
    const [, behind] = typeof item === "string" ? (commaNumber.exec(text) ?? []) : [];
    const plain = behind === undefined ? text : text.replace(",", ".");
    const isNone = typeof item === "string" && !isNumber(plain);
    const value = isNone ? Number.NaN : Number(typeof item === "string" ? plain : item);
    if (typeof item === "boolean") this.#odd.booleans++;
    if (behind !== undefined) {
      this.#addText(raw, text);
      this.#commas.all++;
      if (behind.length === 3) this.#commas.threes++;
    } else if (typeof item === "boolean" || Number.isInteger(value)) this.#kinds.integers++;
    else if (Number.isFinite(value)) this.#kinds.fractions++;
    else {
      this.#addText(raw, text);
      return;
    }
    this.#min = this.#min <= value ? this.#min : value;
    this.#max = this.#max >= value ? this.#max : value;
    // Welford's mean and squares: large numbers that differ little lose nothing.
    const off = value - this.#mean;
    this.#mean += off / ++this.#numbers;
    this.#squares += off * (value - this.#mean);
  }

  #addText(raw: string, text: string): void {
    this.#kinds.texts++;
    if (isoTime.test(text)) this.#odd.times++;
    if (notFinite.test(text)) this.#odd.infinite++;
    else if (otherNumber.test(decodeText(text))) this.#odd.otherNumbers++;
    else if (otherTime.test(text)) this.#odd.otherTimes++;
    else if (/^[[(].*[\])]$/.test(text)) this.#odd.pythonLists++;
    for (const [i, own] of this.#separated.entries()) {
      const parts = raw.split(separators[i] ?? "");
      if (parts.length > 1) own.texts++;
      // `New York`, `Smith, John`: words of one name, not ids.
      if (parts.length > 1 && parts.some((part) => part === "" || /^[\sA-Z(]/.test(part)))
        own.words++;
      for (const part of parts) if (part !== "") own.parts.add(part);
    }
  }

  profile(name: string, rows: number, isWhole: boolean): ColumnProfile {
    const { integers, fractions } = this.#kinds;
    const { all, threes } = this.#commas;
    const decimalComma = threes < all && this.#kinds.texts === all;
    const texts = decimalComma ? 0 : this.#kinds.texts;
    const hasIds = ({ texts: own, words }: { texts: number; words: number }, i: number) => {
      const isWord = words > own / 4 && ` ,`.includes(separators[i] ?? "");
      return own > 0 && own >= texts / 2 && !isWord;
    };
    const at = texts === 0 || this.#odd.times === texts ? -1 : this.#separated.findIndex(hasIds);
    const separated = this.#separated[at];
    const counts = separated?.parts ?? this.#counts;
    const areIntegers = this.#areIntegers && this.#items > 0;
    const own = areIntegers ? counts.asIntegers() : counts;
    return {
      ...{ name, form: this.#form, present: this.#present, missing: rows - this.#present },
      ...{ integers, fractions: decimalComma ? fractions + all : fractions, texts },
      ...this.#odd,
      ...{ decimalComma, areIntegers },
      ...{ min: this.#min, max: this.#max, mean: this.#mean },
      deviation: Math.sqrt(this.#squares / Math.max(1, this.#numbers)),
      ...{ seen: own.seen, distinct: isWhole ? own.seen : own.estimated },
      ...{ values: own.few.map(decodeText), counts: own.counts },
      meanLength: this.#present === 0 ? 0 : this.#items / this.#present,
      maxLength: this.#maxLength,
      separator: separators[at],
    };
  }
}

/** Whether an integer has 64 bits at most, its sign among them. */
function fits(text: string): boolean {
  if (text.length < 19) return true;
  const id = BigInt(text.replace(/^\+|\.0*$/g, ""));
  return BigInt.asIntN(64, id) === id;
}

/** How often each value comes, of not too many. */
class ValueCounts {
  readonly #counts = new Map<string, number>();
  #uncounted = 0;

  get counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  add(value: string, times = 1): void {
    const known = this.#counts.get(value);
    if (known === undefined && this.#counts.size === distinctMax) this.#uncounted += times;
    else this.#counts.set(value, (known ?? 0) + times);
  }

  /** The same, with `12.0` and `+12` counted as `12`. */
  asIntegers(): ValueCounts {
    const integers = new ValueCounts();
    for (const [text, count] of this.#counts) {
      const digits = text.replace(/^\+|\.0*$/g, "");
      integers.add(digits === "-0" ? "0" : digits, count);
    }
    integers.#uncounted = this.#uncounted;
    return integers;
  }

  /** Different values: those that were counted, and an estimated half of those beyond the limit. */
  get seen(): number {
    return this.#counts.size + Math.round(this.#uncounted / 2);
  }

  /**
   * Different values in all data, of which these are a part: by the values that were seen once and
   * twice (Chao, Scandinavian Journal of Statistics 11, 1984).
   */
  get estimated(): number {
    let [once, twice] = [0, 0];
    for (const count of this.#counts.values()) {
      if (count === 1) once++;
      else if (count === 2) twice++;
    }
    return this.seen + Math.round((once * (once - 1)) / (2 * (twice + 1)));
  }

  /** The values, the most frequent first, where they are few. */
  get few(): string[] {
    if (this.#counts.size > 16) return [];
    const ordered = [...this.#counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    return ordered.map(([value]) => value);
  }
}
