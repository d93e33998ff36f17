// The membership: the hosts of a cluster, its own host and those that joined. Plain data that no
// actor owns, so that it survives the restart of any actor.
//
// Invariants
//   M1. An index is given to one process and never reused: a message to a lost host reaches no
//       other host.
//   M2. A host is lost after some beats of this process without an announcement. Beats are counted,
//       not time: if this process stalls for seconds, it counts one beat, and loses no host.
//   M3. A leaving host gets no new generation, and may leave once no generation holds it.
//   M4. Devices allocated to one run are given to no other run until it releases them.
//   M5. A host that assembles a generation, and reads checkpoints, is allowed a longer silence: on
//       a busy machine its heartbeats are late although it is healthy.

import { ArithmeticMismatchError, VersionMismatchError } from "../../src/errors/errors.ts";
import type { HostMachine } from "../../src/planner/fleet.ts";
import { expected } from "../../src/ports/check-options.ts";
import { assemblingSilences, beatMs, usualHostSilenceMs } from "../../src/ports/deadlines.ts";

/** A present host. */
export interface HostRecord {
  readonly host: number;
  readonly devices: number;
  /** Name of its machine, for operators. */
  readonly machine: string;
  readonly pid: number;
  /** Its memory, cores and speed; left out: as those of the first host of a run. */
  readonly hardware?: HostMachine | undefined;
  /** Of a host that leaves: why, and the seconds after which it ends in any case. */
  readonly drain?: Drain | undefined;
}

export interface Drain {
  readonly reason: string;
  readonly seconds: number;
}

/** The announcement of a process that joins as a host. */
export interface Announcement extends Omit<HostRecord, "host"> {
  /** A random number that identifies the process before and after it has an index. */
  readonly key: number;
  readonly arithmetic: string;
  readonly version: string;
  /** Whether it is leaving, and stays only while a run uses its devices. */
  readonly isLeaving: boolean;
}

/** The devices that one host contributes to a run, in rank order. */
export interface HostShare {
  readonly host: number;
  readonly devices: number;
}

/** Total devices of all shares. */
export function devicesOf(shares: readonly Pick<HostShare, "devices">[]): number {
  return shares.reduce((sum, { devices }) => sum + devices, 0);
}

/**
 * The shares in the order of a former generation: hosts that stay keep their places, so that their
 * devices keep their ranks and shards; new hosts take the places of lost ones, those with as many
 * devices first.
 */
export function inFormerPlaces(
  shares: readonly HostShare[],
  former: readonly HostShare[],
): HostShare[] {
  const places = former.map(({ host }) => shares.find((share) => share.host === host));
  const others = shares.filter(({ host }) => !former.some((one) => one.host === host));
  for (const isFit of [(i: number, n: number) => former[i]?.devices === n, () => true]) {
    for (const [i, place] of places.entries()) {
      const at = others.findIndex(({ devices }) => isFit(i, devices));
      if (place === undefined && at >= 0) [places[i]] = others.splice(at, 1);
    }
  }
  return [...places.flatMap((place) => place ?? []), ...others];
}

/** Limit on hosts: each beats four times a second to one leader. */
const hostsMax = 128;
/** Beats after which a lost host is forgotten; if it returns later, it gets a new index. */
const rememberedBeats = 1000;

interface Member extends HostRecord {
  missed: number;
  readonly isLeaving: boolean;
}

export class Membership {
  /** Devices that a run waits for, unless its job says how many. */
  readonly minDevices: number;
  /** Longest wait for these devices. */
  readonly joinDeadlineMs: number;
  /** Silence after which a host is lost, unless it is assembling a generation. M5 */
  readonly hostSilenceMs: number;
  readonly #missedMax: number;
  readonly #assembling = new Set<readonly HostShare[]>();
  readonly #own: readonly HostRecord[];
  readonly #expected: { readonly arithmetic: string; readonly version: string };
  readonly #members = new Map<number, Member>();
  readonly #listeners = new Set<() => void>();
  readonly #onFree = new Set<() => void>();
  /** By a generation's shares: its hosts that it no longer needs. */
  readonly #held = new Map<readonly HostShare[], Set<number>>();
  readonly #taken = new Map<string, readonly HostShare[]>();
  #boundOf: (run: string) => number = () => Number.POSITIVE_INFINITY;
  #nextHost = 1;

