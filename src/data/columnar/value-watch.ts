// Counts the values of columns of ids in the first samples: how many there are, how many rows of
// their tables they fall to, and how often each comes with which label. Rows alone cannot tell: two
// values that are hashed to one row look like one value.
//
// Only the first samples are counted, and they go the way of text (text/line-decoder.ts), which
// hands each value over with its row. From then on nothing is counted, and nothing costs anything.

import type { ColumnValues, DataWarning } from "../cache/cache-format.ts";
import type { FeatureStatistics } from "../cache/feature-statistics.ts";
import { mix32, mix64Modulo } from "../murmur-hash.ts";
import type { Sample } from "../sample.ts";
import type { CategoricalField, FieldColumns } from "./named-columns.ts";

/** Samples whose values are counted: the first good ones. */
export const watchedSamples = 10_000;
/** Values of a column that are counted, at most: only columns of lists have more. */
const valuesMax = 16_384;

/** What is counted of one value. */
interface ValueCount {
  readonly row: number;
  /** Samples by label: 0, 1. */
  readonly labels: [number, number];
}

/** Takes the values of one column. */
export class FieldWatch {
  readonly field: CategoricalField;
  readonly counts = new Map<string, ValueCount>();
  readonly #pending: [string, number][] = [];
  /** Whether each sample so far had one value at most. */
  isSingle = true;
  isOpen = true;

  constructor(field: CategoricalField) {
    this.field = field;
  }

  /** Takes a value of the sample that is being read, and the id that it became. */
  take(value: string, id: number, high = id >> 31): void {
    if (this.isOpen) this.#pending.push([value, rowOf(id, high, this.field)]);
  }

  /** Forgets the sample that is being read. */
  drop(): void {
    this.#pending.length = 0;
  }

  /** Counts the sample that was read. */
  keep(label: 0 | 1): void {
    if (this.#pending.length > 1) this.isSingle = false;
    for (const [value, row] of this.#pending) {
      let count = this.counts.get(value);
      if (count === undefined) {
        if (this.counts.size === valuesMax) continue;
        count = { row, labels: [0, 0] };
        this.counts.set(value, count);
      }
      count.labels[label]++;
    }
    this.drop();
  }
}

/** The row of an id, by the policy of its table for ids beyond it (embedding/lookup). */
function rowOf(id: number, high: number, { rows, isWide }: CategoricalField): number {
  if (id >= 0 && id < rows && high === 0) return id;
  return isWide ? mix64Modulo(id, high, rows) : mix32(id) % rows;
}

/** Whether values of a column may share a row, and how many do so may be counted. */
function mayShareRows({ ids, beyond, isWide }: CategoricalField): boolean {
  return (ids === "hash" && !isWide) || beyond === "hash";
}

/** Watches the columns of ids of all files. */
export class ValueWatch {
  readonly #fields: readonly FieldWatch[];
  readonly #hasClasses: boolean;
  readonly #labels: [number, number] = [0, 0];
  #samples = 0;

  constructor({ categorical, numeric }: FieldColumns) {
    this.#fields = categorical.map((field) => new FieldWatch(field));
    this.#hasClasses = numeric?.[0] !== true;
  }

  /** Whether more samples are counted. */
  get isOpen(): boolean {
    return this.#fields.length > 0 && this.#samples < watchedSamples;
  }

  /** The columns of the next file, whose values are handed over. */
  attachedTo<Columns extends FieldColumns>(columns: Columns): Columns {
    if (!this.isOpen) return columns;
    const categorical = columns.categorical.map((field, i) => ({
      ...field,
      watch: this.#fields[i],
    }));
    return { ...columns, categorical };
  }

