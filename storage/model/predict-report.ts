// What predictions of a file are asked for, and what they come to, whatever the file's format.

import { areNumeric } from "../../src/data/targets.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { ProgressOptions } from "../disk/progress.ts";
import { type Calibrations, probabilityOf } from "./predictor.ts";

/** Options of `predictFile`. */
export interface PredictFileOptions extends ProgressOptions {
  /**
   * Name of the column of probabilities, or of values. @default "probability"; of labels that are
   * numbers, "prediction"
   */
  readonly column?: string | undefined;
  /**
   * Columns of the file to write beside the predictions, as they are, whether the model reads them
   * or not. Refused where the file is written again, line by line.
   */
  readonly keep?: readonly string[] | undefined;
  /**
   * Of each task, how the probabilities of columns beside the raw ones are calibrated
   * (`Model.calibrate`). @default as the model's own are, if they are (`loadModel`)
   */
  readonly calibrations?: Calibrations | undefined;
}

/** The result of `predictFile`. */
export interface PredictReport {
  /** Lines with a probability. */
  readonly samples: number;
  /**
   * Lines that training would have left out, and those of which the model predicts no finite
   * number: their probability is empty.
   */
  readonly bad: number;
  /** The first bad line or row of the file `file`, from 1, and why it is bad. */
  readonly firstBad:
    | { readonly file: string; readonly line: number; readonly reason: string }
    | undefined;
  /** By task, the mean of its probabilities or values; NaN without a sample. */
  readonly means: Readonly<Record<string, number>>;
  readonly file: string;
  /** Bytes of the file. */
  readonly bytes: number;
}

/** Where all labels are numbers, what is predicted is no probability. */
export function usualColumn({ data }: Pick<JobSpec, "data">): string {
  return areNumeric(data).includes(false) ? "probability" : "prediction";
}

/** The columns of the probabilities: one, or one for each of several tasks. */
export function addedColumns(tasks: readonly string[], column: string): string[] {
  return tasks.length === 1 ? [column] : tasks.map((task) => `${column}.${task}`);
}

/** The columns of predictions: those of all tasks, then what calibration makes of them. */
export function predictedColumns(
  tasks: readonly string[],
  column: string,
  { calibrations = [] }: Pick<PredictFileOptions, "calibrations">,
): string[] {
  const own = addedColumns(tasks, column);
  const others = own.filter((_, task) => calibrations[task] !== undefined);
  return [...own, ...others.map((name) => `${name}.calibrated`)];
}

/** The values of these columns, of the logits (T) of a row. */
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

/** Sums the predictions of each task. */
export class TaskMeans {
  readonly #tasks: readonly string[];
  readonly #sums: Float64Array;
  #samples = 0;

  constructor(tasks: readonly string[]) {
    this.#tasks = tasks;
    this.#sums = new Float64Array(tasks.length);
  }

  /** `values`: those of the tasks come first. */
  add(values: readonly number[]): void {
    this.#samples++;
    for (let task = 0; task < this.#sums.length; task++) {
      this.#sums[task] = (this.#sums[task] ?? 0) + (values[task] ?? Number.NaN);
    }
  }

  /** What a report has of it. */
  report(): Pick<PredictReport, "samples" | "means"> {
    const samples = this.#samples;
    const means = this.#tasks.map((task, i) => {
      return [task, samples === 0 ? Number.NaN : (this.#sums[i] ?? 0) / samples] as const;
    });
    return { samples, means: Object.fromEntries(means) };
  }
}

/** Why a row without faults has no prediction; undefined: it has one. */
export function noNumberBecause(values: readonly number[]): string | undefined {
  if (values.every(Number.isFinite)) return undefined;
  return "the model predicts no finite number: values of its dense features are too large";
}

/** A prediction as text: nine digits distinguish a float32 from its neighbours. Null: nothing. */
export function shownNumber(value: number | null | undefined): string {
  return value === null || value === undefined ? "" : String(Number(value.toPrecision(9)));
}

/** The columns of a file of predictions, behind `row`. */
export interface WrittenColumns {
  readonly kept: readonly string[];
  readonly names: readonly string[];
}

/** Writes rows of probabilities, batch after batch. */
export interface ProbabilityWriter {
  /**
   * Places of the rows in the file, from 0; of each kept column the texts, and of each column of
   * predictions the numbers. Null: there is none.
   */
  write(
    rows: readonly number[],
    kept: readonly (readonly (string | null)[])[],
    values: readonly (readonly (number | null)[])[],
  ): void | Promise<void>;
  finish(): void | Promise<void>;
}
