// The watch over a generation's pipeline: where the time of the steps goes, as hosts have sampled
// it of their devices, and whether the pipeline has fallen serial. Plain data and pure functions.

import type { JobSpec } from "../../src/job/job.ts";
import {
  type HostMeters,
  type RunTimes,
  type StepTimes,
  timesBetween,
} from "../../src/training/meters/step-meter.ts";

type Samples = ReadonlyMap<number, HostMeters>;

export interface PipelineWatch {
  /** By host: the last sample, the sample of the last progress event, the last assessed sample. */
  readonly latest: Samples;
  readonly told: Samples;
  readonly assessed: Samples;
  /** By host: the sample in which its steps had taken `warmUpMs`. */
  readonly warm: Samples;
  /** Hosts with a pipeline that was serial at its last assessment. */
  readonly serial: ReadonlySet<number>;
  /** Events of progress of the last seconds: steps that were done, and when. */
  readonly speedSamples: readonly SpeedSample[];
}

/** Steps that were done at a time. */
export interface SpeedSample {
  readonly step: number;
  readonly atMs: number;
}

/** Nothing was sampled yet. */
export const emptyWatch: PipelineWatch = {
  latest: new Map(),
  told: new Map(),
  assessed: new Map(),
  warm: new Map(),
  serial: new Set(),
  speedSamples: [],
};

/** A run tells what its compiled steps took where they have taken so long. */
const warmedMs = 1000;
/** Time of a host's steps after which they are judged: less may be a hiccup. */
const assessedMs = 3000;
/** Share of waiting for readers beyond which reading, not training, is what the time goes to. */
const batchShareMax = 0.5;
/** Steps that may all have found no batch without that being a pattern. */
const assessedStepsMin = 8;
/** As many as a job may have. */
const readersMax = 16;

/**
 * Steps take less and less time for so long: programs are compiled while they run, on several
 * devices in the time that these leave.
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

/** What the last event of progress told begins the next interval. */
export function afterTelling(watch: PipelineWatch, sample: SpeedSample): PipelineWatch {
  return { ...watch, told: watch.latest, speedSamples: [...recentSamples(watch, sample), sample] };
}

/** So old is what the speed that is told begins with: long enough that a checkpoint is no dip. */
const speedWindowMs = 10_000;

/** Those of the last seconds before `sample`; one at least, however long ago that is. */
function recentSamples(
  { speedSamples }: PipelineWatch,
  { atMs }: SpeedSample,
): readonly SpeedSample[] {
  const first = speedSamples.findIndex((one) => one.atMs >= atMs - speedWindowMs);
  return first < 0 ? speedSamples.slice(-1) : speedSamples.slice(first);
}

/** Steps a second of the last seconds; since `start`, where nothing was told before. */
export function recentSpeed(watch: PipelineWatch, start: SpeedSample, now: SpeedSample): number {
  return speedBetween(recentSamples(watch, now)[0] ?? start, now);
}

/** Steps a second between two times; 0 where there is none between them. */
export function speedBetween(from: SpeedSample, to: SpeedSample): number {
  return to.atMs > from.atMs ? (1000 * (to.step - from.step)) / (to.atMs - from.atMs) : 0;
}

/** Times since the last event of progress, of all hosts. */
export function timesSinceTold({ latest, told }: PipelineWatch): StepTimes | undefined {
  return timesBetween([...latest].map(([host, to]) => ({ from: told.get(host), to })));
}

/**
 * Times of the whole generation, of all hosts; and of its steps once the programs are compiled,
 * where they took `warmedMs`.
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

/** Why a run is slower than it could be. */
export interface SerialAlert {
  readonly message: string;
  readonly times: StepTimes;
}

/**
 * Assesses the pipeline of a host once it has stepped for some seconds since it was last assessed.
 * There is an alert where it has fallen serial: once, until it has recovered.
 */
export function assess(
  watch: PipelineWatch,
  host: number,
  job: Pick<JobSpec, "pipeline" | "readers">,
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
  { pipeline, readers }: Pick<JobSpec, "pipeline" | "readers">,
): string {
  const waited = `${Math.round(100 * shares.batch)} % of ${Math.round((steps * stepMs) / 1000)} s`;
  const fact = `Devices of host ${host} waited for batches in ${waited}`;
  if (pipeline.depth === 1) {
    return `${fact}, because nothing is read while they compute: set \`pipeline.depth: 3\``;
  }
  const restMs = stepMs * (1 - shares.batch);
  const why = `a reader takes ${ms(readMs)} for a batch, the rest of a step ${ms(restMs)}`;
  if (readers >= readersMax) {
    return `${fact}: ${why}, and there are ${readers} readers; a faster disk or a smaller batch is left`;
  }
  const enough = Math.ceil(readMs / Math.max(restMs, 1e-3));
  const wanted = Math.min(readersMax, Math.max(readers + 1, enough));
  return `${fact}: ${why}; set \`readers: ${wanted}\` instead of ${readers}`;
}

function ms(value: number): string {
  return `${value >= 10 ? Math.round(value) : value.toPrecision(2)} ms`;
}