  constructor(options: {
    readonly minDevices: number;
    readonly joinDeadlineMs: number;
    /** @default 1250 */
    readonly hostSilenceMs?: number;
    /** Host 0, in the cluster's own process; undefined if that process has no devices. */
    readonly own: HostRecord | undefined;
    /** The kernels that every host must use. */
    readonly arithmetic: string;
    readonly version: string;
  }) {
    const { minDevices, joinDeadlineMs, own, arithmetic, version } = options;
    this.minDevices = minDevices;
    this.joinDeadlineMs = joinDeadlineMs;
    this.hostSilenceMs = options.hostSilenceMs ?? usualHostSilenceMs;
    this.#missedMax = Math.ceil(this.hostSilenceMs / beatMs) - 1;
    this.#own = own === undefined ? [] : [own];
    this.#expected = { arithmetic, version };
  }

  /**
   * Admits or confirms a process that announces itself, and returns its index.
   * @throws VersionMismatchError, ArithmeticMismatchError, InvalidOptionError (too many hosts)
   */
  announce(announcement: Announcement): number {
    const { key, arithmetic, version, ...record } = announcement;
    const { version: ownVersion, arithmetic: ownArithmetic } = this.#expected;
    if (version !== ownVersion) throw new VersionMismatchError(ownVersion, version);
    if (arithmetic !== ownArithmetic) throw new ArithmeticMismatchError(ownArithmetic, arithmetic);
    const known = this.#members.get(key);
    if (known === undefined) this.#makeRoom();
    const isBack = known !== undefined && !this.#isGone(known);
    const host = known?.host ?? this.#nextHost++; // M1
    this.#members.set(key, { host, ...record, missed: 0 });
    if (!isBack || known.isLeaving !== record.isLeaving) this.#changed();
    return host;
  }

  /** Whether a leaving host is free to leave. M3 */
  mayLeave(host: number): boolean {
    const isHeld = [...this.#held].some(
      ([shares, gone]) => !gone.has(host) && shares.some((share) => share.host === host),
    );
    return this.isLeaving(host) && !isHeld;
  }

