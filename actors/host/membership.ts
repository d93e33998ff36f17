// The membership: the hosts of a cluster, its own and the hosts that joined. It is plain data that
// no actor owns, so any actor may die and find it again.
//
// Invariants
//   M1. An index is given to one process and never to another: a message to a host that is gone
//       reaches no other host.
//   M2. Silence is counted in beats that this process could have heard, not in time: an event loop
//       that stalls for a while counts one beat.
//   M3. A host that is leaving is given to no generation, and may go once none holds it.
//   M4. Devices that one run has taken are given to no other run until it lets go of them.
//   M5. A host that makes a generation, and reads checkpoints, is given a longer silence: on a busy
//       machine its beats come late, though it is well.

import { ArithmeticMismatchError, VersionMismatchError } from "../../src/errors/errors.ts";
import { expected } from "../../src/ports/check-options.ts";
import { assemblingSilences, beatMs, usualHostSilenceMs } from "../../src/ports/deadlines.ts";

/** A host that is there. */
export interface HostRecord {
  readonly host: number;
  readonly devices: number;
  /** Where it runs, for people. */
  readonly machine: string;
  readonly pid: number;
}

/** What a process that wants to be a host says of itself. */
export interface Announcement extends Omit<HostRecord, "host"> {
  /** A random number that identifies the process, before it has an index and after. */
  readonly key: number;
  readonly arithmetic: string;
  readonly version: string;
  /** Whether it wants to leave, and stays only while a run has devices of it. */
  readonly isLeaving: boolean;
}

/** The part of a run's devices that one host has, in the order of ranks. */
export interface HostShare {
  readonly host: number;
  readonly devices: number;
}

/** Devices of all shares. */
export function devicesOf(shares: readonly Pick<HostShare, "devices">[]): number {
  return shares.reduce((sum, { devices }) => sum + devices, 0);
}

/** As many as the most devices of a run: more hosts would be of no use. */
const hostsMax = 128;
/** Beats after which a host that is gone is forgotten: if it comes back, it is a new host. */
const rememberedBeats = 1000;

interface Member extends HostRecord {
  missed: number;
  readonly isLeaving: boolean;
}

export class Membership {
  /** A run waits for so many devices, unless its job says how many. */
  readonly minDevices: number;
  /** Longest wait for them. */
  readonly joinDeadlineMs: number;
  /** A host is lost when it was not heard for so long, unless it assembles a generation. M5 */
  readonly hostSilenceMs: number;
  readonly #missedMax: number;
  readonly #assembling = new Set<readonly HostShare[]>();
  readonly #own: readonly HostRecord[];
  readonly #expected: { readonly arithmetic: string; readonly version: string };
  readonly #members = new Map<number, Member>();
  readonly #listeners = new Set<() => void>();
  readonly #onFree = new Set<() => void>();
  readonly #held = new Set<readonly HostShare[]>();
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
    /** The arithmetic that every host must have. */
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
   * The index of a process that announces itself.
   * @throws VersionMismatchError, ArithmeticMismatchError, InvalidOptionError (too many hosts)
   */
  announce(announcement: Announcement): number {
    const { key, devices, machine, pid, arithmetic, version, isLeaving } = announcement;
    const { version: ownVersion, arithmetic: ownArithmetic } = this.#expected;
    if (version !== ownVersion) throw new VersionMismatchError(ownVersion, version);
    if (arithmetic !== ownArithmetic) throw new ArithmeticMismatchError(ownArithmetic, arithmetic);
    const known = this.#members.get(key);
    if (known === undefined) this.#makeRoom();
    const isBack = known !== undefined && !this.#isGone(known);
    const host = known?.host ?? this.#nextHost++; // M1
    this.#members.set(key, { host, devices, machine, pid, missed: 0, isLeaving });
    if (!isBack || known.isLeaving !== isLeaving) this.#changed();
    return host;
  }

