// What the training coordinator tells of its run: records and figures, formed from its context.

import {
  PeerLostError,
  RemoteError,
  recordError,
  StepTimeoutError,
} from "../../src/errors/errors.ts";
import { kernelNotice } from "../../src/kernels/index.ts";
import { sliceRunsOf } from "../../src/planner/placement.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import type { Metrics } from "../../src/training/loop/metrics.ts";
import { adviseTiers, type TableTiers } from "../../src/training/planning/tier-advice.ts";
import { devicesOf } from "../host/membership.ts";
import {
  afterTelling,
  judge,
  type PipelineWatch,
  recentSpeed,
  timesSinceTold,
  withSample,
} from "../run-state/pipeline-watch.ts";
import { dynamicTables, repairedTables, stalenessOf } from "../run-state/run-metrics.ts";
import { dealSlices, judgeDevices, type StragglerWatch } from "../run-state/straggler-watch.ts";
import { type TierWatch, withTier } from "../run-state/tier-watch.ts";
import { ActorFailedError, type Incident } from "../runtime/incident.ts";
import type { MessageEvent } from "../runtime/listening.ts";
import { silentOf, type Wait } from "../runtime/wait-graph.ts";
import { assemblyOf, derive } from "../threads/generation-spec.ts";
import type { TrainingCoordinatorContext } from "./coordinator-context.ts";

/** Who waits for the devices. */
export const coordinatorName = "coordinator:0";

/**
 * What a host told, as an incident. Who lost another, or waited for it in vain, only noticed: the
 * one that does not answer is the offender.
 */
export function incidentOf(
  context: TrainingCoordinatorContext,
  told: MessageEvent<"host.failed">["body"],
): Incident {
  const { host, actor, context: doing, error, step } = told;
  const waits = waitsOf({ ...context, waits: new Map([...context.waits, [host, told.waits]]) });
  const isWaiting = error.code === "STEP_TIMEOUT";
  const offender = error.actor ?? (isWaiting ? silentOf(waits, actor)[0] : undefined) ?? actor;
  const where = { offender, supervisor: `host:${host}`, context: doing, reason: error, step };
  return { ...where, ...(offender === actor ? { host } : { noticedBy: actor }), waits };
}

/** Who waits for whom, of all threads and actors of the generation. */
export function waitsOf({ waits, network, scope }: TrainingCoordinatorContext): Wait[] {
  return [...[...waits.values()].flat(), ...network.waits.waits(scope.run)];
}

/** A host failed: why the generation ends. */
export function failureOf(
  context: TrainingCoordinatorContext,
  failed: MessageEvent<"host.failed">["body"],
): ActorFailedError {
  const incident = incidentOf(context, failed);
  return new ActorFailedError(incident, { cause: new RemoteError(incident.reason) });
}

export function goneOf(host: number): PeerLostError {
  return new PeerLostError(`host:${host}`, "it is not a host of the cluster any more");
}

/** No step was made for twice its deadline: whoever does not answer is to blame. */
export function stallOf(context: TrainingCoordinatorContext): Error {
  const { hosts, seenStep, job, scope } = context;
  const waits = waitsOf(context);
  const silent = silentOf(waits, coordinatorName);
  const names = silent.length > 0 ? silent : hosts.map(({ host }) => `the devices of host:${host}`);
  const wait = `a step after step ${seenStep} of ${names.join(", ")}`;
  const error = new StepTimeoutError(wait, deadlinesOf(job).stall);
  const [offender] = silent;
  if (offender === undefined) return error;
  return new ActorFailedError(
    {
      ...{ offender, noticedBy: coordinatorName, supervisor: `job:${scope.run}` },
      ...{ context: "training", reason: recordError(error), step: seenStep, waits },
    },
    { cause: error },
  );
}

/** The wait for the next step, since now. */
export function stepWait({ network, scope, hosts, seenStep }: TrainingCoordinatorContext) {
  const whom = Array.from({ length: devicesOf(hosts) }, (_, rank) => `device:${rank}`);
  const what = `a step after step ${seenStep}`;
  return {
    network,
    run: scope.run,
    who: coordinatorName,
    whom,
    what,
    sinceMs: network.clock.now(),
  };
}

