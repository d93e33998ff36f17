// The bridge carries the exchange between hosts. Each host has one bridge, on a communication
// thread with an event loop, so that device threads need none. When a cell of its own host changes,
// the bridge sends its round, with the bytes that the cell publishes, to the bridges of the hosts
// that wait for it (routes.ts). They write the bytes to the receivers' inboxes, then the round into
// cells of their own, and wake their devices.
//
//   device 0 ──cell──▶ bridge of host 0 ══frames══▶ bridge of host 1 ──cell──▶ device 2
//
// Frames travel over the broker, or over a direct link where one is open (links/ways.ts). The
// broker may lose, repeat and reorder frames, and a link may end: the bridge sends a frame that is
// not acknowledged again, over the broker. None of this changes which bytes are written, or before
// which cell.
//
// Invariants
//   B1. A cell is stored after all bytes that it publishes were written.
//   B2. Frames of another generation, and repeated ones, change nothing.
//   B3. When the bridge fails, all waits on this host are released.
//   B4. Once the sender has given up its direct connection, a new frame from the broker is accepted
//       only after that connection is fenced: late bytes on it may belong to an earlier round and
//       would overwrite newer ones.

import {
  FrameCorruptError,
  GenerationAbortedError,
  PeerLostError,
  StepTimeoutError,
  TransportLostError,
} from "../errors/errors.ts";
import { type Deadlines, deadlinesOf } from "../ports/deadlines.ts";
import type { Timeline } from "../ports/timeline.ts";
import type { Frame } from "../wire/messages/transport.ts";
import { type Cells, nobody } from "./cells.ts";
import { Departures } from "./departures.ts";
import type { ExchangeShape } from "./exchange.ts";
import { type Flight, FlightLog } from "./flights.ts";
import { decodeFrame, type ExchangeFrame, type Piece } from "./frame.ts";
import { Link, type Sent, type Way } from "./link.ts";
import { type WayOptions, Ways } from "./links/ways.ts";
import { type Arrival, type RoutedChannel, Routes } from "./routes.ts";

export interface BridgeOptions extends WayOptions {
  readonly shape: ExchangeShape;
  /** Cells of the bridge's participant. Its waits turn the event loop and have no deadline. */
  readonly cells: Cells;
  /** The step deadline. All other deadlines of the bridge are derived from it. */
  readonly deadlineMs: number;
  /** Releases all waits on this host's cells. */
  abort(): void;
  /** Bytes in flight to each other host. @default 32 MiB in total, at most 8 MiB for each */
  readonly windowBytes?: number;
  /** Where it adds how long bytes were in flight. @default nowhere */
  readonly flights?: SharedArrayBuffer | undefined;
  /** Where it notes each round. @default nowhere */
  readonly timeline?: Timeline | undefined;
}

export interface Bridge {
  /** Resolves when the bridge has subscribed to its frames, and has tried the direct links. */
  readonly ready: Promise<void>;
  /**
   * Carries frames until the generation is aborted, then resolves.
   * @throws PeerLostError naming a host that was silent for half the step deadline
   * @throws StepTimeoutError naming the data that a host has not received within the step deadline
   * @throws TransportLostError where the connection was lost
   */
  run(): Promise<void>;
  /** Expects no further frame of a host, which leaves after the last step of the generation. */
  letGo(host: number): void;
  /** Bytes and frames sent so far. */
  readonly traffic: BridgeTraffic;
}

export interface BridgeTraffic {
  /** Bytes sent on each channel, counted once for each receiving host. */
  readonly bytes: Readonly<Record<RoutedChannel, number>>;
  /** Frames with pieces, each counted once; `resent`: how often one was sent again. */
  readonly frames: number;
  readonly resent: number;
  /** Payload bytes sent over the broker and over direct links, repeats included. */
  readonly ways: Readonly<Record<Way, number>>;
}

export function createBridge(options: BridgeOptions): Bridge {
  return new ExchangeBridge(options);
}

const mebibyte = 2 ** 20;

/** A frame without pieces. */
const acknowledgement = { sequence: 0, pieces: [] } as const;

