// The watch over a generation's devices: which of them computes so much longer than the others that
// all wait for it. Plain data and pure functions, over what hosts have sampled of their devices.

import {
  type HostMeters,
  type StepTimes,
  timesBetween,
} from "../../src/training/meters/step-meter.ts";
import type { HostShare } from "../host/membership.ts";

/** A device in any generation: its host, and its number there. */
export type DeviceName = `${number}/${number}`;

export interface StragglerWatch {
  /** The samples at the end of the last window. */
  readonly assessed: ReadonlyMap<number, HostMeters>;
  /** Windows in a row in which a device was slow. */
  readonly slowFor: ReadonlyMap<DeviceName, number>;
}

/** Nothing was judged yet. */
export const noStragglers: StragglerWatch = { assessed: new Map(), slowFor: new Map() };

/** Time of every device's steps that makes a window: less may be a hiccup. */
const windowMs = 1000;
/** Windows in a row after which a slow device is named. */
const windows = 3;
/** How much longer than the median of the others a slow device computes. */
const slowFactor = 2;

/** A device that all others wait for. */
export interface Straggler {
  readonly name: DeviceName;
  /** Its rank, and its host. */
  readonly device: number;
  readonly host: number;
  /** Its time to compute a step, over the median of the others'. */
  readonly factor: number;
  /** Slices that it computes in a time in which the others compute one, in the median. */
  readonly speed: number;
}

/** Devices by rank. */
export function deviceNames(hosts: readonly HostShare[]): DeviceName[] {
  return hosts.flatMap(({ host, devices }) =>
    Array.from({ length: devices }, (_, index) => `${host}/${index}` as const),
  );
}

/**
 * Assesses the devices of all hosts once each has stepped for a while since they were last
 * assessed. `slices`: the slices of each device, by rank. A straggler is named once, until it was
 * fast again.
 */
export function assessDevices(
  watch: StragglerWatch,
  latest: ReadonlyMap<number, HostMeters>,
  { hosts, slices }: { readonly hosts: readonly HostShare[]; readonly slices: readonly number[] },
): { readonly watch: StragglerWatch; readonly stragglers: readonly Straggler[] } {
  const none = { watch, stragglers: [] };
  const times = timesOfDevices(hosts, watch.assessed, latest);
  const computing: number[] = [];
  for (const one of times) {
    if (one === undefined || one.steps * one.stepMs < windowMs) return none;
    computing.push(workMs(one));
  }
  if (computing.length < 2) return none;
  const slowFor = new Map<DeviceName, number>();
  const stragglers: Straggler[] = [];
  const hostOf = hosts.flatMap(({ host, devices }) => new Array<number>(devices).fill(host));
  for (const [device, name] of deviceNames(hosts).entries()) {
    const own = computing[device] ?? 0;
    const others = medianBut(device, computing);
    const factor = own / others;
    if (others === 0 || factor < slowFactor) continue; // Of no time nothing is known.
    const count = (watch.slowFor.get(name) ?? 0) + 1;
    slowFor.set(name, count);
    if (count !== windows) continue;
    const perSlice = computing.map((ms, rank) => ms / (slices[rank] ?? 1));
    const speed = medianBut(device, perSlice) / (perSlice[device] ?? 1);
    stragglers.push({ name, device, host: hostOf[device] ?? 0, factor, speed });
  }
  return { watch: { assessed: new Map(latest), slowFor }, stragglers };
}

/** By rank: the times of each device between two samples of the hosts; undefined: no step. */
export function timesOfDevices(
  hosts: readonly HostShare[],
  before: ReadonlyMap<number, HostMeters>,
  latest: ReadonlyMap<number, HostMeters>,
): (StepTimes | undefined)[] {
  return hosts.flatMap(({ host, devices }) =>
    Array.from({ length: devices }, (_, at) => {
      const [from, to] = [ofDevice(before.get(host), at), ofDevice(latest.get(host), at)];
      return to && timesBetween([{ from, to }]);
    }),
  );
}

/** Milliseconds of a step in which a device works itself, and waits for nobody. */
export function workMs({ stepMs, shares }: StepTimes): number {
  return stepMs * (shares.computing + shares.sendingIds);
}

/** Slices of each device, by rank: as many to each as it computes in the same time. */
export function dealSlices(
  slices: number,
  hosts: readonly HostShare[],
  speeds: ReadonlyMap<DeviceName, number>,
): number[] | undefined {
  const names = deviceNames(hosts);
  if (!names.some((name) => speeds.has(name))) return undefined; // Evenly.
  const counts = names.map(() => 1);
  for (let left = slices - names.length; left > 0; left--) {
    const ends = names.map((name, at) => ((counts[at] ?? 0) + 1) / (speeds.get(name) ?? 1));
    const first = ends.indexOf(Math.min(...ends));
    counts[first] = (counts[first] ?? 0) + 1;
  }
  return counts;
}

function ofDevice(meters: HostMeters | undefined, at: number): HostMeters | undefined {
  const words = meters?.devices[at];
  return words === undefined ? undefined : { devices: [words], reading: [0, 0] };
}

/** The median of all but one; of two in the middle, the slower. */
function medianBut(device: number, values: readonly number[]): number {
  const others = values.filter((_, at) => at !== device).sort((a, b) => a - b);
  return others[Math.floor(others.length / 2)] ?? 0;
}
