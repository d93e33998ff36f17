// What predictions of a file are asked for, and what they come to, whatever the file's format.

import { areNumeric } from "../../src/data/targets.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { ProgressOptions } from "../disk/progress.ts";

/** Options of `predictFile`. */
export interface PredictFileOptions extends ProgressOptions {
  /**
   * Name of the column of probabilities, or of values. @default "probability"; of labels that are
   * numbers, "prediction"
   */
  readonly column?: string | undefined;
}

/** The result of `predictFile`. */
export interface PredictReport {
  /** Lines with a probability. */
  readonly samples: number;
  /** Lines that training would have left out: their probability is empty. */
  readonly bad: number;
  /** The first bad line or row, from 1, and why it is bad. */
  readonly firstBad: { readonly line: number; readonly reason: string } | undefined;
  /** Mean of the probabilities, or values, of the first task; NaN without a sample. */
  readonly mean: number;
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

/** Writes rows of probabilities, batch after batch. */
export interface ProbabilityWriter {
  /** `tasks`: the probabilities of each task; null: there is none. */
  write(firstRow: number, tasks: readonly (readonly (number | null)[])[]): void | Promise<void>;
  finish(): void | Promise<void>;
}
