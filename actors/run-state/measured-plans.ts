// What a run has measured of its plans, and whether another plan pays for the move to it. Plain
// data and pure functions; ../run-control/adapting-plan.ts asks for plans and moves.

import type { AdaptSpec } from "../../src/job/planner-options.ts";
import type { HostMeters } from "../../src/training/meters/step-meter.ts";
import type { MeasuredRun } from "../../src/training/planning/run-plan.ts";
import type { HostShare } from "../host/membership.ts";
import { timesOfDevices, workMs } from "./straggler-watch.ts";

/** Plans of the past that are remembered: of more, the oldest are forgotten. */
const plansMax = 8;
/** Shards of all plans that a host is told of: with more, a message might be too long to send. */
const shardsMax = 8192;

/** What a run has measured so far. */
export interface MeasuredSoFar {
  /** The oldest first, with the devices of the hosts that each was for. */
  readonly plans: readonly (MeasuredRun & { readonly hosts: readonly number[] })[];
  /** From when its devices were told to pause to the first step with others; undefined: never. */
  readonly changeSeconds: number | undefined;
}

/** The plans with another one, or with newer seconds of the last one. */
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

/** Those that were measured on such devices, the newest last: as many as a message holds. */
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
  const told = own.slice(Math.min(first, own.length - 1));
  return told.map(({ plan, seconds }) => ({ plan, seconds }));
}

/** The samples of all hosts from which steps are counted. */
export type WindowStart = ReadonlyMap<number, HostMeters>;

/** What devices did in a window of steps. */
export interface MeasuredWindow {
  /** (W): seconds that each device worked for a step. */
  readonly seconds: readonly number[];
  /** Seconds of a step: the mean of the devices. */
  readonly stepSeconds: number;
}

/** What devices did since `start`, once each of them has made `steps` steps. */
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

/** Whether a run goes on with another plan, and why. */
export interface MoveAssessment {
  /** The share of a step that the plan saves, by prediction. */
  readonly gain: number;
  /** Seconds that it saves in the steps that are left, and seconds of the move to it. */
  readonly savesSeconds: number;
  readonly moveSeconds: number;
  readonly isTaken: boolean;
}

/** Assesses a plan. `now`, `planned`: predicted seconds of a step without and with it. */
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
