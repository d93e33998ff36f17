// The metrics of a run, which are part of every cut: pure functions over plain JSON. A restored run
// therefore continues with the same early-stopping patience, best evaluation and history
// (docs/architecture.md, "How law 4 is kept").

import type { RunContents } from "../../../src/data/contents.ts";
import { areNumeric, targetsOf } from "../../../src/data/targets.ts";
import { StoreFailedError } from "../../../src/errors/errors.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { type LossScale, lossScaleOf, unknownScale } from "../../../src/model/loss.ts";
import { graphOf } from "../../../src/model/model.ts";
import {
  type BestEvaluation,
  bestOf,
  type Watched,
} from "../../../src/training/loop/best-evaluation.ts";
import {
  type EarlyStoppingState,
  initialEarlyStopping,
  observe,
} from "../../../src/training/loop/early-stopping.ts";
import type { Metrics } from "../../../src/training/loop/metrics.ts";
import { noPlateau, type PlateauState, watchPlateau } from "../../../src/training/loop/plateau.ts";
import type { RunTimes } from "../../../src/training/meters/step-meter.ts";
import type { TableTiers } from "../../../src/training/planning/tier-advice.ts";
import type { TableIdCounts } from "../../../src/training/step/dynamic-ids.ts";
import type { Lost } from "../../../storage/checkpoints/partial-checkpoint.ts";
import type {
  CheckpointStore,
  Manifest,
} from "../../../storage/checkpoints/store/checkpoint-store.ts";
import type { DataPlan } from "../../threads/generation-spec.ts";
import { notReproducible, withSamples } from "./asynchronous-metrics.ts";
import { type PipelineWatch, speedBetween } from "./pipeline-watch.ts";
import type { RunRecord } from "./run-record.ts";
import type {
  Asynchronous,
  CutRecord,
  DynamicTable,
  RepairedTable,
  RunResult,
  Staleness,
  Tested,
} from "./run-result.ts";
import { testWarnings, warningsOf } from "./warnings.ts";

export interface RunMetrics {
  readonly history: readonly CutRecord[];
  readonly earlyStopping: EarlyStoppingState;
  /**
   * Factors that plateaus have applied to the learning rates; undefined: `reduceOnPlateau` is off.
   */
  readonly plateau?: PlateauState;
  /** Sum and number of the losses since the last point of the history. */
  readonly lossSum: number;
  readonly lossSteps: number;
  /** Per table, ids that were clamped or hashed in the steps up to the cut; `[]`: none yet. */
  readonly repairedIds: readonly number[];
  /** Per table, rows that stale steps read with an update pending; `[]`: none yet. */
  readonly staleRows: readonly number[];
  /**
   * Per table, dynamic ids admitted, evicted and dropped in the steps up to the cut; `[]`: none
   * yet.
   */
  readonly dynamicIds: TableIdCounts;
  /** First steps of a window, which read stale tables fresh. */
  readonly freshSteps: number;
  /** The best evaluation; undefined before the first one, and in older checkpoints. */
  readonly best?: BestEvaluation;
  /** The contents of the run's data; undefined before preparation, and in older checkpoints. */
  readonly contents?: RunContents;
  /** The test of the last model and of the best model; undefined where there was none. */
  readonly test?: Tested;
  readonly bestTest?: Tested;
  /** The step of the newest test. */
  readonly testedStep?: number;
  readonly evaluatedStep: number | null;
  readonly savedStep: number | null;
  /** Cost of partial recoveries; undefined where there was none. */
  readonly lost?: Lost;
  /** Counts of asynchronous training; undefined in other modes. */
  readonly asynchronous?: Asynchronous;
  /** Whether the cut at `evaluatedStep` is the best so far, and no step has followed it. */
  readonly isBest: boolean;
}

/** Most incidents in a result, newest kept. */
const incidentsMax = 100;

/** Most points of a history in a checkpoint, newest kept. */
export const historyMax = 1000;

const initial: RunMetrics = {
  history: [],
  earlyStopping: initialEarlyStopping,
  lossSum: 0,
  lossSteps: 0,
  repairedIds: [],
  staleRows: [],
  dynamicIds: { admitted: [], evicted: [], dropped: [] },
  freshSteps: 0,
  evaluatedStep: null,
  savedStep: null,
  isBest: false,
};

