// Counts the values of one column of a user's data: their kinds, the number of distinct ones and
// the frequency of each. A value is kept as its bytes in latin1, one character per byte, as readers
// hash it and as vocabularies store it.

import { decodeText, isNumber } from "../../../internal.ts";
import type { Loose } from "../warehouse/inferred-type.ts";

/** Most distinct values of a column that are counted individually. */
const distinctMax = 100_000;
/** Times as text: ISO 8601 dates, with or without a time of the day. */
const isoTime = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$/;
/** Characters that may separate ids within a text, in order of preference. */
const separators = ["|", ";", ",", " "] as const;
/** A 64-bit integer, also in the form `957.0`, which programs with decimal columns write. */
const integer = /^[+-]?\d{1,19}(\.0*)?$/;
/** A number with a decimal comma; before three digits it may be a thousands separator. */
const commaNumber = /^[+-]?\d+,(\d+)$/;
/** Times in another form than ISO 8601: `01/31/2026 12:30`, `31.1.2026`. */
const otherTime = /^\d{1,4}[/.]\d{1,2}[/.]\d{1,4}([ T,].*)?$/;
/** Texts among numbers that readers do not parse: non-finite ones, and formatted numbers. */
const [notFinite, otherNumber] = [
  /^[+-]?(inf|infinity|nan)$/i,
  /^[+-]?[$€£¥]?\s?[+-]?(\d{1,3}([.,' ]\d{3})+|\d+)([.,]\d+)?\s?[$€£¥%]?$/,
];

/** Statistics of a column's values. */
export interface ColumnProfile {
  readonly name: string;
  /** Why no job can read the column: the profile then has no values. Undefined: jobs can. */
  readonly refused?: string | undefined;
  readonly form: "value" | "list" | "map";
  /** Rows that have a value, and rows that have none. */
  readonly present: number;
  readonly missing: number;
  /** Numbers of values (or list items) that are integers, other numbers, and text. */
  readonly integers: number;
  readonly fractions: number;
  readonly texts: number;
  /**
   * Among the integers: booleans. Among the texts: non-finite and formatted numbers, other times.
   */
  readonly booleans: number;
  readonly infinite: number;
  readonly otherNumbers: number;
  readonly otherTimes: number;
  /** Whether its numbers have decimal commas; such numbers count as fractions. */
  readonly decimalComma: boolean;
  /** Number of texts that are lists in Python's notation. */
  readonly pythonLists: number;
  /** Whether all values are 64-bit integers, so that `12` and `12.0` are the same value. */
  readonly areIntegers: boolean;
  /** Least and greatest number, NaN without numbers; their mean and standard deviation. */
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly deviation: number;
  /** Distinct values seen, and their number in all data, estimated (Chao) from a partial sample. */
  readonly seen: number;
  readonly distinct: number;
  /** All distinct values, most frequent first, for people; empty where they are many. */
  readonly values: readonly string[];
  /** Frequency of each value; integers without `.0`. At most the first `distinctMax` values. */
  readonly counts: ReadonlyMap<string, number>;
  /** Items per list: mean and maximum. */
  readonly meanLength: number;
  readonly maxLength: number;
  /** Number of values that are ISO 8601 times. */
  readonly times: number;
  /** The character that separates ids within most of its texts; undefined: none. */
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
  /** By separator: texts that contain it, texts whose parts look like words, and the parts. */
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
    // A leading zero is significant, as in zip codes: `01234` is not `1234`.
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
    // Welford's algorithm, which stays precise for large numbers that differ little.
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
    for (const [i, tally] of this.#separated.entries()) {
      const parts = raw.split(separators[i] ?? "");
      if (parts.length > 1) tally.texts++;
      // Words of one name, such as `New York` or `Smith, John`, are not ids.
      if (parts.length > 1 && parts.some((part) => part === "" || /^[\sA-Z(]/.test(part)))
        tally.words++;
      for (const part of parts) if (part !== "") tally.parts.add(part);
    }
  }

  profile(name: string, rows: number, isWhole: boolean): ColumnProfile {
    const { integers, fractions } = this.#kinds;
    const { all, threes } = this.#commas;
    const decimalComma = threes < all && this.#kinds.texts === all;
    const texts = decimalComma ? 0 : this.#kinds.texts;
    const hasIds = ({ texts: counted, words }: { texts: number; words: number }, i: number) => {
      const isWord = words > counted / 4 && ` ,`.includes(separators[i] ?? "");
      return counted > 0 && counted >= texts / 2 && !isWord;
    };
    const at = texts === 0 || this.#odd.times === texts ? -1 : this.#separated.findIndex(hasIds);
    const separated = this.#separated[at];
    const counts = separated?.parts ?? this.#counts;
    const areIntegers = this.#areIntegers && this.#items > 0;
    const counted = areIntegers ? counts.asIntegers() : counts;
    return {
      ...{ name, form: this.#form, present: this.#present, missing: rows - this.#present },
      ...{ integers, fractions: decimalComma ? fractions + all : fractions, texts },
      ...this.#odd,
      ...{ decimalComma, areIntegers },
      ...{ min: this.#min, max: this.#max, mean: this.#mean },
      deviation: Math.sqrt(this.#squares / Math.max(1, this.#numbers)),
      ...{ seen: counted.seen, distinct: isWhole ? counted.seen : counted.estimated },
      ...{ values: counted.few.map(decodeText), counts: counted.counts },
      meanLength: this.#present === 0 ? 0 : this.#items / this.#present,
      maxLength: this.#maxLength,
      separator: separators[at],
    };
  }
}

/** Whether an integer fits in a signed 64-bit integer. */
function fits(text: string): boolean {
  if (text.length < 19) return true;
  const id = BigInt(text.replace(/^\+|\.0*$/g, ""));
  return BigInt.asIntN(64, id) === id;
}

/** Frequencies of values, up to `distinctMax` distinct ones. */
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

  /** The same counts, with `12.0` and `+12` counted as `12`. */
  asIntegers(): ValueCounts {
    const integers = new ValueCounts();
    for (const [text, count] of this.#counts) {
      const digits = text.replace(/^\+|\.0*$/g, "");
      integers.add(digits === "-0" ? "0" : digits, count);
    }
    integers.#uncounted = this.#uncounted;
    return integers;
  }

  /** Distinct values: those counted, plus half of the values past the limit as an estimate. */
  get seen(): number {
    return this.#counts.size + Math.round(this.#uncounted / 2);
  }

  /**
   * Estimated distinct values in all data, of which a sample was counted, from the numbers of
   * values seen once and twice (Chao, Scandinavian Journal of Statistics 11, 1984).
   */
  get estimated(): number {
    let [once, twice] = [0, 0];
    for (const count of this.#counts.values()) {
      if (count === 1) once++;
      else if (count === 2) twice++;
    }
    return this.seen + Math.round((once * (once - 1)) / (2 * (twice + 1)));
  }

  /** The values, most frequent first; empty if there are more than 16. */
  get few(): string[] {
    if (this.#counts.size > 16) return [];
    const ordered = [...this.#counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    return ordered.map(([value]) => value);
  }
}
