// Context of the training coordinator's machine (training-coordinator.ts), and its initial values.

import type { JobSpec } from "../../../src/job/job.ts";
import { serversOf } from "../../../src/planner/placement.ts";
import type { Manifest } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { devicesOf, type HostShare, type Membership } from "../../host/membership.ts";
import {
  type MessageEvent,
  type Network,
  openMailbox,
  type RunScope,
} from "../../runtime/mailbox.ts";
import type { SupervisorInput } from "../../runtime/supervisor.ts";
import type { Wait } from "../../runtime/wait-graph.ts";
import { streamOriginsOf } from "../../threads/data/stream-origins.ts";
import { masterMachine, type ServiceReport } from "../../threads/preprocessing/master.ts";
import { type LinkWatch, noLinks } from "../state/link-watch.ts";
import { emptyWatch, type PipelineWatch } from "../state/pipeline-watch.ts";
import { afterCheckpoint, restoredMetrics } from "../state/run-metrics.ts";
import type { RunRecord } from "../state/run-record.ts";
import { dealSlices, noStragglers, type StragglerWatch } from "../state/straggler-watch.ts";
import { noTiers, type TierWatch } from "../state/tier-watch.ts";
import type { Assembled, RequestInput, TakenCut } from "./coordinator-requests.ts";
import { noPins } from "./follow-pins.ts";
import { leavingHosts } from "./hand-over.ts";
import { announcedSpeeds } from "./host-hardware.ts";
import { isDueForRun, type RunPosition, withInterval } from "./next-action.ts";
import type { RunStore } from "./run-store.ts";

export interface TrainingCoordinatorInput {
  readonly network: Network;
  readonly scope: RunScope;
  readonly job: JobSpec;
  /** Hosts of the generation, in the order of their devices' ranks. */
  readonly hosts: readonly HostShare[];
  readonly membership: Membership;
  readonly store: RunStore;
  readonly record: RunRecord;
  /** The checkpoint to restore; undefined: start from initial weights. */
  readonly latest: Manifest | undefined;
  /** Time at which the failure was noticed that this generation recovers from; undefined: none. */
  readonly failedAtMs: number | undefined;
}

/** The sum of the steps of a host's trainers, and the slowest of their pushes. */
export interface SeenTrainers extends Pick<MessageEvent<"host.progress">["body"], "pushLag"> {
  readonly steps: number;
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
  /** By host: its trainers, where these are asynchronous. */
  readonly trainersOf: ReadonlyMap<number, SeenTrainers>;
  readonly watch: PipelineWatch;
  readonly tierWatch: TierWatch;
  readonly linkWatch: LinkWatch;
  readonly stragglers: StragglerWatch;
  /** Waits of the threads of each host, by its last heartbeat. */
  readonly waits: ReadonlyMap<number, readonly Wait[]>;
  /** Whether a step of this generation has completed. */
  readonly isFirstStepDone: boolean;

  /** The checkpoints in the store, at the end of the run. */
  readonly stored: Awaited<ReturnType<RunStore["list"]>> | undefined;

  /** Start and duration of the last cut's wait for the previous checkpoint. */
  readonly waitsSinceMs: number;
  readonly waitedMs: number;
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
    links: undefined,
    memoryBytes: Number.POSITIVE_INFINITY,
    schedule: undefined,
    indexedSteps: 0,
    restored: { memoryBytes: 0, storeBytes: 0, keptBytes: 0 },
    step: input.latest?.cut ?? 0,
    ahead: 0,
    cut: undefined,
    metrics: restoredMetrics(input.latest),
    manifest: input.latest?.sha256,
    arithmetic: input.latest?.arithmetic ?? "",
    sets: [],
    layout: undefined,
    stored: undefined,
    readerLimit: 0,
    assemblyMs: 0,
    startedAtMs: 0,
    seenStep: input.latest?.cut ?? 0,
    seenLoss: Number.NaN,
    trainersOf: new Map(),
    watch: emptyWatch,
    tierWatch: noTiers,
    linkWatch: noLinks,
    waits: new Map(),
    sliceCounts: dealSlices(
      input.job.slices,
      input.hosts,
      new Map([...announcedSpeeds(input), ...input.record.speeds]),
      serversOf(input.job.placement, devicesOf(input.hosts)),
    ),
    stragglers: noStragglers,
    isFirstStepDone: false,
    isCancelRequested: input.record.isCancelRequested,
    isCancelled: false,
    isScaleRequested: input.record.isYieldRequested,
    taken: undefined,
    leaving: [],
    left: [],
    waitsSinceMs: 0,
    waitedMs: 0,
  };
}

/** Inputs of the watches of the run's hosts. */
export function hostWatchesOf({ network, hosts, scope, membership }: TrainingCoordinatorContext) {
  const common = { network, run: scope.run, hostSilenceMs: membership.hostSilenceMs };
  return hosts.map(({ host }) => ({ ...common, host }));
}

/** Changes before a cut. A cut made only to change devices adds no point to the history. */
export function beforeCutting(
  context: TrainingCoordinatorContext,
): Pick<TrainingCoordinatorContext, "waitedMs" | "metrics" | "leaving"> {
  const { network, waitsSinceMs, metrics, step } = context;
  return {
    waitedMs: network.clock.now() - waitsSinceMs,
    leaving: leavingHosts(context),
    metrics: isDueForRun(context)
      ? afterCheckpoint(metrics, step)
      : { ...metrics, savedStep: step },
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

// The preprocessing service of a generation, beside its training coordinator: the master and its
// supervisor. A failed master is restarted without ending the generation: readers and workers send
// again the state that a new master needs.

/** Restarts of the master allowed within the window; more mean that the cause lies elsewhere. */
const intensity = { restartsMax: 20, windowMs: 60_000 } as const;

/** Input of the service's supervisor; undefined: the job has no preprocessing service. */
export function supervisedMaster(context: TrainingCoordinatorContext): SupervisorInput | undefined {
  const { network, scope, job, plan, hosts, record } = context;
  if (job.preprocessing === undefined || plan === undefined) return undefined;
  const origins = streamOriginsOf({ job, data: plan });
  const onWorkers = (report: ServiceReport) => {
    record.append(scope.generation, { type: "run.workers", ...report });
  };
  const input = { network, scope, job, origins, hosts: hosts.length, onWorkers };
  return {
    name: "preprocessing",
    strategy: "one-for-one",
    intensity,
    children: [
      { id: "master:0", restart: "permanent", start: () => ({ logic: masterMachine, input }) },
    ],
    clock: network.clock,
    mailbox: openMailbox(network, scope, { role: "master", index: 1 }),
    onRestart: (incident) => {
      const action = { by: "preprocessing", did: "starts a replacement" };
      record.mended(scope.generation, incident, action, network.clock.date());
    },
  };
}