  isLeaving(host: number): boolean {
    return [...this.#members.values()].some((one) => one.host === host && one.isLeaving);
  }

  /**
   * Keeps leaving hosts in the membership for a generation, until the returned function is called.
   */
  hold(shares: readonly HostShare[]): () => void {
    this.#held.set(shares, new Set());
    return () => this.#held.delete(shares);
  }

  /** Notes that the generation of these shares no longer needs a leaving host. */
  letGoOf(host: number, shares: readonly HostShare[]): void {
    this.#held.get(shares)?.add(host);
  }

  /** Assigns indices from `host` on, a range that no other leader of the cluster uses. */
  countFrom(host: number): void {
    this.#nextHost = host;
  }

  leave(key: number): void {
    if (this.#members.delete(key)) this.#changed();
  }

  /** Marks a host as lost on another actor's evidence, until it announces itself again. */
  doubt(host: number): void {
    for (const member of this.#members.values()) {
      if (member.host !== host || this.#isGone(member)) continue;
      member.missed = assemblingSilences * (this.#missedMax + 1);
      this.#changed();
    }
  }

  /** Counts a missed beat for each host, until it announces itself. Called only while connected. */
  beat(): void {
    let hasChanged = false;
    for (const [key, member] of [...this.#members]) {
      const wasGone = this.#isGone(member);
      member.missed++; // M2
      if (!wasGone && this.#isGone(member)) hasChanged = true;
      if (member.missed > this.#missedMax + rememberedBeats) this.#members.delete(key);
    }
    if (hasChanged) this.#changed();
  }

  /** Marks hosts as assembling a generation, until the returned function is called. M5 */
  assemble(shares: readonly HostShare[]): () => void {
    this.#assembling.add(shares);
    return () => {
      const hosts = new Set(shares.map(({ host }) => host));
      for (const member of this.#members.values()) {
        // The host has just answered, or its generation is over: its missed beats start at 0.
        if (hosts.has(member.host) && !this.#isGone(member)) member.missed = 0;
      }
      this.#assembling.delete(shares);
    };
  }

  /** Whether a host has missed more beats than allowed. M5 */
  #isGone({ host, missed }: Member): boolean {
    const isAssembling = [...this.#assembling].flat().some((share) => share.host === host);
    const beats = this.#missedMax + 1;
    return missed >= (isAssembling ? assemblingSilences * beats : beats);
  }

  /** The present hosts, by index. */
  present(): HostRecord[] {
    const joined = [...this.#members.values()]
      .filter((member) => !this.#isGone(member))
      .map(({ missed: _, isLeaving: __, ...record }) => record);
    return [...this.#own, ...joined].sort((a, b) => a.host - b.host);
  }

  has(host: number): boolean {
    return this.present().some((one) => one.host === host);
  }

  /** Devices of all present hosts that are not leaving. */
  get devices(): number {
    return devicesOf(this.#staying());
  }

  /**
   * Devices available to a run: on hosts that are not leaving, and not allocated to another run. M4
   */
  devicesFor(run: string): number {
    return devicesOf(this.sharesFor(run, Number.POSITIVE_INFINITY));
  }

  /** Limits the devices of each run to `boundOf(run)`, evaluated at each allocation. */
  bound(boundOf: (run: string) => number): void {
    this.#boundOf = boundOf;
  }

  /** The first `most` of the devices available to a run, host by host. */
  sharesFor(run: string, most: number): HostShare[] {
    const others = [...this.#taken].filter(([other]) => other !== run).flatMap(([, some]) => some);
    let left = Math.min(most, this.#boundOf(run));
    const shares: HostShare[] = [];
    for (const { host, devices } of this.#staying()) {
      const free = devices - devicesOf(others.filter((share) => share.host === host));
      const used = Math.min(left, free);
      if (used > 0) shares.push({ host, devices: used });
      left -= Math.max(0, used);
    }
    return shares;
  }

  /** Allocates these devices to the run in place of its former ones. */
  take(run: string, shares: readonly HostShare[]): void {
    const before = this.takenBy(run);
    this.#taken.set(run, shares);
    if (devicesOf(shares) < before) this.#notifyFree();
  }

  /** Runs with allocated devices. */
  get takers(): Iterable<string> {
    return this.#taken.keys();
  }

  /** Number of devices allocated to a run. */
  takenBy(run: string): number {
    return devicesOf(this.#taken.get(run) ?? []);
  }

  /** Releases all devices of the run. */
  letGo(run: string): void {
    if (this.#taken.delete(run)) this.#notifyFree();
  }

  /** Present hosts that are not leaving. M3 */
  #staying(): HostRecord[] {
    return this.present().filter(({ host }) => !this.isLeaving(host));
  }

  /** Calls `listen` whenever a host joins, is lost or starts to leave. */
  onChange(listen: () => void): () => void {
    this.#listeners.add(listen);
    return () => this.#listeners.delete(listen);
  }

  /** Calls `listen` like `onChange`, and when a run releases devices. */
  onFree(listen: () => void): () => void {
    this.#onFree.add(listen);
    return () => this.#onFree.delete(listen);
  }

  /** Evicts the host that has been lost for longest, if the cluster is full. */
  #makeRoom(): void {
    if (this.#members.size < hostsMax) return;
    const [oldest] = [...this.#members].sort(([, a], [, b]) => b.missed - a.missed);
    if (oldest === undefined || !this.#isGone(oldest[1]))
      throw expected("hosts", `at most ${hostsMax} in a cluster`, hostsMax + 1);
    this.#members.delete(oldest[0]);
  }

  #changed(): void {
    for (const listen of [...this.#listeners]) listen();
    this.#notifyFree();
  }

  #notifyFree(): void {
    for (const listen of [...this.#onFree]) listen();
  }
}