/** run.preparing */
export function tellPreparing(
  { record, scope }: TrainingCoordinatorContext,
  { fraction }: MessageEvent<"host.preparing">["body"],
): void {
  record.append(scope.generation, { type: "run.preparing", fraction });
}

/** run.incident: a host mended it. */
export function tellMended(
  context: TrainingCoordinatorContext,
  mended: MessageEvent<"host.mended">["body"],
): void {
  const { record, scope, network } = context;
  const { host, delayMs } = mended;
  const incident = incidentOf(context, { ...mended, waits: [] });
  const action = { by: `host:${host}`, did: `starts another one after ${delayMs} ms` };
  record.mended(scope.generation, { ...incident, waits: undefined }, action, network.clock.date());
}

/** run.evaluated */
export function tellEvaluated(
  { record, scope, step }: TrainingCoordinatorContext,
  metrics: Metrics,
): void {
  record.append(scope.generation, { type: "run.evaluated", step, metrics });
}

/** run.prepared */
export function tellPrepared({ record, scope, plan, schedule }: TrainingCoordinatorContext): void {
  if (plan === undefined || schedule === undefined) return;
  record.append(scope.generation, {
    type: "run.prepared",
    samples: plan.training.samples,
    heldOut: plan.evaluation?.samples ?? 0,
    steps: schedule.steps,
    quarantined: plan.quarantined,
    quarantine: plan.quarantine,
    bestAuc: plan.bestAuc,
  });
}

/** run.started */
export function tellStarted(context: TrainingCoordinatorContext): void {
  const { record, scope, schedule, hosts, arithmetic, step } = context;
  record.append(scope.generation, {
    type: "run.started",
    fromStep: step,
    steps: schedule?.steps ?? 0,
    devices: devicesOf(hosts),
    hosts,
    slices: slicesOf(context),
    arithmetic,
    notice: kernelNotice(),
  });
}

/** run.alert, where the job's objective for a recovery was missed. */
function tellSlowRecovery(
  { record, scope, job: { recoveryMs } }: TrainingCoordinatorContext,
  step: number,
  seconds: number,
): void {
  if (recoveryMs === 0 || 1000 * seconds <= recoveryMs) return;
  const message =
    `Recovered in ${seconds.toFixed(1)} s, expected at most ${recoveryMs / 1000} s: ` +
    "a shorter `stepDeadlineMs` or `checkpoint.everySteps` finds and redoes less";
  record.append(scope.generation, { type: "run.alert", code: "RECOVERY_SLOW", step, message });
}

/** Once a generation, at the first sign of a step of it: run.recovered, run.scaled. */
export function tellGoingOn(context: TrainingCoordinatorContext): void {
  const { record, scope, failedAtMs, network, latest, hosts, restored } = context;
  const step = latest?.cut ?? 0;
  const secondsSince = (atMs: number) => (network.clock.now() - atMs) / 1000;
  if (failedAtMs !== undefined) {
    const seconds = secondsSince(failedAtMs);
    const recovered = { fromStep: step, seconds, ...restored };
    record.recovered(scope.generation, recovered, network.clock.date());
    tellSlowRecovery(context, step, seconds);
  }
  if (record.scaling === undefined || record.scaling.generation === scope.generation) return;
  const { from, atMs } = record.scaling;
  const what = { from, to: devicesOf(hosts), step, seconds: secondsSince(atMs) };
  record.append(scope.generation, { type: "run.scaled", ...what });
  record.scaling = undefined;
}

/** run.checkpointed */
export function tellCheckpointed(
  context: TrainingCoordinatorContext,
  { cut, modelDigest, bytes }: MessageEvent<"checkpoint.committed">["body"],
): void {
  const { isBest = false, isAsked = false, stallMs = 0, waitedMs = 0 } = context.taken ?? {};
  context.record.append(context.scope.generation, {
    type: "run.checkpointed",
    ...{ step: cut, digest: modelDigest, best: isBest, bytes, stallMs, waitedMs },
    ...(isAsked ? { asked: true } : {}),
    tiers: tiersOf(context),
  });
}

