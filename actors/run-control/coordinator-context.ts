// What a training coordinator knows, and what follows from it at a cut.

import type { JobSpec } from "../../src/job/job.ts";
import {
  nextCut,
  nextPlanned,
  type Schedule,
  scheduleOf,
} from "../../src/training/loop/schedule.ts";
import type { CheckpointStore, Manifest } from "../../storage/checkpoint-store/checkpoint-store.ts";
import { stepsForPls } from "../../storage/checkpoints/partial-checkpoint.ts";
import { devicesOf, type HostShare, type Membership } from "../host/membership.ts";
import { emptyWatch, type PipelineWatch } from "../run-state/pipeline-watch.ts";
import { restoredMetrics } from "../run-state/run-metrics.ts";
import type { RunRecord } from "../run-state/run-record.ts";
import { dealSlices, noStragglers, type StragglerWatch } from "../run-state/straggler-watch.ts";
import { noTiers, type TierWatch } from "../run-state/tier-watch.ts";
import type { MessageEvent } from "../runtime/listening.ts";
import { type Network, openMailbox, type RunScope } from "../runtime/mailbox.ts";
import type { Wait } from "../runtime/wait-graph.ts";
import type { DataPlan } from "../threads/generation-spec.ts";
import type { Asking, Assembled, TakenCut } from "./coordinator-requests.ts";

export interface TrainingCoordinatorInput {
  readonly network: Network;
  readonly scope: RunScope;
  readonly job: JobSpec;
  /** Whose devices take part, in the order of their ranks. */
  readonly hosts: readonly HostShare[];
  readonly membership: Membership;
  readonly store: CheckpointStore;
  readonly record: RunRecord;
  /** The checkpoint to go on from. */
  readonly latest: Manifest | undefined;
  /** When the failure was seen that this generation recovers from. */
  readonly failedAtMs: number | undefined;
}

export interface TrainingCoordinatorContext extends TrainingCoordinatorInput, Asking {
  readonly schedule: Schedule | undefined;
  readonly restored: Assembled["restored"];
  /** When the first window began. */
  readonly startedAtMs: number;
  /** Furthest step that a heartbeat has told. */
  readonly seenStep: number;
  readonly seenLoss: number;
  readonly watch: PipelineWatch;
  readonly tierWatch: TierWatch;
  /** What the threads of each host wait for, by its last heartbeat. */
  readonly waits: ReadonlyMap<number, readonly Wait[]>;
  readonly stragglers: StragglerWatch;
  /** Whether a step of this generation was seen. */
  readonly isGoingOn: boolean;
  readonly isCancelAsked: boolean;
  readonly isCancelled: boolean;
  /** Whether the generation is to end here: for other devices, or to let go of these. */
  readonly isScaleAsked: boolean;
  /** Since when the last cut waited for the one before to be committed, and how long. */
  readonly waitsSinceMs: number;
  readonly waitedMs: number;
  readonly failure?: unknown;
}

/** The steps of its data, as far as it goes. */
export function scheduleFor(
  { job, record }: TrainingCoordinatorContext,
  { training: { samples } }: DataPlan,
): Schedule {
  const { batchSize, passes } = job.data;
  const schedule = scheduleOf({ samples, batchSize, passes });
  return { ...schedule, steps: record.cuts?.at(-1)?.step ?? schedule.steps };
}

/** The cut that comes next; undefined before the data is prepared. */
export function cutAfter({ schedule, job, step, record: { cuts } }: TrainingCoordinatorContext) {
  if (schedule === undefined) return undefined;
  return cuts === undefined ? nextCut(schedule, job, step) : nextPlanned(cuts, step);
}

/** Whether nothing is left to be done for the run; otherwise a generation ends to be scaled. */
export function isEnded({
  schedule,
  step,
  metrics,
  isCancelled,
}: TrainingCoordinatorContext): boolean {
  if (schedule === undefined) return false; // It was told to let go before it knew.
  return isCancelled || step >= schedule.steps || metrics.earlyStopping.stopped;
}

/** Whether the run itself has a checkpoint here, whatever becomes of its devices. */
export function isOwnCut({
  cut,
  step,
  metrics,
  isCancelAsked,
}: TrainingCoordinatorContext): boolean {
  const isDue = cut?.checkpoint === true && cut.step === step;
  return isDue || metrics.isBest || metrics.earlyStopping.stopped || isCancelAsked;
}

/** The cut that the devices have just taken. */
export function takenOf(
  { metrics, waitedMs, record }: TrainingCoordinatorContext,
  { cut, stallMs }: MessageEvent<"checkpoint.taken">["body"],
): TakenCut {
  const isAsked = record.isCheckpointAsked;
  record.isCheckpointAsked = false; // This is it.
  return { step: cut, isBest: metrics.isBest, isAsked, stallMs, waitedMs };
}

/** Whether the generation ends here. */
export function isOver(context: TrainingCoordinatorContext): boolean {
  return context.cut === undefined && (isEnded(context) || context.isScaleAsked);
}

/** Whether a checkpoint is made here, for the run itself or for the devices that it will have. */
export function mustCut(context: TrainingCoordinatorContext): boolean {
  const { metrics, step, isScaleAsked, latest } = context;
  if (metrics.savedStep === step) return false;
  if (isOwnCut(context) || isAskedHere(context)) return true;
  return isScaleAsked && step > (latest?.cut ?? 0);
}

/** Whether training goes on here, up to the cut. */
export function mustRun(context: TrainingCoordinatorContext): boolean {
  const { cut, step, isCancelAsked, isScaleAsked } = context;
  if (cut === undefined || step >= cut.step) return false;
  return !isCancelAsked && !isScaleAsked && !isAskedHere(context);
}

/** Whether somebody asked for a checkpoint, and there is something to be saved. */
function isAskedHere({ record, step, metrics }: TrainingCoordinatorContext): boolean {
  return record.isCheckpointAsked && step > (metrics.savedStep ?? 0);
}

/** The job with the interval between its checkpoints, where that follows from what may be lost. */
function withInterval(job: JobSpec, devices: number): JobSpec {
  const { pls, failureSteps } = job.checkpoint.partial ?? {};
  if (pls === undefined || failureSteps === undefined) return job;
  const everySteps = stepsForPls(pls, devices, failureSteps);
  return { ...job, checkpoint: { ...job.checkpoint, everySteps } };
}

/** What it knows before it has asked anybody. */
export function contextOf(input: TrainingCoordinatorInput): TrainingCoordinatorContext {
  return {
    ...input,
    job: withInterval(input.job, devicesOf(input.hosts)),
    mailbox: openMailbox(input.network, input.scope, { role: "coordinator", index: 0 }),
    command: 1,
    plan: undefined,
    schedule: undefined,
    restored: { memoryBytes: 0, storeBytes: 0 },
    step: input.latest?.cut ?? 0,
    cut: undefined,
    metrics: restoredMetrics(input.latest),
    manifest: input.latest?.sha256,
    arithmetic: input.latest?.arithmetic ?? "",
    startedAtMs: 0,
    seenStep: input.latest?.cut ?? 0,
    seenLoss: Number.NaN,
    watch: emptyWatch,
    tierWatch: noTiers,
    waits: new Map(),
    sliceCounts: dealSlices(input.job.slices, input.hosts, input.record.speeds),
    stragglers: noStragglers,
    isGoingOn: false,
    isCancelAsked: input.record.isCancelAsked,
    isCancelled: false,
    isScaleAsked: input.record.isYieldAsked,
    taken: undefined,
    waitsSinceMs: 0,
    waitedMs: 0,
  };
}
