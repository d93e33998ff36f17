// Pipeline watch of a generation: breaks down its step time by the meters of its hosts, and detects
// that the pipeline has become serial. Plain data and pure functions.

import type { JobSpec } from "../../../src/job/job.ts";
import {
  type HostMeters,
  type RunTimes,
  type StepTimes,
  timesBetween,
} from "../../../src/training/meters/step-meter.ts";

type Samples = ReadonlyMap<number, HostMeters>;

export interface PipelineWatch {
  /**
   * By host: the newest sample, the sample at the last `run.progress`, and the sample at the last
   * assessment.
   */
  readonly latest: Samples;
  readonly published: Samples;
  readonly assessed: Samples;
  /** By host: the first sample after `warmUpMs` of steps. */
  readonly warm: Samples;
  /** Hosts whose pipeline was serial at the last assessment. */
  readonly serial: ReadonlySet<number>;
  /** Steps and times of the `run.progress` events of the last `speedWindowMs`. */
  readonly speedSamples: readonly SpeedSample[];
}

/** Completed steps at a time. */
export interface SpeedSample {
  readonly step: number;
  readonly atMs: number;
}

/** The watch of a new generation: no sample yet. */
export const emptyWatch: PipelineWatch = {
  latest: new Map(),
  published: new Map(),
  assessed: new Map(),
  warm: new Map(),
  serial: new Set(),
  speedSamples: [],
};

/** Warm step times are reported once the warm steps took this long. */
const warmedMs = 1000;
/** Step time of a host between two assessments: over less, one short pause would count. */
const assessedMs = 3000;
/** Share of waiting for readers above which reading, not training, bounds the step time. */
const batchShareMax = 0.5;
/** Fewest steps without a ready batch that count as a pattern. */
const assessedStepsMin = 8;
/** Most readers that a job may have. */
const readersMax = 16;

/**
 * Length of the warm-up, in step time: V8 compiles hot functions while steps run, in the CPU time
 * that the devices leave, so step times fall until then.
 */
export const warmUpMs = 3000;

export function withSample(watch: PipelineWatch, host: number, sample: HostMeters): PipelineWatch {
  const latest = new Map(watch.latest).set(host, sample);
  if (watch.warm.has(host)) return { ...watch, latest };
  const times = timesBetween([{ from: undefined, to: sample }]);
  const isWarm = times !== undefined && times.steps * times.stepMs >= warmUpMs;
  return isWarm
    ? { ...watch, latest, warm: new Map(watch.warm).set(host, sample) }
    : { ...watch, latest };
}

/** Starts the next interval of `run.progress` at the present samples. */
export function afterPublishing(watch: PipelineWatch, sample: SpeedSample): PipelineWatch {
  return {
    ...watch,
    published: watch.latest,
    speedSamples: [...recentSamples(watch, sample), sample],
  };
}

/** Speed is averaged over the last 10 s, so that one checkpoint does not show as a dip. */
const speedWindowMs = 10_000;

/** Samples in the `speedWindowMs` before `atMs`; at least the last one, whatever its age. */
function recentSamples(
  { speedSamples }: PipelineWatch,
  { atMs }: SpeedSample,
): readonly SpeedSample[] {
  const first = speedSamples.findIndex((one) => one.atMs >= atMs - speedWindowMs);
  return first < 0 ? speedSamples.slice(-1) : speedSamples.slice(first);
}

/** Steps per second over the last `speedWindowMs`; since `start`, where there is no sample yet. */
export function recentSpeed(watch: PipelineWatch, start: SpeedSample, now: SpeedSample): number {
  return speedBetween(recentSamples(watch, now)[0] ?? start, now);
}

/** Steps per second between two samples; 0 if no time passed between them. */
export function speedBetween(from: SpeedSample, to: SpeedSample): number {
  return to.atMs > from.atMs ? (1000 * (to.step - from.step)) / (to.atMs - from.atMs) : 0;
}

/** Step times of all hosts since the last `run.progress`. */
export function timesSincePublished({ latest, published }: PipelineWatch): StepTimes | undefined {
  return timesBetween([...latest].map(([host, to]) => ({ from: published.get(host), to })));
}

/**
 * Step times of the whole generation, over all hosts; and those after the warm-up, where they took
 * at least `warmedMs`.
 */
export function timesOfAll({ latest, warm }: PipelineWatch): RunTimes | undefined {
  const times = timesBetween([...latest.values()].map((to) => ({ from: undefined, to })));
  if (times === undefined) return undefined;
  const isWarm = [...latest.keys()].every((host) => warm.has(host));
  const since = isWarm
    ? timesBetween([...latest].map(([host, to]) => ({ from: warm.get(host), to })))
    : undefined;
  if (since === undefined || since.steps * since.stepMs < warmedMs) return times;
  const stepMs = since.stepMs * (1 - since.shares.checkpoint);
  return { ...times, warm: { steps: since.steps, stepMs } };
}

/** The part of a job that decides whether its pipeline is serial. */
interface PipelineJob extends Pick<JobSpec, "readers"> {
  readonly pipeline: Pick<JobSpec["pipeline"], "depth">;
}

/** Why a run is slower than necessary: its pipeline is serial. */
export interface SerialAlert {
  readonly message: string;
  readonly times: StepTimes;
}

/**
 * Assesses the pipeline of a host once it has stepped for `assessedMs` since the last assessment.
 * An alert is raised when the pipeline becomes serial, and again only after it has recovered.
 */
export function assess(
  watch: PipelineWatch,
  host: number,
  job: PipelineJob,
): { readonly watch: PipelineWatch; readonly alert?: SerialAlert } {
  const to = watch.latest.get(host);
  if (to === undefined) return { watch };
  const times = timesBetween([{ from: watch.assessed.get(host), to }]);
  if (times === undefined || times.steps * times.stepMs < assessedMs) return { watch };
  const { depth } = job.pipeline;
  const isSerial =
    times.shares.batch > batchShareMax ||
    (depth > 1 && times.steps >= assessedStepsMin && times.batchesThere === 0);
  const serial = new Set(watch.serial);
  if (isSerial) serial.add(host);
  else serial.delete(host);
  const next = { ...watch, assessed: new Map(watch.assessed).set(host, to), serial };
  if (!isSerial || watch.serial.has(host)) return { watch: next };
  return { watch: next, alert: { message: sentenceOf(times, host, job), times } };
}

function sentenceOf(
  { steps, stepMs, readMs, shares }: StepTimes,
  host: number,
  { pipeline, readers }: PipelineJob,
): string {
  const waited = `${Math.round(100 * shares.batch)} % of ${Math.round((steps * stepMs) / 1000)} s`;
  const fact = `Devices of host ${host} waited for batches in ${waited}`;
  if (pipeline.depth === 1) {
    return `${fact}, because nothing is read while they compute: set \`pipeline.depth: 3\``;
  }
  const restMs = stepMs * (1 - shares.batch);
  const why = `a reader takes ${ms(readMs)} for a batch, the rest of a step ${ms(restMs)}`;
  if (readers >= readersMax) {
    return `${fact}: ${why}, and there are ${readers} readers; use a faster disk or a smaller batch`;
  }
  const enough = Math.ceil(readMs / Math.max(restMs, 1e-3));
  const wanted = Math.min(readersMax, Math.max(readers + 1, enough));
  return `${fact}: ${why}; set \`readers: ${wanted}\` instead of ${readers}`;
}

function ms(value: number): string {
  return `${value >= 10 ? Math.round(value) : value.toPrecision(2)} ms`;
}