/** The metrics in a checkpoint's manifest; without a manifest, those of a new run. */
export function restoredMetrics(manifest: Manifest | undefined): RunMetrics {
  if (manifest === undefined) return initial;
  return { ...initial, ...(manifest.metrics as Partial<RunMetrics>) };
}

export function afterWindow(
  metrics: RunMetrics,
  window: {
    /**
     * Loss sum since the last point of the history: one running sum from left to right, so that its
     * rounding does not depend on the number of windows.
     */
    readonly lossSum: number;
    readonly steps: number;
    readonly repairedIds: readonly number[];
    readonly staleRows: readonly number[];
    readonly dynamicIds: TableIdCounts;
    readonly samples?: number | undefined;
  },
): RunMetrics {
  if (window.steps === 0) return metrics;
  const { samples } = window;
  return {
    ...metrics,
    ...(samples !== undefined && { asynchronous: withSamples(metrics.asynchronous, samples) }),
    lossSum: window.lossSum,
    lossSteps: metrics.lossSteps + window.steps,
    repairedIds: addCounts(metrics.repairedIds, window.repairedIds),
    staleRows: addCounts(metrics.staleRows, window.staleRows),
    dynamicIds: addIdCounts(metrics.dynamicIds, window.dynamicIds),
    freshSteps: metrics.freshSteps + 1,
    isBest: false,
  };
}

/** Element-wise sum; missing elements count as 0. */
export function addCounts(a: readonly number[], b: readonly number[]): readonly number[] {
  const [longer, shorter] = a.length < b.length ? [b, a] : [a, b];
  return longer.map((count, i) => count + (shorter[i] ?? 0));
}

/** `addCounts` for each count of dynamic ids. */
export function addIdCounts(a: TableIdCounts, b: TableIdCounts): TableIdCounts {
  return {
    admitted: addCounts(a.admitted, b.admitted),
    evicted: addCounts(a.evicted, b.evicted),
    dropped: addCounts(a.dropped, b.dropped),
  };
}

/** Counts of dynamic ids by table; undefined where no table has dynamic ids. */
export function dynamicTables(job: JobSpec, metrics: RunMetrics): DynamicTable[] | undefined {
  const { admitted, evicted, dropped } = metrics.dynamicIds;
  const tables = job.model.tables.flatMap(({ name, rows, dynamic }, i) => {
    if (dynamic === undefined) return [];
    const counts = {
      admitted: admitted[i] ?? 0,
      evicted: evicted[i] ?? 0,
      dropped: dropped[i] ?? 0,
    };
    return { table: name, ...counts, rows, rowsUsed: counts.admitted - counts.evicted };
  });
  return tables.length === 0 ? undefined : tables;
}

/** The tables with repaired ids, and their numbers of repaired ids. */
export function repairedTables(job: JobSpec, { repairedIds }: RunMetrics): RepairedTable[] {
  return job.model.tables
    .map(({ name }, i) => ({ table: name, ids: repairedIds[i] ?? 0 }))
    .filter(({ ids }) => ids > 0);
}

/** Stale reads by table; undefined where no table is stale. */
export function stalenessOf(job: JobSpec, metrics: RunMetrics): Staleness | undefined {
  const tables = job.model.tables.flatMap(({ name, staleness }, i) => {
    return staleness === 0 ? [] : [{ table: name, rows: metrics.staleRows[i] ?? 0 }];
  });
  return tables.length === 0 ? undefined : { freshSteps: metrics.freshSteps, tables };
}

export function withEvaluation(
  { metrics, job, step }: { metrics: RunMetrics; job: JobSpec; step: number },
  evaluation: Metrics,
): { readonly metrics: RunMetrics } {
  const options = job.evaluation?.earlyStopping;
  const { state, improved } =
    options === undefined
      ? { state: metrics.earlyStopping, improved: false }
      : observe(metrics.earlyStopping, options, step, evaluation);
  const point = pointOf(metrics, step, evaluation);
  const keepBest = job.evaluation?.keepBest;
  const before = bestBefore(metrics, job);
  const best = bestOf(before.watched, [...(before.best ? [before.best] : []), point]);
  const isBest = options === undefined ? keepBest !== undefined && best?.step === step : improved;
  const found = best === undefined ? {} : { best };
  const { reduceOnPlateau } = job.evaluation ?? {};
  const plateau = reduceOnPlateau && {
    plateau: watchPlateau(metrics.plateau ?? noPlateau, reduceOnPlateau, evaluation),
  };
  const own = { earlyStopping: state, ...plateau, ...found, evaluatedStep: step, isBest };
  return { metrics: { ...withPoint(metrics, point), ...own } };
}

