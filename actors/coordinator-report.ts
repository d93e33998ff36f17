// What the training coordinator tells of its run: records and figures, formed from its context.

import { kernelNotice } from "../src/kernels/index.ts";
import type { Metrics } from "../src/training/metrics.ts";
import type { Incident } from "./incident.ts";
import type { MessageEvent } from "./listening.ts";
import { judge, type PipelineWatch, timesSinceTold, withSample } from "./pipeline-watch.ts";
import { repairedTables, stalenessOf } from "./run-metrics.ts";
import { type TierWatch, withTier } from "./tier-watch.ts";
import type { TrainingCoordinatorContext } from "./training-coordinator.ts";

/** What a host told, as an incident. */
export function incidentOf(
  { scope, seenStep }: TrainingCoordinatorContext,
  { host, actor, error }: MessageEvent<"host.failed">["body"],
): Incident {
  const context = `generation ${scope.generation}, step ${seenStep}`;
  return { offender: actor, supervisor: `host:${host}`, context, reason: error };
}

/** Speed of this generation up to `step`. */
export function samplesPerSecond(context: TrainingCoordinatorContext, step: number): number {
  const seconds = (context.network.clock.now() - context.startedAtMs) / 1000;
  const samples = (step - (context.latest?.cut ?? 0)) * context.job.data.batchSize;
  return seconds > 0 ? samples / seconds : 0;
}

/** run.incident, of what another actor has already mended. */
export function tellMended(
  context: TrainingCoordinatorContext,
  body: MessageEvent<"host.mended">["body"],
): void {
  const { reason, ...where } = incidentOf(context, body);
  const incident = { type: "run.incident", ...where, error: reason } as const;
  context.record.append(context.scope.generation, incident);
}

/** run.preparing */
export function tellPreparing(
  { record, scope }: TrainingCoordinatorContext,
  { fraction }: MessageEvent<"host.preparing">["body"],
): void {
  record.append(scope.generation, { type: "run.preparing", fraction });
}

/** run.recovered, at the first sign of a step after the restore; whether it was told. */
export function tellRecovered(context: TrainingCoordinatorContext): boolean {
  const { record, scope, failedAtMs, isRecovered, network, latest, step, seenStep } = context;
  const fromStep = latest?.cut ?? 0;
  if (failedAtMs === undefined || isRecovered) return false;
  if (Math.max(step, seenStep) <= fromStep) return false;
  const seconds = (network.clock.now() - failedAtMs) / 1000;
  record.append(scope.generation, { type: "run.recovered", fromStep, seconds });
  return true;
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
    devices: hosts.reduce((sum, { devices }) => sum + devices, 0),
    hosts,
    arithmetic,
    notice: kernelNotice(),
  });
}

/** run.progress: device 0 has done `step` steps. */
export function tellProgress(
  context: TrainingCoordinatorContext,
  step: number,
  loss: number,
): void {
  const { record, scope, schedule, job, metrics, watch } = context;
  record.append(scope.generation, {
    type: "run.progress",
    step,
    steps: schedule?.steps ?? 0,
    loss,
    samplesPerSecond: samplesPerSecond(context, step),
    repairedIds: repairedTables(job, metrics),
    staleness: stalenessOf(job, metrics),
    times: timesSinceTold(watch),
  });
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

/** run.checkpointed */
export function tellCheckpointed(
  { record, scope, metrics }: TrainingCoordinatorContext,
  { cut: step, modelDigest: digest, bytes }: MessageEvent<"checkpoint.committed">["body"],
): void {
  const best = metrics.isBest;
  record.append(scope.generation, { type: "run.checkpointed", step, digest, best, bytes });
}

/** Takes what a host's tiers are; run.tier and run.durable, where it is news. */
export function watchTiers(
  { tiers, network, job, record, scope }: TrainingCoordinatorContext,
  { tiers: told }: MessageEvent<"host.progress">["body"],
): TierWatch {
  let watch = tiers;
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
