// Events that the training coordinator publishes of its run: one function per event
// (run-events.ts), in the order of a generation's life. The events of heartbeats are in
// heartbeat-progress.ts.

import { RunCancelledError } from "../../../src/errors/errors.ts";
import { kernelNotice } from "../../../src/kernels/index.ts";
import type { Metrics } from "../../../src/training/loop/metrics.ts";
import { adviseTiers, type TableTiers } from "../../../src/training/planning/tier-advice.ts";
import { devicesOf } from "../../host/membership.ts";
import type { MessageEvent } from "../../runtime/mailbox.ts";
import { roomWaitMs } from "../../threads/generation-spec.ts";
import { asynchronousNotice, withLoss } from "../state/asynchronous-metrics.ts";
import { timesOfAll } from "../state/pipeline-watch.ts";
import { resultOf } from "../state/run-metrics.ts";
import type { RunResult } from "../state/run-result.ts";
import { storesOf, troubleOf } from "../state/tier-watch.ts";
import type { TrainingCoordinatorContext } from "./coordinator-context.ts";
import { incidentOf } from "./coordinator-failures.ts";
import { pinStates } from "./follow-pins.ts";
import { slicesOf } from "./heartbeat-progress.ts";

/** Publishes run.preparing. */
export function publishPreparing(
  { record, scope }: TrainingCoordinatorContext,
  { fraction }: MessageEvent<"host.preparing">["body"],
): void {
  record.append(scope.generation, { type: "run.preparing", fraction });
}

/** Publishes run.prepared, after run.cache for each rebuilt cache. */
export function publishPrepared({
  record,
  scope,
  plan,
  schedule,
}: TrainingCoordinatorContext): void {
  if (plan === undefined || schedule === undefined) return;
  for (const cache of plan.remade) {
    record.append(scope.generation, { type: "run.cache", ...cache });
  }
  record.append(scope.generation, {
    type: "run.prepared",
    samples: plan.training.samples,
    heldOut: plan.evaluation?.samples ?? 0,
    ...(plan.test === undefined ? {} : { test: plan.test.samples }),
    steps: schedule.steps,
    quarantined: plan.quarantined,
    quarantine: plan.quarantine,
    bestAuc: plan.bestAuc,
    bestRmse: plan.bestRmse,
    ikjt: plan.ikjt,
    values: plan.values,
    warnings: plan.warnings,
  });
}

/** Publishes run.started. */
export function publishStarted(context: TrainingCoordinatorContext): void {
  const { record, scope, job, schedule, hosts, arithmetic, sets, step, links } = context;
  record.append(scope.generation, {
    type: "run.started",
    fromStep: step,
    steps: schedule?.steps ?? 0,
    devices: devicesOf(hosts),
    hosts,
    slices: slicesOf(context),
    plan: planOf(context),
    pins: pinStates(context),
    links,
    arithmetic,
    sets,
    notice:
      job.mode === "async"
        ? asynchronousNotice(job, { steps: schedule?.steps ?? 0, trainers: devicesOf(hosts) })
        : kernelNotice(),
  });
}

/** Publishes run.recovered and run.scaled at the first completed step of a generation. */
export function publishFirstStep(context: TrainingCoordinatorContext): {
  readonly isFirstStepDone: boolean;
} {
  const { isFirstStepDone, seenStep } = context;
  if (isFirstStepDone || Math.max(context.step, seenStep) <= (context.latest?.cut ?? 0)) {
    return { isFirstStepDone };
  }
  publishRecovered(context);
  publishScaled(context);
  return { isFirstStepDone: true };
}

/**
 * Publishes run.alert when writers begin to wait for room on the disk of the checkpoints.
 * @throws RunCancelledError where the run is being cancelled, since it would wait for a checkpoint
 *   (J8)
 */
export function publishRoom(
  { record, scope, job, hosts, step, seenStep }: TrainingCoordinatorContext,
  { device, isAwaited }: MessageEvent<"writer.room">["body"],
): void {
  const { roomAwaited } = record;
  const wasAwaited = roomAwaited.size > 0;
  if (isAwaited) roomAwaited.add(device);
  else roomAwaited.delete(device);
  if (wasAwaited || !isAwaited) return;
  const then = "goes back to its last checkpoint";
  record.append(
    scope.generation,
    waitAlert("CHECKPOINT_DISK_FULL", { job, hosts }, Math.max(step, seenStep), then),
  );
  if (record.isCancelRequested) throw new RunCancelledError(record.run);
}

/** The stores that a run may wait for, and advice for each. */
const waits = {
  CHECKPOINT_DISK_FULL: {
    problem: (directory: string) =>
      `The disk of the checkpoints in ${directory} is full: the run waits for free space`,
    advice: "free disk space",
  },
  CHECKPOINT_STORE_AWAY: {
    problem: (address: string) =>
      `The checkpoint store ${address} does not answer: the run waits for it`,
    advice: "check the store",
  },
} as const;

/** The run.alert of a run that waits. `then`: the action when the longest wait is over. */
export function waitAlert(
  code: keyof typeof waits,
  run: Parameters<typeof roomWaitMs>[0],
  step: number,
  then: string,
) {
  const { problem, advice } = waits[code];
  const limit = `at most ${roomWaitMs(run) / 1000} s, and then ${then}`;
  const message = `${problem(run.job.checkpoint.directory)}, ${limit}; ${advice}, or cancel the run`;
  return { type: "run.alert" as const, code, step, message };
}