  /** Counts the sample that was read. */
  add(sample: Sample): void {
    if (!this.isOpen) return;
    const label = sample.label === 1 ? 1 : 0;
    for (const field of this.#fields) field.keep(label);
    this.#labels[label]++;
    this.#samples++;
    if (!this.isOpen) for (const field of this.#fields) field.isOpen = false;
  }

  /** Forgets the sample that was read: its line is bad. */
  drop(): void {
    for (const field of this.#fields) field.drop();
  }

  /** The columns whose values may share rows, in the order of the features. */
  values(): ColumnValues[] {
    return this.#fields.flatMap(({ field, counts }, feature) => {
      if (!mayShareRows(field) || counts.size === 0) return [];
      const { name: column, rows, ids } = field;
      const own = { column, ...(ids === "hash" ? { feature } : {}), rows };
      return [{ ...own, samples: this.#samples, ...occupied(counts) }];
    });
  }

  /**
   * What values tell of the label that is not to be seen in rows. `isKnown`: of columns that are
   * warned of already.
   */
  warnings(isKnown: (column: string) => boolean): DataWarning[] {
    if (!this.#hasClasses) return [];
    return this.#fields.flatMap(({ field, counts, isSingle }) => {
      if (!isSingle || isKnown(field.name)) return [];
      const all = [...counts].map(([value, { labels }]) => ({ value, labels }));
      const found = labelTold(all, this.#labels);
      // Where each value has its row, the rows of all samples are known (text/leakage.ts).
      const isSeen = found?.value === undefined && occupied(counts).shared === 0;
      return found === undefined || isSeen ? [] : [toldWarning(field.name, found, this.#samples)];
    });
  }
}

function occupied(counts: ReadonlyMap<string, ValueCount>) {
  const inRow = new Map<number, number>();
  for (const { row } of counts.values()) inRow.set(row, (inRow.get(row) ?? 0) + 1);
  let shared = 0;
  for (const values of inRow.values()) if (values > 1) shared += values;
  return { values: counts.size, taken: inRow.size, shared };
}

/** Fewest samples of a value, and the share of all, before it is named. */
const [evidenceMin, shareMin] = [30, 0.01];
/** Highest probability that a value has one class alone by chance. */
const chanceMax = 1e-9;

/** What values tell of a label: all of them, or one. */
export interface LabelTold {
  /** Undefined: each value comes with one label only. */
  readonly value: string | undefined;
  readonly label: 0 | 1;
  readonly samples: number;
}

/**
 * Whether each value comes with one label only, or a frequent one does. `labels`: samples by label.
 * A column that is merely a good feature has no such value: that all samples of one share a label
 * must be less likely by chance than one in 10^9.
 */
export function labelTold(
  values: readonly { readonly value: string; readonly labels: readonly [number, number] }[],
  labels: readonly [number, number],
): LabelTold | undefined {
  const all = labels[0] + labels[1];
  const pure = values.filter(({ labels: own }) => Math.min(...own) === 0);
  const repeats = ([0, 1] as const).map((label) =>
    pure.reduce((sum, { labels: own }) => sum + Math.max(0, own[label] - 1), 0),
  );
  if (pure.length === values.length && Math.min(...repeats) >= evidenceMin) {
    return { value: undefined, label: 1, samples: all };
  }
  let most: LabelTold | undefined;
  for (const { value, labels: own } of pure) {
    const label = own[1] > 0 ? 1 : 0;
    const samples = own[label];
    if (samples < Math.max(evidenceMin, shareMin * all) || samples <= (most?.samples ?? 0))
      continue;
    const chance = samples * Math.log(labels[label] / all) + Math.log(values.length);
    if (chance < Math.log(chanceMax)) most = { value, label, samples };
  }
  return most;
}

function toldWarning(column: string, told: LabelTold, samples: number): DataWarning {
  const { value, label } = told;
  const advice = "if it was made from the label, take it out of `data.categorical`";
  const first = `of the first ${samples.toLocaleString("en-US")} samples`;
  if (value === undefined) {
    const message = `The column \`${column}\` predicts the label ${first}: each of its values comes with one label only; ${advice}`;
    return { code: "FEATURE_PREDICTS_LABEL", message };
  }
  const times = told.samples.toLocaleString("en-US");
  const text = Buffer.from(value, "latin1").toString("utf8");
  const message = `The value \`${text}\` of the column \`${column}\` comes with the label ${label} alone, ${times} times ${first}; ${advice}`;
  return { code: "VALUE_PREDICTS_LABEL", message };
}

/** Columns with fewer values than this are warned of where values share rows. */
const fewValues = 1000;

/**
 * The same of all samples, where these use more rows than the first ones: of many values, as many
 * as use that many rows on average (linear counting: Whang, Vander-Zanden, Taylor 1990).
 */
export function ofAllSamples(
  counted: ColumnValues,
  statistics: readonly Pick<FeatureStatistics, "distinctIds">[] = [],
): ColumnValues {
  const { rows, taken, values, feature = -1 } = counted;
  const used = Math.min(statistics[feature]?.distinctIds ?? 0, rows - 1);
  if (used <= taken + 1 || used <= 1.05 * taken) return counted; // 1: the row of what is missing.
  const hashed = Math.max(1, rows - 1);
  const full = Math.min(used, hashed - 0.5); // Where every row is used, it is a lower bound.
  const estimated = Math.max(values, Math.round(-hashed * Math.log1p(-full / hashed)));
  const alone = estimated * (1 - 1 / hashed) ** (estimated - 1);
  const shared = Math.max(0, Math.round(estimated - alone));
  return { ...counted, values: estimated, taken: used, shared, isEstimated: true };
}

const number = (count: number) => count.toLocaleString("en-US");
const inRows = ({ values, taken, isEstimated }: ColumnValues) => {
  const about = isEstimated === true ? "about " : "";
  return `${about}${number(values)} values in ${number(taken)} ${taken === 1 ? "row" : "rows"}`;
};

/** How many values fall to how many rows: a clause. */
export function sharingOf(own: ColumnValues): string {
  const { shared, isEstimated, samples } = own;
  const about = isEstimated === true ? "about " : "";
  const share = shared === 0 ? "none shares a row" : `${about}${number(shared)} values share a row`;
  const where = isEstimated === true ? "" : ` in the first ${number(samples)} samples`;
  return `${inRows(own)} (${share})${where}`;
}

/** Whether a column has few values, and some of them share rows. */
export function isShared({ values, shared }: ColumnValues): boolean {
  return shared > 0 && values < fewValues;
}

/** Columns that the warning names. */
const namedMax = 8;

/** The warning of columns whose few values share rows; none where there are none. */
export function sharingWarnings(all: readonly ColumnValues[]): DataWarning[] {
  const found = all.filter(isShared);
  if (found.length === 0) return [];
  const named = found.slice(0, namedMax).map((own) => {
    return `\`${own.column}\`, ${inRows(own)} (\`rows: ${rowsFor(own)}\` would do)`;
  });
  const rest = found.length - named.length;
  const message =
    "Values share rows of tables, and the model cannot tell them apart: of the " +
    `${found.length === 1 ? "column" : "columns"} ${named.join("; ")}` +
    `${rest > 0 ? `; and of ${rest} more` : ""}. Give the tables more \`rows\`, or the columns ` +
    "vocabularies (`mapId`)";
  return [{ code: "VALUES_SHARE_ROWS", message }];
}

/** Rows of which fewer than one value is expected to share one. */
function rowsFor({ values, rows }: ColumnValues): number {
  const wanted = Math.max(1024, 2 ** Math.ceil(Math.log2(values * values)));
  return Math.min(2 ** 20, Math.max(wanted, 2 ** Math.ceil(Math.log2(2 * rows))));
}
