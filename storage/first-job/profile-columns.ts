// What the columns of somebody's data are like, by a bounded sample of the first rows: how many
// values each has, of which kinds, how many different ones and how often the most frequent. A first
// job is made of it (column-roles.ts, write-first-job.ts).

import { shownPath } from "../../src/data/remote/addresses.ts";
import { decodeText } from "../../src/data/text/faults.ts";
import { isNumber } from "../../src/data/text/split-keys.ts";
import { readLines } from "../../src/data/text/text-lines.ts";
import { InputUnusableError } from "../../src/errors/errors.ts";
import type { Loose } from "../warehouse/inferred-type.ts";
import { filesFor, kindOf, openSource } from "../warehouse/open-source.ts";
import { textRows } from "../warehouse/text-table.ts";

/** Different values of a column that are counted one by one, at most. */
const distinctMax = 100_000;
/** Times as text: ISO 8601 dates, with or without a time of the day. */
const isoTime = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$/;
/** Characters that may separate ids within a text; the first one that does is taken. */
const separators = ["|", ";", ",", " "] as const;

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
  /** Least and greatest number; NaN: there is none. */
  readonly min: number;
  readonly max: number;
  /** Different values, estimated where the sample has not all (Chao 1984). */
  readonly distinct: number;
  /** Share of the most frequent value. */
  readonly topShare: number;
  /** Of few different values, all of them, the most frequent first. */
  readonly values: readonly string[];
  /** Items of a list: the mean, and the most. */
  readonly meanLength: number;
  readonly maxLength: number;
  /** Values that are ISO times. */
  readonly times: number;
  /** What separates ids within most of its texts. */
  readonly separator: (typeof separators)[number] | undefined;
}

/** A sample of some files. */
export interface DataProfile {
  /** `criteo-tsv`: the layout of Criteo's logs, which have no header. */
  readonly kind: "csv" | "tsv" | "jsonl" | "parquet" | "arrow" | "criteo-tsv";
  readonly files: readonly string[];
  /** Rows that were looked at, and whether these are all. */
  readonly rows: number;
  readonly isWhole: boolean;
  readonly columns: readonly ColumnProfile[];
}

/**
 * The columns of files, by their first rows.
 * @throws InputUnusableError where a file cannot be read, or has no rows
 */
export async function profileColumns(
  paths: readonly string[],
  rowsMax = 50_000,
  signal?: AbortSignal,
): Promise<DataProfile> {
  const files = await filesFor(paths);
  const [first = ""] = files;
  const ending = kindOf(first);
  const kind = (await isCriteo(first, ending)) ? "criteo-tsv" : ending;
  const columns = new Map<string, ColumnTally>();
  let rows = 0;
  let isWhole = true;
  for await (const row of rowsIn(files, kind, signal)) {
    signal?.throwIfAborted();
    if (rows === rowsMax) {
      isWhole = false;
      break;
    }
    for (const [name, loose] of row) {
      const tally = columns.get(name) ?? new ColumnTally();
      columns.set(name, tally);
      if (loose !== undefined) tally.add(loose);
    }
    rows++;
  }
  if (rows === 0) throw new InputUnusableError(first, `Expected rows in ${first}, got none`);
  return {
    ...{ kind, files, rows, isWhole },
    columns: [...columns].map(([name, tally]) => tally.profile(name, rows, isWhole)),
  };
}

/** A row by column; a column without a value is told once, so that its name is known. */
type SampledRow = Iterable<readonly [string, Loose | undefined]>;

async function* rowsIn(
  files: readonly string[],
  kind: DataProfile["kind"],
  signal: AbortSignal | undefined,
): AsyncGenerator<SampledRow> {
  if (kind === "parquet" || kind === "arrow") {
    const source = await openSource(files, signal);
    for await (const { rows, columns } of source.chunks()) {
      for (let row = 0; row < rows; row++) {
        yield [...columns].map(([name, values]) => [name, looseOfStored(values[row])] as const);
      }
    }
    return;
  }
  for (const file of files) {
    let names: readonly string[] = [];
    const [own, given] = kind === "criteo-tsv" ? (["tsv", criteoNames] as const) : [kind];
    for await (const { names: header, row } of textRows(file, own, given)) {
      if (header !== undefined) names = namedBy(file, header);
      else yield [...names.map((name) => [name, undefined] as const), ...readText(row)];
    }
  }
}

/** The columns of Criteo's logs. */
const criteoNames = [
  "label",
  ...Array.from({ length: 13 }, (_, i) => `I${i + 1}`),
  ...Array.from({ length: 26 }, (_, i) => `C${i + 1}`),
];

/** Whether text without a header has the layout of Criteo's logs: a label, 13 counts, 26 ids. */
async function isCriteo(file: string, kind: string): Promise<boolean> {
  if (kind !== "tsv") return false;
  for await (const { lines } of readLines(file)) {
    const fields = lines[0]?.split("\t") ?? [];
    const isCount = (field: string) => field === "" || /^-?\d+$/.test(field);
    const isLabel = fields[0] === "0" || fields[0] === "1";
    return fields.length === criteoNames.length && isLabel && fields.slice(1, 14).every(isCount);
  }
  return false;
}

