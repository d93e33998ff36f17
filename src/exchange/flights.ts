// Measures how long bytes of the exchange were in flight between hosts, and how much of that time
// devices waited; the rest was hidden behind computation. The bridge adds flights, devices add
// their waits, and the host samples both with its meters (src/training/meters/step-meter.ts). No
// computation depends on them.
//
//   words 0..C        flight of any channel; of each of the C channels
//   words C+1..2C+1   waits of the host's devices for them, as far as bytes were in flight
//   words 2C+2..      when the last flight landed, since 1970
//
// All words only grow; the host samples the first two groups. Where flights of a channel overlap,
// the time counts once.
//
// A bridge stamps its frames with the time at which their oldest bytes were due. The clocks of two
// hosts differ. The least transit of a frame, seen at both ends, gives offset and delay, as in NTP:
//
//   least(a → b) = delay + offset        least(b → a) = delay - offset

import type { Clock } from "../ports/clock.ts";
import type { Timeline } from "../ports/timeline.ts";
import { type ChannelName, channelNames, insideHost } from "./exchange.ts";
import type { FrameStamp } from "./frame.ts";
import type { RoutedChannel } from "./routes.ts";

/** The channels whose bytes travel between hosts. */
export const flownChannels = [
  ...channelNames.filter((name) => !insideHost.has(name)),
  "gradients",
] as const satisfies readonly (ChannelName | "gradients")[];

/** Words of a group. */
const words = 1 + flownChannels.length;
/** Bytes of all words of a host. */
export const flightBytes: number = 8 * 3 * words;

/** Index of a channel in a group of words; undefined: the channel stays inside a host. */
export function flightOf(channel: string): number | undefined {
  const at = flownChannels.indexOf(channel as ChannelName);
  return at < 0 ? undefined : 1 + at;
}

/** The device's end: reads the flight times so far, and adds the device's waits. */
export interface FlightWaits {
  /** Milliseconds that bytes of a channel were in flight; 0: of any. */
  flown(channel: number): number;
  /**
   * Adds the time with bytes in flight of a wait that began at `fromMs`, in milliseconds since
   * 1970. `flownMs`: value of `flown` at that time.
   */
  add(channel: number, fromMs: number, flownMs: number): void;
}

export function openFlightWaits(memory: SharedArrayBuffer | undefined): FlightWaits | undefined {
  if (memory === undefined) return undefined;
  const [flown, landed, waited] = [timesIn(memory, 0), timesIn(memory, 2), waitsIn(memory)];
  return {
    flown: (channel) => flown[channel] ?? 0,
    add(channel, fromMs, flownMs) {
      const ms = Math.min((flown[channel] ?? 0) - flownMs, (landed[channel] ?? 0) - fromMs);
      if (ms > 0) Atomics.add(waited, channel, BigInt(Math.round(1000 * ms)));
    },
  };
}

/** A sample of the first two groups, in whole microseconds. */
export function sampledFlights(memory: SharedArrayBuffer | undefined): number[] | undefined {
  if (memory === undefined) return undefined;
  const waited = Array.from(waitsIn(memory), (_, at) => Number(Atomics.load(waitsIn(memory), at)));
  return [...Array.from(timesIn(memory, 0), (ms) => Math.floor(1000 * ms)), ...waited];
}

/** A group of times in milliseconds, which the bridge alone writes, before the cells of a round. */
function timesIn(memory: SharedArrayBuffer, group: 0 | 2): Float64Array {
  return new Float64Array(memory, 8 * group * words, words);
}

/** The waits in microseconds, to which all devices of the host add. */
function waitsIn(memory: SharedArrayBuffer): BigInt64Array {
  return new BigInt64Array(memory, 8 * words, words);
}

/** Flights and waits of a host in a sample of its words: for any channel, and for each. */
export function flightsIn(sample: readonly number[]) {
  return { flown: sample.slice(0, words), waited: sample.slice(words) };
}

/** Time for which the least transit counts: clocks drift by some 50 µs a second. */
const leastMs = 2000;

/** The clock of another host, seen through its frames. */
class PeerClock {
  #least = Number.POSITIVE_INFINITY;
  #leastBefore = Number.POSITIVE_INFINITY;
  #sinceMs = 0;
  #theirs: number | undefined;

  /** Takes the stamp of a frame; returns when its bytes were due, by this host's clock. */
  due({ dueMs, leastMs: theirs }: FrameStamp, nowMs: number): number {
    if (nowMs - this.#sinceMs > leastMs) {
      this.#leastBefore = this.#least;
      this.#least = Number.POSITIVE_INFINITY;
      this.#sinceMs = nowMs;
    }
    this.#least = Math.min(this.#least, nowMs - dueMs);
    if (theirs !== undefined) this.#theirs = theirs;
    return Math.min(nowMs, dueMs + this.offsetMs);
  }