/** Adds a test of the model at `step`. A new best model drops the test of the best before. */
export function withTest(
  { metrics, step }: { metrics: RunMetrics; step: number },
  found: Metrics,
): { readonly metrics: RunMetrics } {
  const test = { step, metrics: found };
  const best = metrics.isBest ? { bestTest: test } : {};
  return { metrics: { ...metrics, test, ...best, testedStep: step } };
}

/**
 * The best evaluation so far. Where the best is by another metric than the job's, or missing (older
 * checkpoints), it is found anew in the history.
 */
function bestBefore({ best, history }: RunMetrics, job: JobSpec) {
  const watched = watchedOf(job);
  const isOfIt = best?.metric === watched.metric && best.task === watched.task;
  return { watched, best: isOfIt ? best : bestOf(watched, history) };
}

/** The metric by which the evaluations of a job are compared. */
function watchedOf({ evaluation, data }: JobSpec): Watched {
  const usual = areNumeric(data)[0] === true ? "rmse" : "auc";
  return evaluation?.earlyStopping ?? { metric: evaluation?.keepBest ?? usual };
}

/** The last and the best evaluation of a run; undefined where there was none. */
function evaluationsOf(
  metrics: RunMetrics,
  job: JobSpec,
  manifests: readonly Manifest[],
): RunResult["evaluations"] {
  const last = metrics.history.findLast(({ evaluation }) => evaluation !== undefined);
  if (last?.evaluation === undefined) return undefined;
  const { watched, best } = bestBefore(metrics, job);
  const { metric, task } = watched;
  const { step, evaluation } = best ?? { step: last.step, evaluation: last.evaluation };
  const kept = manifests.find(({ cut, best: isBest }) => cut === step && isBest);
  return {
    last: { step: last.step, evaluation: last.evaluation },
    best: { metric, ...(task !== undefined && { task }), step, evaluation, manifest: kept?.sha256 },
  };
}

/**
 * The metrics that the checkpoint at `step` stores, with a point of the history for it. Called
 * before the checkpoint is written, so that a restore finds them.
 */
export function afterCheckpoint(metrics: RunMetrics, step: number): RunMetrics {
  const has = metrics.history.at(-1)?.step === step;
  const next = has ? metrics : withPoint(metrics, pointOf(metrics, step, undefined));
  return { ...next, savedStep: step };
}

/**
 * The result of a run, from the checkpoint store, which holds the truth about training (law 6).
 *
 * @throws StoreFailedError where the last checkpoint is missing: the steps since the previous
 *   checkpoint have to be trained again
 */