class ExchangeBridge implements Bridge {
  readonly ready: Promise<void>;
  readonly traffic: BridgeTraffic & { frames: number; resent: number };
  readonly #ways: Ways;
  readonly #options: BridgeOptions;
  readonly #routes: Routes;
  readonly #departures: Departures;
  /** Routes with a round of which some bytes have arrived, and their number. */
  readonly #arriving = new Map<number, { readonly round: number; bytes: number; dueMs: number }>();
  readonly #log: FlightLog;
  readonly #links: ReadonlyMap<number, Link>;
  /** Hosts whose silence is no fault. */
  readonly #left = new Set<number>();
  readonly #deadlines: Deadlines;
  readonly #tickMs: number;
  readonly #silenceMs: number;
  #tickedMs: number;
  #isConnected = true;
  #isReady: () => void = () => undefined;
  #fail: (error: Error) => void = () => undefined;

  constructor(options: BridgeOptions) {
    const { shape, host, deadlineMs, cells, clock } = options;
    this.#options = options;
    this.#routes = new Routes(shape, host);
    const { others } = this.#routes;
    const { flights: memory, timeline } = options;
    this.#log = new FlightLog({ clock, hosts: others, memory, timeline });
    const fair = Math.min(8, 32 / Math.max(1, others.length)) * mebibyte;
    const { windowBytes = Math.max(mebibyte, fair) } = options;
    this.#links = new Map(others.map((other) => [other, new Link(other, windowBytes)]));
    const departures = this.#routes.departures();
    this.#departures = new Departures({ departures, links: this.#links, cells, clock });
    this.#deadlines = deadlinesOf({ stepDeadlineMs: deadlineMs });
    this.#tickMs = this.#deadlines.bridgeTick;
    this.#silenceMs = this.#deadlines.bridgeSilence;
    this.#tickedMs = clock.now();
    this.#ways = new Ways(options, this.#routes, this.#deadlines, {
      arrived: (from, frames) => this.#arrived(from, frames),
      lost: (other) => this.#lost(other),
    });
    const ways = this.#ways.bytes;
    this.traffic = { bytes: this.#departures.bytes, frames: 0, resent: 0, ways };
    this.ready = new Promise((resolve) => {
      this.#isReady = resolve;
    });
  }

  async run(): Promise<void> {
    const { transport, clock, host, abort } = this.#options;
    const failed = new Promise<never>((_, reject) => {
      this.#fail = reject;
    });
    failed.catch(() => undefined); // It may reject after the end.
    let cancelTick = () => {};
    const tick = () => {
      cancelTick = clock.after(this.#tickMs, tick);
      this.#tick();
    };
    const subject = this.#ways.subject(host);
    const subscription = transport.subscribe(subject, (frame) => this.#receive(frame));
    const status = transport.onStatus((now) => this.#connection(now === "connected"));
    let cancelOpening = () => {};
    try {
      await transport.flush();
      tick();
      cancelOpening = clock.after(this.#deadlines.link, this.#isReady);
      void this.#ways.start().then(this.#isReady);
      await Promise.race([failed, this.#watch()]);
    } catch (error) {
      abort(); // B3
      throw error;
    } finally {
      cancelTick();
      cancelOpening();
      status.unsubscribe();
      subscription.unsubscribe();
      await this.#ways.close();
    }
  }

  letGo(host: number): void {
    this.#left.add(host);
    this.#ways.letGo(host);
  }

  /** Sends the parts that the devices of this host publish, until the generation ends. */
  async #watch(): Promise<void> {
    const { cells } = this.#options;
    const hasWork = () => this.#departures.takeNews();
    try {
      for (;;) {
        await cells.waitUntil(() => "frames to send or to write", hasWork, nobody);
        for (const link of this.#links.values()) this.#pump(link);
      }
    } catch (error) {
      if (!(error instanceof GenerationAbortedError)) throw error;
    }
  }

  #pump(link: Link): void {
    if (!link.turnTo(this.#ways.wayTo(link.host))) return;
    for (;;) {
      const sent = link.next(this.#ways.frameBytesMax, this.#options.clock.now());
      if (sent === undefined) return;
      this.traffic.frames++;
      this.#noteSent(link, sent); // Before it may land.
      this.#send(link, sent, link.way);
    }
  }

  #sendAgain(link: Link, frames: readonly Sent[]): void {
    if (link.way === "direct") return; // The connection itself repeats lost bytes.
    for (const sent of frames) {
      sent.sentMs = this.#options.clock.now();
      this.traffic.resent++;
      this.#send(link, sent, "broker");
    }
  }

  #send(
    link: Link,
    { sequence, pieces, dueMs }: Pick<Sent, "sequence" | "pieces"> & Partial<Sent>,
    way: Way,
  ): void {
    this.#ways.send(link, sequence, pieces, way, this.#log.stamp(link.host, dueMs));
  }

  #noteSent({ host, way }: Link, { pieces, dueMs }: Sent): void {
    const isDirect = way === "direct";
    for (const { route, round, bytes } of pieces) {
      const channel = this.#routes.channelOf(route);
      this.#log.sent({ channel, host, route, round, bytes, dueMs, isDirect });
    }
  }

  /** The connection to a host has ended: its frames in flight are sent again, over the broker. */
  #lost(host: number): void {
    const link = this.#links.get(host);
    if (link?.way !== "direct") return;
    link.way = "broker";
    this.#sendAgain(link, link.overdue(Number.POSITIVE_INFINITY));
  }

  /** @throws FrameCorruptError before the frame has changed anything */
  #receive(frame: Frame): void {
    const { clock, place } = this.#options;
    const { generation, from, sequence, ended, seen, missing, pieces, stamp } = decodeFrame(frame);
    const link = this.#links.get(from);
    if (generation !== place.generation || link === undefined) {
      throw new FrameCorruptError(frame.subject, "its sender is not a host of this generation"); // B2
    }
    const arrivals = pieces.map((piece) => this.#arrivalOf(frame, from, piece));
    link.receivedMs = clock.now();
    const dueMs = this.#log.due(from, stamp);
    const lost = link.acknowledge(seen, missing, clock.now());
    const beforeMs = clock.now() - this.#tickMs; // Frames just sent again are in flight.
    this.#sendAgain(
      link,
      lost.filter(({ sentMs }) => sentMs <= beforeMs),
    );
    if (sequence > 0) link.heardBy = "broker";
    if (pieces.length > 0 && link.isNew(sequence)) this.#ways.fence(from, ended); // B4
    if (sequence > 0 && link.accept(sequence, frame.payload.length)) {
      let at = 0;
      for (const [i, arrival] of arrivals.entries()) {
        const piece = pieces[i];
        if (piece === undefined) break;
        const { memory } = this.#options;
        const bytes = frame.payload.subarray(at, at + piece.bytes);
        new Uint8Array(memory, arrival.region.first + piece.first, piece.bytes).set(bytes);
        this.#arrive(piece, arrival, { host: from, dueMs });
        at += piece.bytes;
      }
    }
    this.#pump(link);
    if (link.owesMuch) this.#acknowledge(link);
  }

  /** Frames have arrived on a direct connection. Their bytes are in the memory. */
  #arrived(from: number, frames: readonly ExchangeFrame[]): void {
    const link = this.#links.get(from);
    if (link === undefined) return;
    const nowMs = this.#options.clock.now();
    link.receivedMs = nowMs;
    for (const { sequence, seen, missing, pieces, stamp } of frames) {
      const flight = { host: from, dueMs: this.#log.due(from, stamp), isDirect: true };
      this.#sendAgain(link, link.acknowledge(seen, missing, nowMs));
      if (sequence === 0) continue;
      link.heardBy = "direct";
      let payload = 0;
      for (const { bytes } of pieces) payload += bytes;
      if (!link.accept(sequence, payload)) continue;
      for (const piece of pieces) {
        const arrival = this.#routes.arrival(piece.route, from);
        if (arrival !== undefined) this.#arrive(piece, arrival, flight);
      }
    }
    this.#pump(link);
    if (link.owesMuch) this.#acknowledge(link);
  }

  /** Sends an acknowledgement, over the broker or the direct link, as the last frame came. */
  #acknowledge(link: Link): void {
    const way = link.heardBy === "direct" ? this.#ways.wayTo(link.host) : "broker";
    this.#send(link, acknowledgement, way);
  }

  /** @throws FrameCorruptError where the piece does not fit */
  #arrivalOf(frame: Frame, from: number, { route, first, total, bytes }: Piece): Arrival {
    const arrival = this.#routes.arrival(route, from);
    const isMine = arrival !== undefined && bytes <= total && first + bytes <= arrival.region.bytes;
    if (isMine) return arrival;
    throw new FrameCorruptError(
      frame.subject,
      `it does not fit into route ${route} of host ${from}`,
    );
  }

  /** Bytes of a round have arrived, and lie in its region. */
  #arrive(
    { route, round, bytes: some, total }: Piece,
    arrival: Arrival,
    flight: Pick<Flight, "host" | "dueMs" | "isDirect">,
  ): void {
    let { dueMs } = flight;
    if (some < total) {
      const known = this.#arriving.get(route);
      const isKnown = known?.round === round;
      const bytes = (isKnown ? known.bytes : 0) + some;
      if (isKnown) dueMs = Math.min(known.dueMs, dueMs);
      if (bytes < total) return void this.#arriving.set(route, { round, bytes, dueMs }); // B1
      this.#arriving.delete(route);
    }
    this.#log.landed({ ...flight, channel: arrival.channel, route, round, bytes: total, dueMs });
    const { cells } = this.#options;
    const [last, ...before] = [...arrival.cells].reverse();
    for (const cell of before) cells.store(cell, round, []);
    if (last !== undefined) cells.store(last, round, arrival.readers);
  }

  #tick(): void {
    const { clock } = this.#options;
    const { bridgeReceipt, bridgeResend } = this.#deadlines;
    const nowMs = clock.now();
    this.#departures.collect(); // Releases of inboxes do not wake the bridge.
    const hasSlept = nowMs - this.#tickedMs > this.#silenceMs / 2;
    this.#tickedMs = nowMs;
    for (const link of this.#links.values()) {
      if (hasSlept && link.receivedMs !== undefined) link.receivedMs = nowMs; // This host was asleep.
      if (hasSlept) link.confirmedMs = nowMs;
      const fault = this.#left.has(link.host) ? undefined : this.#faultOf(link, nowMs);
      if (fault !== undefined) this.#fail(fault);
      const { oldest } = link;
      // The interval between resends grows with the age of the oldest frame (half of it), so that a
      // frame is sent a few times, not hundreds of times.
      const ageMs = oldest === undefined ? 0 : nowMs - oldest.firstSentMs;
      const patienceMs = Math.max(bridgeResend, ageMs / 2);
      this.#sendAgain(link, link.overdue(nowMs - patienceMs));
      this.#giveUpIfSilent(link, nowMs);
      this.#pump(link);
      if (link.owes && nowMs - link.lastSentMs > bridgeResend / 4) this.#acknowledge(link);
      if (nowMs - link.lastSentMs <= bridgeReceipt) continue;
      this.#send(link, acknowledgement, "broker");
      if (this.#ways.wayTo(link.host) === "direct") this.#send(link, acknowledgement, "direct");
    }
  }

  /**
   * Gives up a half-open connection: it accepts bytes that never arrive, so no frame is
   * acknowledged.
   */
  #giveUpIfSilent(link: Link, nowMs: number): void {
    const { link: patienceMs } = this.#deadlines;
    if (link.way === "broker" || !this.#isConnected || link.silentMs(nowMs) <= patienceMs) return;
    this.#ways.giveUp(link.host, `no acknowledgement for ${patienceMs} ms`);
  }

  /** The error if the other host's bridge is silent, or keeps a frame too long; undefined: none. */
  #faultOf({ host, oldest, receivedMs }: Link, nowMs: number): Error | undefined {
    const { transport, deadlineMs } = this.#options;
    const sinceMs = receivedMs ?? oldest?.firstSentMs ?? nowMs;
    if (nowMs - sinceMs > this.#silenceMs) {
      const reason = `no frame for ${this.#silenceMs} ms, half the step deadline`;
      if (this.#isConnected) return new PeerLostError(`host:${host}`, reason);
      return new TransportLostError(transport.address, `so host:${host} sent ${reason}`);
    }
    if (oldest === undefined || nowMs - oldest.firstSentMs <= deadlineMs) return undefined;
    const what = this.#routes.whatOf(oldest.pieces[0]?.route ?? 0);
    return new StepTimeoutError(`host ${host} to take ${what}`, deadlineMs);
  }

  #connection(isConnected: boolean): void {
    this.#isConnected = isConnected;
    if (!isConnected) return;
    // Frames in flight were lost with the former connection.
    for (const link of this.#links.values())
      this.#sendAgain(link, link.overdue(Number.POSITIVE_INFINITY));
  }
}