/** @throws InputUnusableError where the first line is a row, and no header */
function namedBy(file: string, names: readonly string[]): readonly string[] {
  if (file !== "" && names.some((name) => isNumber(name.trim()))) {
    const path = shownPath(file);
    const found = names.slice(0, 4).join(", ");
    const message = `The first line of ${path} looks like a row (${found}), expected the names of the columns: put them before it`;
    throw new InputUnusableError(path, message);
  }
  return names;
}

/** Text as people read it, and numbers in text as numbers. */
function* readText(row: Iterable<readonly [string, Loose]>): Generator<readonly [string, Loose]> {
  for (const [name, loose] of row) {
    if (loose.form !== "value" || typeof loose.value !== "string") yield [name, loose];
    else yield [name, { form: "value", value: decodeText(loose.value) }];
  }
}

/** A value as Parquet and Arrow have it. */
function looseOfStored(value: unknown): Loose | undefined {
  if (value === null || value === undefined) return undefined;
  if (!Array.isArray(value)) return { form: "value", value: scalarOf(value) };
  const isMap = value.some((one) => one !== null && typeof one === "object" && "key" in one);
  if (!isMap) return { form: "list", items: value.map(scalarOf) };
  const pairs = value.map(({ key, value: weight }): readonly [string | number, number] => {
    const id = scalarOf(key);
    return [typeof id === "boolean" ? `${id}` : id, Number(weight)];
  });
  return { form: "map", pairs };
}

function scalarOf(value: unknown): string | number | boolean {
  if (typeof value === "number" || typeof value === "boolean") return value;
  if (typeof value === "bigint") {
    return Number.isSafeInteger(Number(value)) ? Number(value) : `${value}`;
  }
  if (value instanceof Uint8Array) return Buffer.from(value).toString("utf8");
  return value instanceof Date ? value.toISOString() : String(value);
}

/** Counts the values of one column. */
class ColumnTally {
  #form: Loose["form"] = "value";
  #present = 0;
  #items = 0;
  #maxLength = 0;
  readonly #kinds = { integers: 0, fractions: 0, texts: 0 };
  #times = 0;
  #min = Number.NaN;
  #max = Number.NaN;
  readonly #counts = new ValueCounts();
  /** By separator: the texts that have it, and what it separates. */
  readonly #separated = separators.map(() => ({ texts: 0, parts: new ValueCounts() }));

  add(loose: Loose): void {
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
    const text = String(item).trim();
    this.#counts.add(text);
    const value = typeof item === "string" && !isNumber(text) ? Number.NaN : Number(item);
    if (typeof item === "boolean" || Number.isInteger(value)) this.#kinds.integers++;
    else if (Number.isFinite(value)) this.#kinds.fractions++;
    else {
      this.#kinds.texts++;
      if (isoTime.test(text)) this.#times++;
      for (const [i, own] of this.#separated.entries()) {
        const parts = text.split(separators[i] ?? "");
        if (parts.length > 1) own.texts++;
        for (const part of parts) own.parts.add(part);
      }
      return;
    }
    this.#min = this.#min <= value ? this.#min : value;
    this.#max = this.#max >= value ? this.#max : value;
  }

  profile(name: string, rows: number, isWhole: boolean): ColumnProfile {
    const at = this.#separated.findIndex(({ texts }) => texts > this.#kinds.texts / 4);
    const separated = this.#separated[at];
    const counts = separated?.parts ?? this.#counts;
    return {
      ...{ name, form: this.#form, present: this.#present, missing: rows - this.#present },
      ...this.#kinds,
      ...{ min: this.#min, max: this.#max, times: this.#times },
      distinct: isWhole ? counts.seen : counts.estimated,
      topShare: counts.topShare,
      values: counts.few,
      meanLength: this.#present === 0 ? 0 : this.#items / this.#present,
      maxLength: this.#maxLength,
      separator: separators[at],
    };
  }
}

/** How often each value comes, of not too many. */
class ValueCounts {
  readonly #counts = new Map<string, number>();
  #all = 0;
  #uncounted = 0;

  add(value: string): void {
    this.#all++;
    const known = this.#counts.get(value);
    if (known === undefined && this.#counts.size === distinctMax) this.#uncounted++;
    else this.#counts.set(value, (known ?? 0) + 1);
  }

  /** Different values; of those that are not counted, half are taken for new ones. */
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

  get topShare(): number {
    let most = 0;
    for (const count of this.#counts.values()) most = Math.max(most, count);
    return this.#all === 0 ? 0 : most / this.#all;
  }

  /** The values, the most frequent first, where they are few. */
  get few(): string[] {
    if (this.#counts.size > 16) return [];
    const ordered = [...this.#counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    return ordered.map(([value]) => value);
  }
}