/** run.progress: device 0 has done `step` steps. Returns the watch of what comes next. */
export function tellProgress(
  context: TrainingCoordinatorContext,
  step: number,
  loss: number,
): PipelineWatch {
  const { record, scope, schedule, job, metrics, watch, latest, startedAtMs } = context;
  const start = { step: latest?.cut ?? 0, atMs: startedAtMs };
  const pace = { step, atMs: context.network.clock.now() };
  record.append(scope.generation, {
    type: "run.progress",
    step,
    steps: schedule?.steps ?? 0,
    loss,
    samplesPerSecond: job.data.batchSize * recentSpeed(watch, start, pace),
    repairedIds: repairedTables(job, metrics),
    staleness: stalenessOf(job, metrics),
    dynamicIds: dynamicTables(job, metrics),
    times: timesSinceTold(watch),
  });
  return afterTelling(watch, pace);
}

/**
 * Names the devices that the others wait for (run.straggler). `isUneven`: they have more slices
 * than their speed is worth.
 */
export function watchStragglers(context: TrainingCoordinatorContext): {
  readonly stragglers: StragglerWatch;
  readonly isUneven: boolean;
} {
  const { record, scope, job, hosts, watch } = context;
  const slices = slicesOf(context);
  const judged = judgeDevices(context.stragglers, watch.latest, { hosts, slices });
  for (const { name, device, host, factor, speed } of judged.stragglers) {
    record.append(scope.generation, { type: "run.straggler", device, host, factor });
    record.speeds.set(name, speed);
  }
  const deal = dealSlices(job.slices, hosts, record.speeds);
  const isUneven = judged.stragglers.some(
    ({ device }) => (deal?.[device] ?? 0) < (slices[device] ?? 0),
  );
  return { stragglers: judged.watch, isUneven };
}

/** Slices of each device, by rank. */
function slicesOf({ job, hosts, sliceCounts }: TrainingCoordinatorContext): number[] {
  return sliceRunsOf(job.slices, devicesOf(hosts), sliceCounts).map(({ slices }) => slices);
}

/** What is known of the cached tables in this generation; undefined where there is none. */
export function tiersOf(context: TrainingCoordinatorContext): readonly TableTiers[] | undefined {
  const curves = [...context.watch.latest.values()].flatMap((sample) => {
    return sample.curves === undefined ? [] : [sample.curves];
  });
  if (curves.length === 0) return undefined;
  const { topology } = derive(assemblyOf(context));
  return adviseTiers(topology, context.job.optimizer.sparse, curves);
}

/** Takes what a host has sampled; run.alert, where its pipeline has fallen serial. */
export function watchPipeline(
  { watch, job, record, scope }: TrainingCoordinatorContext,
  { host, steps, meters }: MessageEvent<"host.progress">["body"],
): PipelineWatch {
  const judged = judge(withSample(watch, host, meters), host, job);
  if (judged.alert !== undefined) {
    const step = steps[0] ?? 0;
    const what = { type: "run.alert", code: "PIPELINE_SERIAL", step } as const;
    record.append(scope.generation, { ...what, ...judged.alert });
  }
  return judged.watch;
}

/** Takes what a host's tiers are; run.tier and run.durable, where it is news. */
export function watchTiers(
  { tierWatch, network, job, record, scope }: TrainingCoordinatorContext,
  { tiers: told }: MessageEvent<"host.progress">["body"],
): TierWatch {
  let watch = tierWatch;
  for (const one of told) {
    const next = withTier(watch, one, network.clock.now(), job);
    for (const news of next.events) record.append(scope.generation, news);
    watch = next.watch;
  }
  return watch;
}

/** run.durable: what stays below the devices. */
export function tellRested(
  { record, scope }: TrainingCoordinatorContext,
  answers: readonly MessageEvent<"tier.rested">["body"][],
): void {
  for (const { device, kept } of answers) {
    record.append(scope.generation, { type: "run.durable", device, action: "kept", ...kept });
  }
}
