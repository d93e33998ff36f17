// The learning curve of a run, read from its newest checkpoint: the training loss at each cut, and
// the metrics of each evaluation.

import { z } from "zod";
import { recordedContents } from "../../src/data/contents.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { stepBefore } from "../../src/job/warm-start.ts";
import type { ThresholdMetrics } from "../../src/training/loop/metrics.ts";
import { type Schedule, scheduleOf } from "../../src/training/loop/schedule.ts";
import { openCheckpoint } from "./open-checkpoint.ts";

/** Metrics of an evaluation or a test. Undefined where nothing was evaluated. */
export interface HistoryFigures {
  readonly logLoss: number | undefined;
  readonly auc: number | undefined;
  readonly normalizedEntropy: number | undefined;
  /** Mean prediction over the mean label; left out for older runs, which do not record it. */
  readonly calibration?: number | undefined;
  /** AUC averaged over groups; left out where samples have no groups. */
  readonly gauc?: number | undefined;
  /** Regression metrics, also below; left out unless the label is a number. */
  readonly mse?: number | undefined;
  readonly rmse?: number | undefined;
  readonly mae?: number | undefined;
  readonly r2?: number | undefined;
  /** At the job's thresholds; left out where it names none. */
  readonly thresholds?: readonly ThresholdMetrics[] | undefined;
  /** With several tasks: metrics by task name; the fields above are the first task's. */
  readonly tasks?: Readonly<Record<string, HistoryFigures>> | undefined;
}

/** One point of a learning curve. Metrics are undefined where nothing was evaluated. */
export interface HistoryPoint extends HistoryFigures {
  /** Epochs trained so far, as a fraction; undefined for older runs, which do not record it. */
  readonly epoch: number | undefined;
  /** Steps trained so far. */
  readonly step: number;
  /** Samples trained so far, repeated in each epoch; undefined for older runs. */
  readonly samples: number | undefined;
  /** Mean training loss since the previous point. */
  readonly loss: number;
  /** Test metrics of this step's model, after the run has ended; left out without a test. */
  readonly test?: HistoryTest;
}

/** Metrics of a test. */
export type HistoryTest = HistoryFigures;

/** A metric in a manifest; null stands for NaN, which JSON cannot represent. */
const figure = z
  .number()
  .nullable()
  .transform((value) => value ?? Number.NaN);
const ofTask = z.object({
  logLoss: figure,
  auc: figure,
  normalizedEntropy: figure,
  calibration: figure.optional(),
  gauc: figure.optional(),
  mse: figure.optional(),
  rmse: figure.optional(),
  mae: figure.optional(),
  r2: figure.optional(),
  thresholds: z
    .array(z.object({ threshold: z.number(), precision: figure, recall: figure, f1: figure }))
    .optional(),
});
const figures = ofTask.extend({ tasks: z.record(z.string(), ofTask).optional() });
const tested = z.object({ step: z.number(), metrics: figures });
const historySchema = z.object({
  history: z.array(
    z.object({
      step: z.number(),
      trainLoss: figure,
      evaluation: figures.optional(),
    }),
  ),
  earlyStopping: z.object({ stopped: z.boolean() }).optional(),
  test: tested.optional(),
  bestTest: tested.optional(),
});

/**
 * The learning curve of the run in a checkpoint directory, from its first point to the newest
 * checkpoint; of a very long run, the newest thousand points. @throws CheckpointMissingError,
 * CheckpointCorruptError
 */
export function runHistory(directory: string): HistoryPoint[] {
  const { job, manifest } = openCheckpoint(directory, "last");
  const metrics = historySchema.catch({ history: [] }).parse(manifest.metrics);
  const { history, earlyStopping } = metrics;
  const schedule = scheduleIn(job, manifest.metrics);
  // The record of a run that was extended by more epochs still has the first job's step count.
  const isTested = metrics.test?.step === manifest.cut;
  const isEnded = isTested || earlyStopping?.stopped === true || manifest.cut === schedule?.steps;
  const tests = isEnded ? [metrics.test, metrics.bestTest] : [];
  return history.map(({ step, trainLoss, evaluation = notEvaluated }) => {
    const test = tests.find((one) => one?.step === step)?.metrics;
    const point = { ...positionAt(step, schedule), loss: trainLoss, ...evaluation };
    return test === undefined ? point : { ...point, test };
  });
}

