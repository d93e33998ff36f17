// What a training coordinator knows, and what follows from it at a cut.

import type { JobSpec } from "../src/job.ts";
import type { Schedule } from "../src/training/schedule.ts";
import type { CheckpointStore, Manifest } from "../storage/checkpoint-store.ts";
import type { Asking } from "./coordinator-questions.ts";
import type { Network, RunScope } from "./mailbox.ts";
import type { HostShare, Membership } from "./membership.ts";
import type { PipelineWatch } from "./pipeline-watch.ts";
import type { RunRecord } from "./run-record.ts";
import type { StragglerWatch } from "./straggler-watch.ts";

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
  /** When the first window began. */
  readonly startedAtMs: number;
  /** Furthest step that a heartbeat has told. */
  readonly seenStep: number;
  readonly seenLoss: number;
  readonly watch: PipelineWatch;
  readonly stragglers: StragglerWatch;
  /** Whether a step of this generation was seen. */
  readonly isGoingOn: boolean;
  readonly isCancelAsked: boolean;
  readonly isCancelled: boolean;
  /** Whether the run is to have other devices. */
  readonly isScaleAsked: boolean;
  readonly failure?: unknown;
}

/** Whether nothing is left to be done for the run; otherwise a generation ends to be scaled. */
export function isEnded({
  schedule,
  step,
  metrics,
  isCancelled,
}: TrainingCoordinatorContext): boolean {
  return isCancelled || step >= (schedule?.steps ?? 0) || metrics.earlyStopping.stopped;
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