  /** The least transit, offset included. */
  get leastMs(): number | undefined {
    const least = Math.min(this.#least, this.#leastBefore);
    return Number.isFinite(least) ? least : undefined;
  }

  /** How far this host's clock is ahead of the other's. */
  get offsetMs(): number {
    const least = this.leastMs ?? 0;
    return this.#theirs === undefined ? least : (least - this.#theirs) / 2;
  }
}

/** The stretches of time with a flight, of any channel or of one. */
interface Stretches {
  /** The newest stretches, in order; a long flight may merge several of them. */
  readonly last: { readonly fromMs: number; readonly toMs: number }[];
  /** End of the newest stretch that is no longer in `last`. */
  countedMs: number;
  sumMs: number;
}

/** Most stretches that a flight may join. */
const stretchesMax = 8;

/** The flights that a bridge sends and receives. */
export class FlightLog {
  readonly #clock: Clock;
  readonly #timeline: Timeline | undefined;
  readonly #peers: ReadonlyMap<number, PeerClock>;
  readonly #flown: Float64Array | undefined;
  readonly #landed: Float64Array | undefined;
  readonly #stretches = Array.from({ length: words }, (): Stretches => {
    return { last: [], countedMs: 0, sumMs: 0 };
  });

  constructor(options: {
    readonly clock: Clock;
    readonly hosts: readonly number[];
    readonly memory?: SharedArrayBuffer | undefined;
    readonly timeline?: Timeline | undefined;
  }) {
    this.#clock = options.clock;
    this.#timeline = options.timeline;
    this.#flown = options.memory && timesIn(options.memory, 0);
    this.#landed = options.memory && timesIn(options.memory, 2);
    this.#peers = new Map(options.hosts.map((host) => [host, new PeerClock()]));
  }

  /** The stamp of a frame to a host; `dueMs` undefined: it only acknowledges. */
  stamp(host: number, dueMs = this.#clock.epochMs()): FrameStamp {
    return { dueMs, leastMs: this.#peers.get(host)?.leastMs };
  }

  /** When the bytes of a frame that arrives now were due, by this host's clock. */
  due(host: number, stamp: FrameStamp | undefined): number {
    const nowMs = this.#clock.epochMs();
    return stamp === undefined ? nowMs : (this.#peers.get(host)?.due(stamp, nowMs) ?? nowMs);
  }

  /** Bytes of a round are handed to the transport now, as a piece of a frame. */
  sent(round: Flight): void {
    this.#note(round.isDirect === true ? "sentDirect" : "sent", round, this.#clock.epochMs());
  }

  /** All bytes of a round are here. */
  landed(round: Flight): void {
    const toMs = this.#clock.epochMs();
    const at = flightOf(round.channel);
    if (at === undefined || round.bytes === 0) return;
    this.#add(0, round.dueMs, toMs);
    this.#add(at, round.dueMs, toMs);
    this.#note(round.isDirect === true ? "landedDirect" : "landed", round, toMs);
  }

  #note(kind: "sent" | "landed" | "sentDirect" | "landedDirect", round: Flight, toMs: number) {
    const { channel, dueMs, bytes, host, route } = round;
    const at = flightOf(channel);
    if (at === undefined || bytes === 0) return;
    this.#timeline?.add(kind, at - 1, round.round, Math.min(dueMs, toMs), toMs, bytes, host, route);
  }

  /**
   * Adds the time of a flight that no earlier flight covers. Flights are added in the order of
   * their ends.
   */
  #add(at: number, dueMs: number, toMs: number): void {
    const of = this.#stretches[at];
    if (of === undefined || this.#flown === undefined || this.#landed === undefined) return;
    let fromMs = Math.max(dueMs, of.countedMs);
    if (toMs <= fromMs) return;
    for (
      let last = of.last.at(-1);
      last !== undefined && last.toMs >= fromMs;
      last = of.last.at(-1)
    ) {
      of.last.pop();
      of.sumMs -= last.toMs - last.fromMs;
      fromMs = Math.min(fromMs, last.fromMs);
    }
    of.last.push({ fromMs, toMs });
    of.sumMs += toMs - fromMs;
    if (of.last.length > stretchesMax) of.countedMs = of.last.shift()?.toMs ?? 0;
    this.#landed[at] = toMs;
    this.#flown[at] = of.sumMs;
  }
}

/** A round of a channel on its way between two hosts. */
export interface Flight {
  readonly channel: RoutedChannel;
  /** The other host. */
  readonly host: number;
  readonly route: number;
  readonly round: number;
  readonly bytes: number;
  readonly dueMs: number;
  readonly isDirect?: boolean;
}