/** Publishes run.recovered, where the generation follows a failure. */
function publishRecovered(context: TrainingCoordinatorContext): void {
  const { record, scope, failedAtMs, network, latest, restored } = context;
  if (failedAtMs === undefined) return;
  const fromStep = latest?.cut ?? 0;
  const seconds = (network.clock.now() - failedAtMs) / 1000;
  record.recovered(scope.generation, { fromStep, seconds, ...restored }, network.clock.date());
  publishSlowRecovery(context, fromStep, seconds);
}

/** Publishes run.alert, where the recovery took longer than the job allows. */
function publishSlowRecovery(
  { record, scope, job: { recoveryMs } }: TrainingCoordinatorContext,
  step: number,
  seconds: number,
): void {
  if (recoveryMs === 0 || 1000 * seconds <= recoveryMs) return;
  const message =
    `Recovered in ${seconds.toFixed(1)} s, expected at most ${recoveryMs / 1000} s: ` +
    "a shorter `stepDeadlineMs` detects a failure earlier, and a smaller `checkpoint.everySteps` " +
    "repeats fewer steps";
  record.append(scope.generation, { type: "run.alert", code: "RECOVERY_SLOW", step, message });
}

/**
 * Publishes run.moved, run.adapted or run.scaled, where the generation follows a planned change.
 */
function publishScaled(context: TrainingCoordinatorContext): void {
  const { record, scope, network, latest, hosts } = context;
  if (record.scaling === undefined || record.scaling.generation === scope.generation) return;
  const { from, atMs, moves, isAdapted } = record.scaling;
  const seconds = (network.clock.now() - atMs) / 1000;
  const at = { step: latest?.cut ?? 0, seconds };
  const moved = moves.filter((pin) => context.pins.followed.includes(pin));
  if (moved.length > 0) {
    record.append(scope.generation, { type: "run.moved", shards: moved, ...at });
  }
  const to = devicesOf(hosts);
  if (from !== to || (moves.length === 0 && isAdapted !== true)) {
    record.append(scope.generation, { type: "run.scaled", from, to, ...at });
  } else if (isAdapted === true) {
    record.append(scope.generation, { type: "run.adapted", ...at });
  }
  record.measured = { ...record.measured, changeSeconds: seconds };
  record.scaling = undefined;
}

/**
 * Publishes run.incident for a failure that a host repaired without a restart of the generation,
 * and run.lost where it lost updates. Returns the metrics that count them.
 */
export function publishMended(
  context: TrainingCoordinatorContext,
  mended: MessageEvent<"host.mended">["body"],
): Partial<Pick<TrainingCoordinatorContext, "metrics">> {
  const { record, scope, network } = context;
  const { host, delayMs } = mended;
  const incident = incidentOf(context, { ...mended, waits: [] });
  const action = { by: `host:${host}`, did: `starts a replacement after ${delayMs} ms` };
  record.mended(scope.generation, { ...incident, waits: undefined }, action, network.clock.date());
  const { actor, lost } = mended;
  if (lost === undefined) return {};
  const step = Math.max(context.step, context.seenStep);
  record.append(scope.generation, { type: "run.lost", actor, step, ...lost });
  return withLoss(context.metrics, lost);
}

/** Publishes run.evaluated. */
export function publishEvaluated(
  { record, scope, step }: TrainingCoordinatorContext,
  metrics: Metrics,
): void {
  record.append(scope.generation, { type: "run.evaluated", step, metrics });
}

/** Publishes run.checkpointed. */
export function publishCheckpointed(
  context: TrainingCoordinatorContext,
  { cut, modelDigest, bytes }: MessageEvent<"checkpoint.committed">["body"],
): void {
  const { isBest = false, isRequested = false, stallMs = 0, waitedMs = 0 } = context.taken ?? {};
  context.record.append(context.scope.generation, {
    type: "run.checkpointed",
    ...{ step: cut, digest: modelDigest, best: isBest, bytes, stallMs, waitedMs },
    ...(isRequested ? { requested: true } : {}),
    tiers: tiersOf(context),
  });
}

/** Publishes run.durable for each tier: the rows kept beside the last checkpoint. */
export function publishPersisted(
  { record, scope }: TrainingCoordinatorContext,
  answers: readonly MessageEvent<"tier.persisted">["body"][],
): void {
  for (const { device, kept } of answers) {
    record.append(scope.generation, { type: "run.durable", device, action: "kept", ...kept });
  }
}

/** The result of the finished run. */
export function resultOfRun(context: TrainingCoordinatorContext): RunResult {
  const { watch, tierWatch } = context;
  const tiers = tiersOf(context);
  const ofTiers = { tiers, stores: storesOf(tierWatch), disk: troubleOf(tierWatch) };
  const placed = planOf(context);
  return resultOf({ ...context, times: timesOfAll(watch), ...ofTiers, placed });
}

/** The plan that the devices follow; parameter servers follow none. */
function planOf({ job, placement }: TrainingCoordinatorContext) {
  return job.mode === "async" ? undefined : placement?.report;
}

/**
 * Access counts and memory advice of the generation's cached tables; undefined where there are
 * none.
 */
function tiersOf(context: TrainingCoordinatorContext): readonly TableTiers[] | undefined {
  const curves = [...context.watch.latest.values()].flatMap((sample) => {
    return sample.curves === undefined ? [] : [sample.curves];
  });
  if (curves.length === 0 || context.layout === undefined) return undefined;
  return adviseTiers(context.layout().topology, context.job.optimizer.sparse, curves);
}
