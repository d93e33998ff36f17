// The learning curve of a run, as its newest checkpoint remembers it: the training loss at each
// cut, and what each evaluation found.

import { z } from "zod";
import { recordedContents } from "../../src/data/contents.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { stepBefore } from "../../src/job/warm-start.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import type { ThresholdMetrics } from "../../src/training/loop/metrics.ts";
import { type Schedule, scheduleOf } from "../../src/training/loop/schedule.ts";
import { openCheckpoint } from "./open-checkpoint.ts";

/** One point of a learning curve. Evaluation figures are undefined where nothing was evaluated. */
export interface HistoryPoint {
  /** Epochs that were trained, as a fraction; undefined: an older run does not tell. */
  readonly epoch: number | undefined;
  /** Steps that were trained. */
  readonly step: number;
  /** Samples that were trained, each epoch counted; undefined: an older run does not tell. */
  readonly samples: number | undefined;
  /** Mean training loss since the point before. */
  readonly loss: number;
  readonly logLoss: number | undefined;
  readonly auc: number | undefined;
  readonly normalizedEntropy: number | undefined;
  /** Left out where samples have no groups. */
  readonly gauc?: number | undefined;
  /** At the job's thresholds; left out where it names none. */
  readonly thresholds?: readonly ThresholdMetrics[] | undefined;
  /** The test of the model of this step, once the run has ended; left out where there is none. */
  readonly test?: HistoryTest;
}

/** What a test found. */
export interface HistoryTest {
  readonly logLoss: number;
  readonly auc: number;
  readonly normalizedEntropy: number;
  readonly gauc?: number | undefined;
  readonly thresholds?: readonly ThresholdMetrics[] | undefined;
}

/** The columns of the curve as CSV. */
const columns = [
  "epoch",
  "step",
  "samples",
  "loss",
  "logLoss",
  "auc",
  "normalizedEntropy",
] as const satisfies readonly (keyof HistoryPoint)[];
/** Those of the test, where there is one. */
const testColumns = ["logLoss", "auc", "normalizedEntropy"] as const;

/** What a manifest has of it; JSON has no number for NaN. */
const figure = z.number().nullable();
const figures = z.object({
  logLoss: figure,
  auc: figure,
  normalizedEntropy: figure,
  gauc: figure.optional(),
  thresholds: z
    .array(z.object({ threshold: z.number(), precision: figure, recall: figure, f1: figure }))
    .optional(),
});
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
export function runHistory(
  directory: string,
  { disk = realDisk }: { readonly disk?: Disk } = {},
): HistoryPoint[] {
  const { job, manifest } = openCheckpoint(directory, "last", disk);
  const metrics = historySchema.catch({ history: [] }).parse(manifest.metrics);
  const { history, earlyStopping } = metrics;
  const schedule = scheduleIn(job, manifest.metrics);
  const isEnded = earlyStopping?.stopped === true || manifest.cut === schedule?.steps;
  const tests = isEnded ? [metrics.test, metrics.bestTest] : [];
  return history.map(({ step, trainLoss, evaluation }) => ({
    ...positionAt(step, schedule),
    loss: trainLoss ?? Number.NaN,
    logLoss: ofNull(evaluation?.logLoss),
    auc: ofNull(evaluation?.auc),
    normalizedEntropy: ofNull(evaluation?.normalizedEntropy),
    ...gaucOf(evaluation),
    ...thresholdsOf(evaluation),
    ...testOf(tests.find((test) => test?.step === step)?.metrics),
  }));
}

const ofNull = (value: number | null | undefined) => (value === null ? Number.NaN : value);

/** The GAUC, where there is one. */
function gaucOf(found: z.output<typeof figures> | undefined): Pick<HistoryPoint, "gauc"> {
  return found?.gauc === undefined ? {} : { gauc: found.gauc ?? Number.NaN };
}

/** What there is at thresholds. */
function thresholdsOf(
  found: z.output<typeof figures> | undefined,
): Pick<HistoryPoint, "thresholds"> {
  if (found?.thresholds === undefined) return {};
  const thresholds = found.thresholds.map(({ threshold, precision, recall, f1 }) => ({
    threshold,
    precision: precision ?? Number.NaN,
    recall: recall ?? Number.NaN,
    f1: f1 ?? Number.NaN,
  }));
  return { thresholds };
}

function testOf(found: z.output<typeof figures> | undefined): Pick<HistoryPoint, "test"> {
  if (found === undefined) return {};
  const { logLoss, auc, normalizedEntropy } = found;
  const ofNone = (value: number | null) => value ?? Number.NaN;
  return {
    test: {
      logLoss: ofNone(logLoss),
      auc: ofNone(auc),
      normalizedEntropy: ofNone(normalizedEntropy),
      ...gaucOf(found),
      ...thresholdsOf(found),
    },
  };
}

/** The curve as CSV, with a header; what is unknown or undefined is an empty field. */
export function historyCsv(points: readonly HistoryPoint[]): string {
  const cell = (value: number | undefined) =>
    value === undefined || Number.isNaN(value) ? "" : String(value);
  const isTested = points.some(({ test }) => test !== undefined);
  const isGrouped = points.some(({ gauc, test }) => (gauc ?? test?.gauc) !== undefined);
  const grouped = isGrouped ? (["gauc"] as const) : [];
  const tests = isTested ? [...testColumns, ...grouped] : [];
  const cuts = points.flatMap(({ thresholds }) => thresholds?.map((at) => at.threshold) ?? []);
  const atThresholds = [...new Set(cuts)].flatMap((threshold) =>
    (["precision", "recall", "f1"] as const).map((name) => ({ threshold, name })),
  );
  const cellsAt = (found: Pick<HistoryPoint, "thresholds"> | undefined) =>
    atThresholds.map(({ threshold, name }) =>
      cell(found?.thresholds?.find((at) => at.threshold === threshold)?.[name]),
    );
  const named = atThresholds.map(({ threshold, name }) => `${name}@${threshold}`);
  const head = [
    ...[...columns, ...grouped, ...named],
    ...[...tests, ...(isTested ? named : [])].map((name) => `test.${name}`),
  ];
  const lines = points.map((point) => [
    ...[...columns, ...grouped].map((name) => cell(point[name])),
    ...cellsAt(point),
    ...tests.map((name) => cell(point.test?.[name])),
    ...(isTested ? cellsAt(point.test) : []),
  ]);
  return `${[head, ...lines].map((line) => line.join(",")).join("\n")}\n`;
}

/** The steps of the run's data; undefined where the manifest does not name its data. */
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