const notEvaluated: HistoryFigures = {
  logLoss: undefined,
  auc: undefined,
  normalizedEntropy: undefined,
};

/** A column of the curve as CSV. */
interface Column<Row> {
  readonly name: string;
  readonly of: (row: Row) => number | undefined;
}

/** The curve as CSV with a header; undefined values and NaN are empty fields. */
export function historyCsv(points: readonly HistoryPoint[]): string {
  const tests = points.flatMap(({ test }) => test ?? []);
  const found = figureColumns([...points, ...tests]);
  const places = (["epoch", "step", "samples", "loss"] as const).map((name) => ({
    name,
    of: (point: HistoryPoint) => point[name],
  }));
  const ofTests = found.map(({ name, of }) => ({
    name: `test.${name}`,
    of: ({ test }: HistoryPoint) => of(test),
  }));
  const columns: Column<HistoryPoint>[] = [
    ...[...places, ...found],
    ...(tests.length > 0 ? ofTests : []),
  ];
  const cell = (value: number | undefined) =>
    value === undefined || Number.isNaN(value) ? "" : String(value);
  const lines = points.map((point) => columns.map(({ of }) => cell(of(point))));
  const quoted = (name: string) => (/[",]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name);
  const head = columns.map(({ name }) => quoted(name));
  return `${[head, ...lines].map((line) => line.join(",")).join("\n")}\n`;
}

const classNames = ["logLoss", "auc", "normalizedEntropy"] as const;
const numberNames = ["mse", "rmse", "mae", "r2"] as const;

/** The metric columns: those of the label's kind, then at thresholds, then of each task. */
function figureColumns(all: readonly HistoryFigures[]): Column<HistoryFigures | undefined>[] {
  const isNumber = all.some(({ rmse }) => rmse !== undefined);
  const grouped = all.some(({ gauc }) => gauc !== undefined) ? (["gauc"] as const) : [];
  const names = isNumber ? numberNames : [...classNames, ...grouped];
  const own = names.map((name) => ({ name, of: (found?: HistoryFigures) => found?.[name] }));
  const cuts = all.flatMap(({ thresholds = [] }) => thresholds.map(({ threshold }) => threshold));
  const atThresholds = [...new Set(cuts)].flatMap((threshold) =>
    (["precision", "recall", "f1"] as const).map((name) => ({
      name: `${name}@${threshold}`,
      of: (found?: HistoryFigures) =>
        found?.thresholds?.find((at) => at.threshold === threshold)?.[name],
    })),
  );
  const tasks = [...new Set(all.flatMap(({ tasks = {} }) => Object.keys(tasks)))];
  const ofTasks = tasks.flatMap((task) => {
    const columns = figureColumns(all.flatMap((found) => found.tasks?.[task] ?? []));
    return columns.map(({ name, of }) => ({
      name: `${task}.${name}`,
      of: (found?: HistoryFigures) => of(found?.tasks?.[task]),
    }));
  });
  return [...own, ...atThresholds, ...ofTasks];
}

/** The schedule of the run's steps; undefined where the manifest does not record its data. */
function scheduleIn(job: JobSpec, metrics: unknown): Schedule | undefined {
  const { data, evaluation } = job;
  const { training, trained } = recordedContents(metrics) ?? {};
  if (training === undefined) return undefined;
  const all = training.samples;
  const isSplit = evaluation !== undefined && evaluation.data === undefined;
  const samples = trained ?? (isSplit ? all - Math.round(all * evaluation.fraction) : all);
  const { batchSize, passes } = data;
  return scheduleOf({ samples, batchSize, passes, begin: stepBefore(job) });
}

function positionAt(step: number, schedule: Schedule | undefined) {
  if (schedule === undefined) return { epoch: undefined, step, samples: undefined };
  const { stepsPerEpoch, batchSize, begin } = schedule;
  const own = step - begin;
  const inEpoch = (own % stepsPerEpoch) * batchSize;
  const samples = Math.floor(own / stepsPerEpoch) * schedule.samples + inEpoch;
  return { epoch: samples / schedule.samples, step, samples };
}
