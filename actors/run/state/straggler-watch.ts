// Straggler watch of a generation: finds devices that compute so much longer than the others that
// all wait for them. Plain data and pure functions over the meters of the hosts.

import { slicesBeside } from "../../../src/planner/placement.ts";
import {
  type HostMeters,
  type StepTimes,
  timesBetween,
} from "../../../src/training/meters/step-meter.ts";
import type { HostShare } from "../../host/membership.ts";

/** Name of a device across generations: its host, and its number on that host. */
export type DeviceName = `${number}/${number}`;

export interface StragglerWatch {
  /** The meters of each host at the end of the last window. */
  readonly assessed: ReadonlyMap<number, HostMeters>;
  /** Consecutive windows in which a device was slow. */
  readonly slowFor: ReadonlyMap<DeviceName, number>;
}

/** The watch of a new generation: no window yet. */
export const noStragglers: StragglerWatch = { assessed: new Map(), slowFor: new Map() };

/** Step time of every device that makes a window: over less, one short pause would count. */
const windowMs = 1000;
/** Consecutive slow windows after which a device is a straggler. */
const windows = 3;
/** Compute time of a slow device, as a multiple of the median of the others. */
const slowFactor = 2;

/** A device for which all others wait. */
export interface Straggler {
  readonly name: DeviceName;
  /** Rank of the device, and its host. */
  readonly device: number;
  readonly host: number;
  /** Its compute time per step, divided by the median of the others. */
  readonly factor: number;
  /** Slices that it computes in the time in which the median of the others computes one. */
  readonly speed: number;
}

/** Names of the devices, by rank. */
export function deviceNames(hosts: readonly HostShare[]): DeviceName[] {
  return hosts.flatMap(({ host, devices }) =>
    Array.from({ length: devices }, (_, index) => `${host}/${index}` as const),
  );
}

/**
 * Assesses the devices of all hosts once each has stepped for `windowMs` since the last assessment.
 * `slices`: slices per device, by rank. A straggler is reported once, until it has been fast again.
 */
export function assessDevices(
  watch: StragglerWatch,
  latest: ReadonlyMap<number, HostMeters>,
  { hosts, slices }: { readonly hosts: readonly HostShare[]; readonly slices: readonly number[] },
): { readonly watch: StragglerWatch; readonly stragglers: readonly Straggler[] } {
  const none = { watch, stragglers: [] };
  const times = timesOfDevices(hosts, watch.assessed, latest);
  const computing: number[] = [];
  for (const [rank, one] of times.entries()) {
    if (one === undefined || one.steps * one.stepMs < windowMs) return none;
    // A server has no slices that another device could take: it is compared with none.
    computing.push(slices[rank] === 0 ? Number.NaN : workMs(one));
  }
  if (computing.filter(Number.isFinite).length < 2) return none;
  const slowFor = new Map<DeviceName, number>();
  const stragglers: Straggler[] = [];
  const hostOf = hosts.flatMap(({ host, devices }) => new Array<number>(devices).fill(host));
  for (const [device, name] of deviceNames(hosts).entries()) {
    const own = computing[device] ?? 0;
    const others = medianBut(device, computing);
    const factor = own / others;
    if (others === 0 || !(factor >= slowFactor)) continue; // A median of 0 allows no comparison.
    const count = (watch.slowFor.get(name) ?? 0) + 1;
    slowFor.set(name, count);
    if (count !== windows) continue;
    const perSlice = computing.map((ms, rank) => ms / (slices[rank] ?? 1));
    const speed = medianBut(device, perSlice) / (perSlice[device] ?? 1);
    stragglers.push({ name, device, host: hostOf[device] ?? 0, factor, speed });
  }
  return { watch: { assessed: new Map(latest), slowFor }, stragglers };
}

/** By rank: the step times of each device between two samples of the hosts; undefined: no step. */
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

/** Milliseconds of work of a device per step, without waiting for other actors. */
export function workMs({ stepMs, shares }: StepTimes): number {
  return stepMs * (shares.computing + shares.sendingIds);
}

/**
 * Deals slices to devices in proportion to their speed, by rank: each slice goes to the device that
 * would finish it first. The last `servers` devices get none. Undefined where all devices have even
 * shares, as no speed is known.
 */
export function dealSlices(
  slices: number,
  hosts: readonly HostShare[],
  speeds: ReadonlyMap<DeviceName, number>,
  servers = 0,
): number[] | undefined {
  const all = deviceNames(hosts);
  const names = all.slice(0, all.length - servers);
  if (!names.some((name) => speeds.has(name))) return slicesBeside(slices, all.length, servers);
  const counts = names.map(() => 1);
  for (let left = slices - names.length; left > 0; left--) {
    const ends = names.map((name, at) => ((counts[at] ?? 0) + 1) / (speeds.get(name) ?? 1));
    const first = ends.indexOf(Math.min(...ends));
    counts[first] = (counts[first] ?? 0) + 1;
  }
  return [...counts, ...new Array<number>(servers).fill(0)];
}

function ofDevice(meters: HostMeters | undefined, at: number): HostMeters | undefined {
  const words = meters?.devices[at];
  return words === undefined ? undefined : { devices: [words], reading: [0, 0] };
}

/** Median of the values of the others, servers left out; of two middle values, the larger. */
function medianBut(device: number, values: readonly number[]): number {
  const others = values.filter((value, at) => at !== device && Number.isFinite(value));
  others.sort((a, b) => a - b);
  return others[Math.floor(others.length / 2)] ?? 0;
}
