// Context of the training coordinator's machine (training-coordinator.ts), and its initial values.

import type { JobSpec } from "../../../src/job/job.ts";
import type {
  CheckpointStore,
  Manifest,
} from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { devicesOf, type HostShare, type Membership } from "../../host/membership.ts";
import type { MessageEvent } from "../../runtime/listening.ts";
import { type Network, openMailbox, type RunScope } from "../../runtime/mailbox.ts";
import type { Wait } from "../../runtime/wait-graph.ts";
import { emptyWatch, type PipelineWatch } from "../state/pipeline-watch.ts";
import { restoredMetrics } from "../state/run-metrics.ts";
import type { RunRecord } from "../state/run-record.ts";
import { dealSlices, noStragglers, type StragglerWatch } from "../state/straggler-watch.ts";
import { noTiers, type TierWatch } from "../state/tier-watch.ts";
import type { Assembled, RequestInput, TakenCut } from "./coordinator-requests.ts";
import { noPins } from "./follow-pins.ts";
import { type RunPosition, withInterval } from "./next-action.ts";

export interface TrainingCoordinatorInput {
  readonly network: Network;
  readonly scope: RunScope;
  readonly job: JobSpec;
  /** Hosts of the generation, in the order of their devices' ranks. */
  readonly hosts: readonly HostShare[];
  readonly membership: Membership;
  readonly store: CheckpointStore;
  readonly record: RunRecord;
  /** The checkpoint to restore; undefined: start from initial weights. */
  readonly latest: Manifest | undefined;
  /** Time at which the failure was noticed that this generation recovers from; undefined: none. */
  readonly failedAtMs: number | undefined;
}

export interface TrainingCoordinatorContext
  extends TrainingCoordinatorInput,
    RequestInput,
    RunPosition {
  readonly job: JobSpec;
  readonly record: RunRecord;
  readonly latest: Manifest | undefined;
  /** Restored bytes of the checkpoint, by source. */
  readonly restored: Assembled["restored"];
  /** The readers' rate limit when the generation was assembled. */
  readonly readerLimit: number;
  /** Duration of assembly and restore. */
  readonly assemblyMs: number;
  /** Start of the first window of steps. */
  readonly startedAtMs: number;

  // State from heartbeats (heartbeat-progress.ts).
  /** The last step reported by a heartbeat. */
  readonly seenStep: number;
  readonly seenLoss: number;
  readonly watch: PipelineWatch;
  readonly tierWatch: TierWatch;
  readonly stragglers: StragglerWatch;
  /** Waits of the threads of each host, by its last heartbeat. */
  readonly waits: ReadonlyMap<number, readonly Wait[]>;
  /** Whether a step of this generation has completed. */
  readonly isFirstStepDone: boolean;

  /** Start and duration of the last cut's wait for the previous checkpoint. */
  readonly waitsSinceMs: number;
  readonly waitedMs: number;
  readonly failure?: unknown;
}

/** The context before the first request. */
export function contextOf(input: TrainingCoordinatorInput): TrainingCoordinatorContext {
  return {
    ...input,
    job: withInterval(input.job, devicesOf(input.hosts)),
    mailbox: openMailbox(input.network, input.scope, { role: "coordinator", index: 0 }),
    command: 1,
    plan: undefined,
    placement: undefined,
    pins: noPins,
    memoryBytes: Number.POSITIVE_INFINITY,
    schedule: undefined,
    restored: { memoryBytes: 0, storeBytes: 0 },
    step: input.latest?.cut ?? 0,
    cut: undefined,
    metrics: restoredMetrics(input.latest),
    manifest: input.latest?.sha256,
    arithmetic: input.latest?.arithmetic ?? "",
    layout: undefined,
    readerLimit: 0,
    assemblyMs: 0,
    startedAtMs: 0,
    seenStep: input.latest?.cut ?? 0,
    seenLoss: Number.NaN,
    watch: emptyWatch,
    tierWatch: noTiers,
    waits: new Map(),
    sliceCounts: dealSlices(input.job.slices, input.hosts, input.record.speeds),
    stragglers: noStragglers,
    isFirstStepDone: false,
    isCancelRequested: input.record.isCancelRequested,
    isCancelled: false,
    isScaleRequested: input.record.isYieldRequested,
    taken: undefined,
    waitsSinceMs: 0,
    waitedMs: 0,
  };
}

/** The cut that all devices have taken and the writers are now writing. */
export function takenOf(
  { metrics, waitedMs, record }: TrainingCoordinatorContext,
  { cut, stallMs }: MessageEvent<"checkpoint.taken">["body"],
): TakenCut {
  const isRequested = record.isCheckpointRequested;
  record.isCheckpointRequested = false; // This cut satisfies the request.
  return { step: cut, isBest: metrics.isBest, isRequested, stallMs, waitedMs };
}
