// Evaluates the heartbeats of hosts (host.progress): the current step, the breakdown of the step
// time, the state of tiers, and stragglers. Each function returns the changes of the coordinator's
// context, and publishes run.progress, run.straggler and alerts. actors/host/heartbeat-watch.ts
// detects hosts whose heartbeats stop.

import { rateShare } from "../../../src/embedding/tables/rate-schedule.ts";
import { serversOf, sliceRunsOf } from "../../../src/planner/placement.ts";
import { devicesOf } from "../../host/membership.ts";
import type { MessageEvent } from "../../runtime/mailbox.ts";
import { type LinkWatch, withLinks } from "../state/link-watch.ts";
import {
  afterPublishing,
  assess,
  type PipelineWatch,
  recentSpeed,
  timesSincePublished,
  withSample,
} from "../state/pipeline-watch.ts";
import { dynamicTables, repairedTables, stalenessOf } from "../state/run-metrics.ts";
import { assessDevices, dealSlices, type StragglerWatch } from "../state/straggler-watch.ts";
import { type TierWatch, withTier } from "../state/tier-watch.ts";
import type { TrainingCoordinatorContext } from "./coordinator-context.ts";

type Context = TrainingCoordinatorContext;
type Heartbeat = MessageEvent<"host.progress">["body"];

/** Takes the host's waits, meters and tier reports, in any state of the generation. */
export function afterHeartbeat(
  context: Context,
  heartbeat: Heartbeat,
): Partial<Pick<Context, "watch" | "waits" | "tierWatch" | "linkWatch" | "trainersOf">> {
  if (context.job.mode === "async") {
    const { host, steps, pushLag } = heartbeat;
    const own = { steps: sumOf(steps), pushLag };
    return { trainersOf: new Map(context.trainersOf).set(host, own) };
  }
  const watch = watchPipeline(context, heartbeat);
  const waits = new Map([...context.waits, [heartbeat.host, heartbeat.waits]]);
  context.record.threadWaits = [...waits.values()].flat();
  const tierWatch = watchTiers(context, heartbeat);
  return { watch, waits, tierWatch, linkWatch: watchLinks(context, heartbeat) };
}

/** Takes the last meters of the hosts: the run may have ended sooner than their next heartbeat. */
export function afterRelease(
  { watch }: Context,
  released: readonly MessageEvent<"host.released">["body"][],
): Pick<Context, "watch"> {
  return {
    watch: released.reduce(
      (sum, { host, meters }) => (meters === undefined ? sum : withSample(sum, host, meters)),
      watch,
    ),
  };
}

/** Publishes run.alert when the host's pipeline becomes serial. */
function watchPipeline(
  { watch, job, record, scope }: Context,
  { host, steps, meters }: Heartbeat,
): PipelineWatch {
  const sampled = withSample(watch, host, meters);
  if (record.readers.limit > 0) return sampled; // The wait is a user's limit.
  const assessed = assess(sampled, host, job);
  if (assessed.alert !== undefined) {
    const step = steps[0] ?? 0;
    const what = { type: "run.alert", code: "PIPELINE_SERIAL", step } as const;
    record.append(scope.generation, { ...what, ...assessed.alert });
  }
  return assessed.watch;
}

/** Publishes run.tier and run.durable when the state of a tier changes. */
function watchTiers(
  { tierWatch, network, job, record, scope, hosts }: Context,
  { tiers }: Heartbeat,
): TierWatch {
  let watch = tierWatch;
  for (const one of tiers) {
    const next = withTier(watch, one, network.clock.now(), { job, hosts });
    for (const event of next.events) record.append(scope.generation, event);
    watch = next.watch;
  }
  return watch;
}

/** Publishes run.link when frames between hosts change their way, and run.alert of clocks. */
function watchLinks(
  { linkWatch, record, scope, hosts }: Context,
  { host, links, steps }: Heartbeat,
): LinkWatch {
  if (links === undefined) return linkWatch;
  const at = { hosts: hosts.length, step: steps[0] ?? 0 };
  const { watch, events } = withLinks(linkWatch, host, links, at);
  for (const event of events) record.append(scope.generation, event);
  return watch;
}

/** Whether the heartbeat reports that a step was completed since those before it. */
export function hasMoved({ job, seenStep, trainersOf }: Context, heartbeat: Heartbeat): boolean {
  const { host, steps } = heartbeat;
  // An asynchronous trainer may reach the end of its window long before the others.
  if (job.mode === "async") return sumOf(steps) > (trainersOf.get(host)?.steps ?? 0);
  return (steps[0] ?? 0) > seenStep;
}

