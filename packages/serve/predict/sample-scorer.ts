// Scores decoded rows, batch by batch: the values of the prediction columns, and the counts and
// means of the report.

import {
  areNumeric,
  BatchRows,
  batchSamplesMax,
  type Calibrations,
  denseOf,
  type JobSpec,
  type LineFault,
  type Model,
  probabilityOf,
  Sample,
  sentenceOf,
  shapesOf,
  weightedOf,
  wideOf,
} from "../../../internal.ts";

export interface DecodedRows {
  /** The file, as reports name it. */
  readonly path: string;
  readonly count: number;
  /** Decodes the features of the row at `index` into `sample`. Returns the fault, if any. */
  decode(sample: Sample, index: number): LineFault | undefined;
  /** The line or row number in the file, from 1. */
  lineOf(index: number): number;
}

/** The predictions of a row, one per prediction column; undefined: the row is bad. */
export type Predictions = readonly number[] | undefined;

/** The counts and means of all rows that were scored. */
export interface SamplesReport {
  /** Rows with a prediction. */
  readonly samples: number;
  /**
   * Number of rows without a prediction, because training would reject the row or the model's
   * output for the row is not finite.
   */
  readonly bad: number;
  /** The first bad line or row of the file `file`, from 1, and why it is bad. */
  readonly firstBad:
    | { readonly file: string; readonly line: number; readonly reason: string }
    | undefined;
  /** Mean prediction by task; NaN without samples. */
  readonly means: Readonly<Record<string, number>>;
}

/** The default name of the prediction column: `prediction` if all labels are numeric. */
export function defaultColumn({ data }: Pick<JobSpec, "data">): string {
  return areNumeric(data).includes(false) ? "probability" : "prediction";
}

/** The prediction columns: one, or one for each of several tasks; then the calibrated ones. */
export function predictedColumns(
  tasks: readonly string[],
  column: string,
  calibrations: Calibrations = [],
): string[] {
  const names = tasks.length === 1 ? [column] : tasks.map((task) => `${column}.${task}`);
  const calibrated = names.filter((_, task) => calibrations[task] !== undefined);
  return [...names, ...calibrated.map((name) => `${name}.calibrated`)];
}

export class SampleScorer {
  readonly #model: Model;
  readonly #calibrations: Calibrations;
  readonly #sample: Sample;
  /** Sums of the raw predictions by task. */
  readonly #sums: Float64Array;
  #samples = 0;
  #bad = 0;
  #firstBad: SamplesReport["firstBad"];

  constructor(model: Model, calibrations: Calibrations = []) {
    const { data, model: spec } = model.job;
    this.#model = model;
    this.#calibrations = calibrations;
    this.#sums = new Float64Array(model.tasks.length);
    this.#sample = new Sample({ dense: denseOf(data), features: shapesOf(spec).length });
  }

  report(): SamplesReport {
    const samples = this.#samples;
    const means = this.#model.tasks.map((task, i) => {
      return [task, samples === 0 ? Number.NaN : (this.#sums[i] ?? 0) / samples] as const;
    });
    return {
      ...{ samples, bad: this.#bad, firstBad: this.#firstBad },
      means: Object.fromEntries(means),
    };
  }

  /** The predictions of each row. */
  async score(rows: DecodedRows): Promise<Predictions[]> {
    const scored: Predictions[] = [];
    while (scored.length < rows.count) {
      scored.push(...(await this.#scoreSome(rows, scored.length)));
    }
    return scored;
  }

  /** Scores the rows from `first` on, at most as many as the model takes at once. */
  async #scoreSome(rows: DecodedRows, first: number): Promise<Predictions[]> {
    const { job, means, tasks } = this.#model;
    const count = Math.min(rows.count - first, batchSamplesMax);
    const tables = shapesOf(job.model);
    const shape = { dense: denseOf(job.data), wide: wideOf(tables), means };
    const batch = new BatchRows(count, { ...shape, weighted: weightedOf(job.data, tables) });
    const faults = Array.from({ length: count }, (_, i) => {
      const fault = rows.decode(this.#sample, first + i);
      if (fault !== undefined) this.#sample.clear(); // A bad row is scored with empty bags.
      batch.add(i, this.#sample);
      return fault;
    });
    const logits = await this.#model.logitsOf(batch.batch());
    return faults.map((fault, i) => {
      const values = this.#valuesOf(logits.subarray(i * tasks.length, (i + 1) * tasks.length));
      const reason = fault === undefined ? notFinite(values) : sentenceOf(fault);
      if (reason === undefined) {
        this.#samples++;
        for (const task of tasks.keys()) {
          this.#sums[task] = (this.#sums[task] ?? 0) + (values[task] ?? Number.NaN);
        }
        return values;
      }
      this.#bad++;
      this.#firstBad ??= { file: rows.path, line: rows.lineOf(first + i), reason };
      return undefined;
    });
  }

  /** The values of the prediction columns for the logits (T) of a row. */
  #valuesOf(logits: Float32Array): number[] {
    const predictions = Array.from(logits, (logit, task) => {
      return this.#model.numeric[task] === true ? logit : Math.fround(probabilityOf(logit));
    });
    const calibrated = this.#calibrations.flatMap((one, task) => {
      return one === undefined ? [] : Math.fround(probabilityOf(logits[task] ?? Number.NaN, one));
    });
    return [...predictions, ...calibrated];
  }
}

/** Why a valid row has no prediction; undefined: it has one. */
function notFinite(values: readonly number[]): string | undefined {
  if (values.every(Number.isFinite)) return undefined;
  return "the model predicts no finite number: values of its dense features are too large";
}
