// Options and report of file predictions, shared by all formats.

import {
  areNumeric,
  type Calibrations,
  type JobSpec,
  type ProgressOptions,
  probabilityOf,
} from "../../../internal.ts";

/** Options of `predictFile`. */
export interface PredictFileOptions extends ProgressOptions {
  /**
   * Name of the prediction column. @default "probability", or "prediction" if all labels are
   * numeric
   */
  readonly column?: string | undefined;
  /**
   * Columns of the file to copy beside the predictions, whether the model reads them or not.
   * Refused where the output copies whole lines anyway.
   */
  readonly keep?: readonly string[] | undefined;
  /**
   * One calibration per task (`Model.calibrate`); calibrated probabilities are written in columns
   * beside the raw ones. @default the model's own calibrations, if it has them (`loadModel`)
   */
  readonly calibrations?: Calibrations | undefined;
}

/** The result of `predictFile`. */
export interface PredictReport {
  /** Lines with a probability. */
  readonly samples: number;
  /**
   * Lines without a prediction: those that training would reject, and those for which the model's
   * output is not finite.
   */
  readonly bad: number;
  /** The first bad line or row of the file `file`, from 1, and why it is bad. */
  readonly firstBad:
    | { readonly file: string; readonly line: number; readonly reason: string }
    | undefined;
  /** Mean prediction by task; NaN without samples. */
  readonly means: Readonly<Record<string, number>>;
  readonly file: string;
  /** Bytes of the file. */
  readonly bytes: number;
}

/** The default name of the prediction column: `prediction` if all labels are numeric. */
export function usualColumn({ data }: Pick<JobSpec, "data">): string {
  return areNumeric(data).includes(false) ? "probability" : "prediction";
}

/** The raw prediction columns: one, or one for each of several tasks. */
export function addedColumns(tasks: readonly string[], column: string): string[] {
  return tasks.length === 1 ? [column] : tasks.map((task) => `${column}.${task}`);
}

/** All prediction columns: the raw ones of all tasks, then the calibrated ones. */
export function predictedColumns(
  tasks: readonly string[],
  column: string,
  { calibrations = [] }: Pick<PredictFileOptions, "calibrations">,
): string[] {
  const own = addedColumns(tasks, column);
  const others = own.filter((_, task) => calibrations[task] !== undefined);
  return [...own, ...others.map((name) => `${name}.calibrated`)];
}

/** The values of these columns for the logits (T) of a row. */
export function predictedValues(
  logits: Float32Array,
  numeric: readonly boolean[],
  { calibrations = [] }: Pick<PredictFileOptions, "calibrations">,
): number[] {
  const own = Array.from(logits, (logit, task) => {
    return numeric[task] === true ? logit : Math.fround(probabilityOf(logit));
  });
  const others = calibrations.flatMap((one, task) => {
    return one === undefined ? [] : Math.fround(probabilityOf(logits[task] ?? Number.NaN, one));
  });
  return [...own, ...others];
}

/** Accumulates the mean prediction of each task. */
export class TaskMeans {
  readonly #tasks: readonly string[];
  readonly #sums: Float64Array;
  #samples = 0;

  constructor(tasks: readonly string[]) {
    this.#tasks = tasks;
    this.#sums = new Float64Array(tasks.length);
  }

  /** Adds a row of `predictedValues`, of which the tasks' raw predictions come first. */
  add(values: readonly number[]): void {
    this.#samples++;
    for (let task = 0; task < this.#sums.length; task++) {
      this.#sums[task] = (this.#sums[task] ?? 0) + (values[task] ?? Number.NaN);
    }
  }

  /** The counts and means of the report. */
  report(): Pick<PredictReport, "samples" | "means"> {
    const samples = this.#samples;
    const means = this.#tasks.map((task, i) => {
      return [task, samples === 0 ? Number.NaN : (this.#sums[i] ?? 0) / samples] as const;
    });
    return { samples, means: Object.fromEntries(means) };
  }
}

/** Why a valid row has no prediction; undefined: it has one. */
export function noNumberBecause(values: readonly number[]): string | undefined {
  if (values.every(Number.isFinite)) return undefined;
  return "the model predicts no finite number: values of its dense features are too large";
}

/**
 * A prediction as text; nine digits distinguish a float32 from its neighbours. Null: empty text.
 */
export function shownNumber(value: number | null | undefined): string {
  return value === null || value === undefined ? "" : String(Number(value.toPrecision(9)));
}

/** The columns of a file of predictions after `row`: kept columns, and predictions. */
export interface WrittenColumns {
  readonly kept: readonly string[];
  readonly names: readonly string[];
}

/** Writes rows of predictions, batch by batch. */
export interface ProbabilityWriter {
  /**
   * Appends a batch. `rows`: row numbers over all files, from 0; `kept`: texts by kept column;
   * `values`: numbers by prediction column. Null: missing.
   */
  write(
    rows: readonly number[],
    kept: readonly (readonly (string | null)[])[],
    values: readonly (readonly (number | null)[])[],
  ): void | Promise<void>;
  finish(): void | Promise<void>;
}
