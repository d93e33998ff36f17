// Counts the values of columns of ids in the first samples: distinct values, table rows that they
// map to, and labels that each value occurs with. Rows alone do not show this, because two values
// that hash to one row look like one value.
//
// The first samples take the text path (text/line-decoder.ts), which passes each value on with its
// row. After them counting stops and costs nothing.

import type { ColumnValues, DataWarning } from "../cache/cache-format.ts";
import type { FeatureStatistics } from "../cache/feature-statistics.ts";
import { mix32, mix64Modulo } from "../murmur-hash.ts";
import type { Sample } from "../sample.ts";
import type { CategoricalField, FieldColumns } from "./named-columns.ts";

/** Number of good samples, from the start of the data, whose values are counted. */
export const watchedSamples = 10_000;
/** Most counted values of a column. Only columns of lists have more in the first samples. */
const valuesMax = 16_384;

/** Table row of a value, and its samples by label. */
interface ValueCount {
  readonly row: number;
  /** Samples by label: 0, 1. */
  readonly labels: [number, number];
}

/** Counts the values of one column. */
export class FieldWatch {
  readonly field: CategoricalField;
  readonly counts = new Map<string, ValueCount>();
  readonly #pending: [string, number][] = [];
  /** Whether each sample so far had at most one value. */
  isSingle = true;
  isOpen = true;

  constructor(field: CategoricalField) {
    this.field = field;
  }

  /** Records a value of the current sample, and the id that it maps to. */
  take(value: string, id: number, high = id >> 31): void {
    if (this.isOpen) this.#pending.push([value, rowOf(id, high, this.field)]);
  }

  /** Discards the values of the current sample. */
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

/** The table row of an id, by the table's policy for ids beyond its rows (embedding/lookup). */
function rowOf(id: number, high: number, { rows, isWide }: CategoricalField): number {
  if (id >= 0 && id < rows && high === 0) return id;
  return isWide ? mix64Modulo(id, high, rows) : mix32(id) % rows;
}

/** Whether values of a column may share a row, so that collisions are worth counting. */
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

  /** Whether further samples are counted. */
  get isOpen(): boolean {
    return this.#fields.length > 0 && this.#samples < watchedSamples;
  }

  /** The columns of the next file, with their watches attached. */
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

  /** Discards the current sample, because its line is bad. */
  drop(): void {
    for (const field of this.#fields) field.drop();
  }

  /** Value counts of the columns whose values may share rows, in feature order. */
  values(): ColumnValues[] {
    return this.#fields.flatMap(({ field, counts }, feature) => {
      if (!mayShareRows(field) || counts.size === 0) return [];
      const { name: column, rows, ids } = field;
      const own = { column, ...(ids === "hash" ? { feature } : {}), rows };
      return [{ ...own, samples: this.#samples, ...occupied(counts) }];
    });
  }

  /**
   * Warnings of values that predict the label but share rows, so that the row statistics do not
   * show it. `isKnown`: whether a column already has a warning.
   */
  warnings(isKnown: (column: string) => boolean): DataWarning[] {
    if (!this.#hasClasses) return [];
    return this.#fields.flatMap(({ field, counts, isSingle }) => {
      if (!isSingle || isKnown(field.name)) return [];
      const all = [...counts].map(([value, { labels }]) => ({ value, labels }));
      const found = labelTold(all, this.#labels);
      // If each value has its own row, text/leakage.ts finds this in the rows of all samples.
      const isSeen = found?.value === undefined && occupied(counts).shared === 0;
      return found === undefined || isSeen ? [] : [leakWarning(field.name, found, this.#samples)];
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

/** Least number of samples, and least fraction of all samples, for a value to be reported. */
const [evidenceMin, shareMin] = [30, 0.01];
/** Highest accepted probability that a value has a single class by chance. */
const chanceMax = 1e-9;

/** A finding: all values of a column, or one value, predict the label. */
export interface LabelTold {
  /** The value; undefined if every value of the column occurs with one label only. */
  readonly value: string | undefined;
  readonly label: 0 | 1;
  readonly samples: number;
}

/**
 * Finds whether every value, or a frequent value, occurs with one label only. `labels`: samples by
 * label. A merely good feature is not reported: the probability that all samples of a value share a
 * label by chance must be below 10^-9.
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

function leakWarning(column: string, told: LabelTold, samples: number): DataWarning {
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

/** Only columns with fewer values than this get a warning of shared rows. */
const fewValues = 1000;

/**
 * Extrapolates value counts to all samples, if these use more rows than the first samples. The
 * number of values is estimated from the number of used rows by linear counting (Whang,
 * Vander-Zanden, Taylor 1990).
 */
export function ofAllSamples(
  counted: ColumnValues,
  statistics: readonly Pick<FeatureStatistics, "distinctIds">[] = [],
): ColumnValues {
  const { rows, taken, values, feature = -1 } = counted;
  const used = Math.min(statistics[feature]?.distinctIds ?? 0, rows - 1);
  if (used <= taken + 1 || used <= 1.05 * taken) return counted; // 1: the row of missing values.
  const hashed = Math.max(1, rows - 1);
  const full = Math.min(used, hashed - 0.5); // A lower bound if all rows are used.
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

/** A clause that says how many values map to how many rows. */
export function sharingOf(own: ColumnValues): string {
  const { shared, isEstimated, samples } = own;
  const about = isEstimated === true ? "about " : "";
  const share = shared === 0 ? "none shares a row" : `${about}${number(shared)} values share a row`;
  const where = isEstimated === true ? "" : ` in the first ${number(samples)} samples`;
  return `${inRows(own)} (${share})${where}`;
}

/** Whether a column has few values, some of which share rows. */
export function isShared({ values, shared }: ColumnValues): boolean {
  return shared > 0 && values < fewValues;
}

/** Most columns that the warning names. */
const namedMax = 8;

/** The warning about columns with few values that share rows; empty if there are none. */
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

/** A number of rows for which less than one collision of values is expected. */
function rowsFor({ values, rows }: ColumnValues): number {
  const wanted = Math.max(1024, 2 ** Math.ceil(Math.log2(values * values)));
  return Math.min(2 ** 20, Math.max(wanted, 2 ** Math.ceil(Math.log2(2 * rows))));
}
