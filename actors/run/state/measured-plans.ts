// Measured step times of a run's plans, and whether another plan pays for the move to it. Plain
// data and pure functions; ../control/adapting-plan.ts requests plans and moves.

import type { AdaptSpec } from "../../../src/job/job-schema.ts";
import type { HostMeters } from "../../../src/training/meters/step-meter.ts";
import type { MeasuredRun } from "../../../src/training/planning/run-plan.ts";
import type { HostShare } from "../../host/membership.ts";
import { timesOfDevices, workMs } from "./straggler-watch.ts";

/** Measured plans that are kept; the oldest are dropped first. */
const plansMax = 8;
/** Limit on the shards of all plans in one message to a host, which bounds the message's size. */
const shardsMax = 8192;

/** The measurements of a run, over all its generations so far. */
export interface MeasuredSoFar {
  /** Oldest first, each with the devices per host that it was made for. */
  readonly plans: readonly (MeasuredRun & { readonly hosts: readonly number[] })[];
  /**
   * Duration of the last planned change, from the pause command to the first step with other
   * devices; undefined: there was none.
   */
  readonly changeSeconds: number | undefined;
}

/** Adds a measured plan, or replaces its earlier measurement. */
export function withMeasured(
  { plans, ...rest }: MeasuredSoFar,
  hosts: readonly number[],
  one: MeasuredRun,
): MeasuredSoFar {
  const isSame = (other: MeasuredSoFar["plans"][number]) =>
    other.hosts.join() === hosts.join() && JSON.stringify(other.plan) === JSON.stringify(one.plan);
  const others = plans.filter((other) => !isSame(other));
  return { ...rest, plans: [...others, { ...one, hosts }].slice(-plansMax) };
}

/**
 * Plans that were measured on these devices, newest last: as many as fit in a message
 * (`shardsMax`).
 */
export function measuredOn(
  { plans }: MeasuredSoFar,
  hosts: readonly number[],
): readonly MeasuredRun[] {
  const own = plans.filter((one) => one.hosts.join() === hosts.join());
  let first = own.length;
  for (let shards = 0; first > 0; first--) {
    shards += own[first - 1]?.plan.shards.length ?? 0;
    if (shards > shardsMax) break;
  }
  const newest = own.slice(Math.min(first, own.length - 1));
  return newest.map(({ plan, seconds }) => ({ plan, seconds }));
}

/** The meters of each host at the start of a window of steps. */
export type WindowStart = ReadonlyMap<number, HostMeters>;

/** Step times of the devices in a window of steps. */
export interface MeasuredWindow {
  /** (W): seconds of work of each device per step, without waiting. */
  readonly seconds: readonly number[];
  /** Seconds of a step, averaged over the devices. */
  readonly stepSeconds: number;
}

/** The window since `start`; undefined until each device has made `steps` steps. */
export function windowSince(
  start: WindowStart,
  latest: WindowStart,
  hosts: readonly HostShare[],
  steps: number,
): MeasuredWindow | undefined {
  const times = timesOfDevices(hosts, start, latest);
  const known = times.flatMap((one) => (one !== undefined && one.steps >= steps ? [one] : []));
  if (known.length < times.length) return undefined;
  const stepMs = known.reduce((sum, one) => sum + one.stepMs, 0) / known.length;
  return { seconds: known.map((one) => workMs(one) / 1000), stepSeconds: stepMs / 1000 };
}

/** Whether a run moves to another plan, and why. */
export interface MoveAssessment {
  /** The share of a step that the plan saves, by prediction. */
  readonly gain: number;
  /** Seconds saved in the remaining steps, and seconds that the move takes. */
  readonly savesSeconds: number;
  readonly moveSeconds: number;
  readonly isTaken: boolean;
}

/**
 * Compares the predicted savings of a plan with the cost of the move. `now`, `planned`: predicted
 * seconds of a step with the present plan and with the new one.
 */
export function assessMove(
  { now, planned }: { readonly now: number; readonly planned: number },
  run: {
    readonly stepSeconds: number;
    readonly stepsLeft: number;
    readonly moveSeconds: number;
  },
  { gainMin, margin }: Pick<AdaptSpec, "gainMin" | "margin">,
): MoveAssessment {
  const gain = now > 0 ? Math.max(0, 1 - planned / now) : 0;
  const savesSeconds = gain * run.stepSeconds * run.stepsLeft;
  const isWorth = gain > 0 && gain >= gainMin && savesSeconds >= margin * run.moveSeconds;
  return { gain, savesSeconds, moveSeconds: run.moveSeconds, isTaken: isWorth };
}