export function resultOf(context: {
  readonly store: { readonly directory: string };
  /** The checkpoints in the store. */
  readonly stored: ReturnType<CheckpointStore["list"]> | undefined;
  /** Hash of the last checkpoint that was committed, or restored. */
  readonly manifest: string | undefined;
  readonly job: JobSpec;
  readonly scope: { readonly run: string; readonly generation: number };
  readonly metrics: RunMetrics;
  readonly isCancelled: boolean;
  readonly plan: DataPlan | undefined;
  readonly record: RunRecord;
  /** The checkpoint that the generation started from, and the time when it started. */
  readonly latest: { readonly cut: number } | undefined;
  readonly startedAtMs: number;
  readonly watch: PipelineWatch;
  readonly times: RunTimes | undefined;
  readonly tiers: readonly TableTiers[] | undefined;
  readonly stores: RunResult["stores"];
  readonly disk: RunResult["disk"];
  readonly placed: RunResult["plan"];
}): RunResult {
  const { store, job, scope, metrics, isCancelled, record, times, tiers, placed } = context;
  const { manifests = [], damaged = [] } = context.stored ?? {};
  const best = manifests.find((manifest) => manifest.best);
  const last = manifests[0];
  if (last?.sha256 !== context.manifest) {
    const path = damaged[0]?.path ?? store.directory;
    throw new StoreFailedError("find the last committed checkpoint in", path);
  }
  const manifest = job.evaluation?.earlyStopping === undefined ? last : (best ?? last);
  const tests = [metrics.test, metrics.bestTest].filter((test) => test !== undefined);
  const test = isCancelled ? undefined : tests.find(({ step }) => step === manifest?.cut);
  const bestTest = isCancelled ? undefined : tests.find(({ step }) => step === best?.cut);
  const evaluation = metrics.history.findLast(
    (point) => point.step === manifest?.cut && point.evaluation !== undefined,
  )?.evaluation;
  const status = isCancelled
    ? "cancelled"
    : metrics.earlyStopping.stopped
      ? "stopped-early"
      : "finished";
  const ofData = context.plan?.warnings ?? [];
  const alreadyFinished = !isCancelled && record.progress === undefined;
  const start = { step: context.latest?.cut ?? 0, atMs: context.startedAtMs };
  const speed = speedBetween(start, context.watch.speedSamples.at(-1) ?? start);
  return {
    run: scope.run,
    status,
    alreadyFinished,
    step: manifest?.cut ?? 0,
    digest: `sha256:${manifest?.modelDigest ?? ""}`,
    auc: evaluation?.auc,
    logLoss: evaluation?.logLoss,
    normalizedEntropy: evaluation?.normalizedEntropy,
    calibration: evaluation?.calibration,
    gauc: evaluation?.gauc,
    mse: evaluation?.mse,
    rmse: evaluation?.rmse,
    mae: evaluation?.mae,
    r2: evaluation?.r2,
    thresholds: evaluation?.thresholds,
    tasks: evaluation?.tasks,
    evaluations: evaluationsOf(metrics, job, manifests),
    test,
    bestTest: bestTest?.step === test?.step ? undefined : bestTest,
    history: metrics.history,
    repairedIds: repairedTables(job, metrics),
    staleness: stalenessOf(job, metrics),
    dynamicIds: dynamicTables(job, metrics),
    lost: metrics.lost,
    asynchronous: metrics.asynchronous,
    directory: store.directory,
    manifest: manifest?.sha256 ?? "",
    generation: scope.generation,
    samplesPerSecond: job.data.batchSize * speed,
    times,
    stores: context.stores,
    disk: context.disk,
    tiers,
    plan: alreadyFinished ? undefined : placed,
    arithmetic: manifest?.arithmetic ?? "",
    warnings: [
      ...(job.mode === "async" ? [notReproducible] : []),
      ...warningsOf(ofData, metrics, evaluation, () => scaleOf(job)),
      ...(alreadyFinished ? unevaluated(job, metrics, store.directory) : []),
      ...(alreadyFinished ? untested(job, test, store.directory) : []),
      ...testWarnings(test?.metrics),
    ],
    incidents: record.incidents.all().slice(-incidentsMax),
  };
}

/** A warning where the job requests evaluations, but its run had already ended without any. */
function unevaluated({ evaluation }: JobSpec, { history }: RunMetrics, directory: string) {
  const isDone = history.some((point) => point.evaluation !== undefined);
  if (evaluation === undefined || isDone) return [];
  const message =
    `The run in ${directory} ended before \`evaluation\` was added to its job, so it has no ` +
    `metrics: \`osiris eval ${directory} --data FILE\` evaluates the model`;
  return [{ code: "NOT_EVALUATED", message }];
}

/** A warning where the job requests a test, but its run had already ended without one. */
function untested({ evaluation }: JobSpec, test: Tested | undefined, directory: string) {
  if (evaluation?.test === undefined || test !== undefined) return [];
  const message =
    `The run in ${directory} ended before \`evaluation.test\` was added to its job, so it has no ` +
    `test metrics: \`osiris eval ${directory} --test\` tests the model`;
  return [{ code: "NOT_TESTED", message }];
}

function pointOf(metrics: RunMetrics, step: number, evaluation: Metrics | undefined): CutRecord {
  const trainLoss = metrics.lossSteps === 0 ? 0 : metrics.lossSum / metrics.lossSteps;
  return evaluation === undefined ? { step, trainLoss } : { step, trainLoss, evaluation };
}

function withPoint(metrics: RunMetrics, point: CutRecord): RunMetrics {
  const history = [...metrics.history, point].slice(-historyMax);
  return { ...metrics, history, lossSum: 0, lossSteps: 0 };
}

/** The scale of the loss that a job trains on. */
function scaleOf({ data, model, loss }: JobSpec): LossScale {
  return targetsOf(data).hasSampleWeights ? unknownScale : lossScaleOf(graphOf(model), loss);
}