function sumOf(steps: readonly number[]): number {
  return steps.reduce((sum, step) => sum + step, 0);
}

/**
 * Publishes run.progress after a new step. Only the first host's heartbeat counts: it has device 0,
 * and all devices step together.
 */
export function afterProgress(
  context: Context,
  heartbeat: Heartbeat,
): Partial<Pick<Context, "seenStep" | "seenLoss" | "watch">> {
  const { record, scope, schedule, job, metrics, watch, latest, startedAtMs } = context;
  const { host, steps, losses } = heartbeat;
  if (schedule === undefined || host !== context.hosts[0]?.host) return {};
  const step = steps[0] ?? 0;
  if (step <= context.seenStep) return {};
  const loss = losses.at(-1) ?? context.seenLoss;
  const start = { step: latest?.cut ?? 0, atMs: startedAtMs };
  const sample = { step, atMs: context.network.clock.now() };
  const stepsPerSecond = recentSpeed(watch, start, sample);
  const secondsLeft = (schedule.steps - step) / stepsPerSecond;
  record.append(scope.generation, {
    type: "run.progress",
    step,
    steps: schedule.steps,
    loss,
    losses: comparedLosses(heartbeat),
    samplesPerSecond: job.data.batchSize * stepsPerSecond,
    ...(Number.isFinite(secondsLeft) && { secondsLeft }),
    pushLag: slowestPush(context),
    repairedIds: repairedTables(job, metrics),
    learningRates: learningRatesAt(step, context),
    staleness: stalenessOf(job, metrics),
    dynamicIds: dynamicTables(job, metrics),
    times: timesSincePublished(watch),
  });
  return { seenStep: step, seenLoss: loss, watch: afterPublishing(watch, sample) };
}

/** The push of all hosts that has waited longest; undefined where none are made. */
function slowestPush({ trainersOf }: Context) {
  const all = [...trainersOf.values()].flatMap(({ pushLag }) => pushLag ?? []);
  return all.sort((a, b) => b.oldestMs - a.oldestMs)[0];
}

/** Most losses in one event. */
const lossesMax = 8;

/**
 * Selects the losses at multiples of a power of two, the smallest that leaves at most `lossesMax`.
 * The choice depends on the step number alone, so that generations of any speed report the same
 * steps.
 */
export function comparedLosses({ lossFrom, losses }: Pick<Heartbeat, "lossFrom" | "losses">) {
  let every = 1;
  while (losses.length > lossesMax * every) every *= 2;
  return losses
    .map((loss, at) => ({ step: lossFrom + at + 1, loss }))
    .filter(({ step }) => step % every === 0);
}

/** The learning rates of the last of `step` steps. */
function learningRatesAt(step: number, { job, metrics }: Pick<Context, "job" | "metrics">) {
  const left = metrics.plateau?.share ?? 1;
  const rateOf = ({ learningRate, schedule }: RatedOptimizer) =>
    learningRate * left * rateShare(schedule, Math.max(0, step - 1));
  return { dense: rateOf(job.optimizer.dense), sparse: rateOf(job.optimizer.sparse) };
}

type RatedOptimizer = Pick<Context["job"]["optimizer"]["dense"], "learningRate" | "schedule">;

/**
 * Publishes run.straggler for each new straggler. `isUneven`: a straggler has more slices than its
 * speed justifies.
 */
export function findStragglers(context: Context): {
  readonly stragglers: StragglerWatch;
  readonly isUneven: boolean;
} {
  const { record, scope, job, hosts, watch } = context;
  const slices = slicesOf(context);
  const assessed = assessDevices(context.stragglers, watch.latest, { hosts, slices });
  for (const { name, device, host, factor, speed } of assessed.stragglers) {
    record.append(scope.generation, { type: "run.straggler", device, host, factor });
    record.speeds.set(name, speed);
  }
  const servers = serversOf(job.placement, devicesOf(hosts));
  const deal = dealSlices(job.slices, hosts, record.speeds, servers);
  const isUneven = assessed.stragglers.some(
    ({ device }) => (deal?.[device] ?? 0) < (slices[device] ?? 0),
  );
  return { stragglers: assessed.watch, isUneven };
}

/** Slices per device, by rank. */
export function slicesOf({ job, hosts, sliceCounts }: Context): number[] {
  return sliceRunsOf(job.slices, devicesOf(hosts), sliceCounts).map(({ slices }) => slices);
}