  /** M3 */
  mayLeave(host: number): boolean {
    return this.isLeaving(host) && ![...this.#held].flat().some((share) => share.host === host);
  }

  isLeaving(host: number): boolean {
    return [...this.#members.values()].some((one) => one.host === host && one.isLeaving);
  }

  /** A generation has devices of these hosts, until the returned function is called. */
  hold(shares: readonly HostShare[]): () => void {
    this.#held.add(shares);
    return () => this.#held.delete(shares);
  }

  /** Gives indices from `host` on: no other leader of the cluster gives these. */
  countFrom(host: number): void {
    this.#nextHost = host;
  }

  leave(key: number): void {
    if (this.#members.delete(key)) this.#changed();
  }

  /** Another actor noticed that a host is lost: it is gone until it announces itself again. */
  doubt(host: number): void {
    for (const member of this.#members.values()) {
      if (member.host !== host || this.#isGone(member)) continue;
      member.missed = assemblingSilences * (this.#missedMax + 1);
      this.#changed();
    }
  }

  /** A beat went by in which all hosts could have been heard. */
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

  /** Hosts make a generation and restore it, until the returned function is called. M5 */
  assemble(shares: readonly HostShare[]): () => void {
    this.#assembling.add(shares);
    return () => {
      const hosts = new Set(shares.map(({ host }) => host));
      for (const member of this.#members.values()) {
        // It has answered just now, or its generation is over: its silence is counted anew.
        if (hosts.has(member.host) && !this.#isGone(member)) member.missed = 0;
      }
      this.#assembling.delete(shares);
    };
  }

  /** Whether a host missed more beats than it may. M5 */
  #isGone({ host, missed }: Member): boolean {
    const isAssembling = [...this.#assembling].flat().some((share) => share.host === host);
    const beats = this.#missedMax + 1;
    return missed >= (isAssembling ? assemblingSilences * beats : beats);
  }

  /** The hosts that are there, in the order of their indices. */
  present(): HostRecord[] {
    const joined = [...this.#members.values()]
      .filter((member) => !this.#isGone(member))
      .map(({ host, devices, machine, pid }) => ({ host, devices, machine, pid }));
    return [...this.#own, ...joined].sort((a, b) => a.host - b.host);
  }

  has(host: number): boolean {
    return this.present().some((one) => one.host === host);
  }

  /** Devices of all hosts that are there, and stay. */
  get devices(): number {
    return devicesOf(this.#staying());
  }

  /** Devices that a run may have: on hosts that stay, and not taken by another run. M4 */
  devicesFor(run: string): number {
    return devicesOf(this.sharesFor(run, Number.POSITIVE_INFINITY));
  }

  /** From now on no run has more devices than `most` says when it is asked. */
  bound(boundOf: (run: string) => number): void {
    this.#boundOf = boundOf;
  }

  /** The first `most` of them, host by host. */
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

  /** The run takes these devices instead of the devices that it had. */
  take(run: string, shares: readonly HostShare[]): void {
    const before = this.takenBy(run);
    this.#taken.set(run, shares);
    if (devicesOf(shares) < before) this.#tellFree();
  }

  /** Runs that have taken devices. */
  get takers(): Iterable<string> {
    return this.#taken.keys();
  }

  /** Devices that a run has taken. */
  takenBy(run: string): number {
    return devicesOf(this.#taken.get(run) ?? []);
  }

  /** The run needs no devices any more. */
  letGo(run: string): void {
    if (this.#taken.delete(run)) this.#tellFree();
  }

  /** M3 */
  #staying(): HostRecord[] {
    return this.present().filter(({ host }) => !this.isLeaving(host));
  }

  /** Calls `listen` whenever a host has come or gone, or wants to go. */
  onChange(listen: () => void): () => void {
    this.#listeners.add(listen);
    return () => this.#listeners.delete(listen);
  }

  /** Calls `listen` as `onChange` does, and when a run lets go of devices. */
  onFree(listen: () => void): () => void {
    this.#onFree.add(listen);
    return () => this.#onFree.delete(listen);
  }

  /** Forgets the host that has been gone for longest, if there are too many. */
  #makeRoom(): void {
    if (this.#members.size < hostsMax) return;
    const [oldest] = [...this.#members].sort(([, a], [, b]) => b.missed - a.missed);
    if (oldest === undefined || !this.#isGone(oldest[1]))
      throw expected("hosts", `at most ${hostsMax} in a cluster`, hostsMax + 1);
    this.#members.delete(oldest[0]);
  }

  #changed(): void {
    for (const listen of [...this.#listeners]) listen();
    this.#tellFree();
  }

  #tellFree(): void {
    for (const listen of [...this.#onFree]) listen();
  }
}
