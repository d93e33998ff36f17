// The bridge carries the exchange between hosts. Each host has one bridge, on a communication
// thread with an event loop, so that device threads need none. When a cell of its own host changes,
// the bridge sends its round, with the bytes that the cell publishes, to the bridges of the hosts
// that wait for it (routes.ts). They write the bytes to the receivers' inboxes, then the round into
// cells of their own, and wake their devices.
//
//   device 0 ──cell──▶ bridge of host 0 ══frames══▶ bridge of host 1 ──cell──▶ device 2
//
// The transport may lose, repeat and reorder frames: the bridge resends a frame that is not
// acknowledged. None of this changes which bytes are written, or before which cell.
//
// Invariants
//   B1. A cell is stored after all bytes that it publishes were written.
//   B2. Frames of another generation, and repeated ones, change nothing.
//   B3. When the bridge fails, all waits on this host are released.

import {
  FrameCorruptError,
  GenerationAbortedError,
  PeerLostError,
  StepTimeoutError,
  TransportLostError,
} from "../errors/errors.ts";
import type { Clock } from "../ports/clock.ts";
import { type Deadlines, deadlinesOf } from "../ports/deadlines.ts";
import { subjectOf } from "../wire/messages/subjects.ts";
import type { Frame, Transport } from "../wire/messages/transport.ts";
import { bytesIn, type Cells, nobody } from "./cells.ts";
import type { ExchangeShape } from "./exchange.ts";
import { decodeFrame, encodeFrame, headerRoom, type Piece } from "./frame.ts";
import { Link, type OwnPiece, type Sent } from "./link.ts";
import { type Arrival, type Departure, type RoutedChannel, Routes } from "./routes.ts";

export interface BridgeOptions {
  readonly shape: ExchangeShape;
  /** Index of this host, as in `shape.hostOf`. */
  readonly host: number;
  /** The exchange's memory on this host. */
  readonly memory: ArrayBufferLike;
  /** Cells of the bridge's participant. Its waits turn the event loop and have no deadline. */
  readonly cells: Cells;
  /** A connection that only the bridge uses. The caller closes it. */
  readonly transport: Transport;
  readonly place: { readonly cluster: string; readonly run: string; readonly generation: number };
  readonly clock: Clock;
  /** The step deadline. All other deadlines of the bridge are derived from it. */
  readonly deadlineMs: number;
  /** Releases all waits on this host's cells. */
  abort(): void;
  /** Bytes in flight to each other host. @default 32 MiB in total, at most 8 MiB for each */
  readonly windowBytes?: number;
}

export interface Bridge {
  /** Resolves when the bridge has subscribed to its frames. */
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
}

export function createBridge(options: BridgeOptions): Bridge {
  return new ExchangeBridge(options);
}

const mebibyte = 2 ** 20;

class ExchangeBridge implements Bridge {
  readonly ready: Promise<void>;
  readonly traffic: { bytes: Record<RoutedChannel, number>; frames: number; resent: number };
  readonly #options: BridgeOptions;
  readonly #routes: Routes;
  /** What this host sends, with the last round that it sent. */
  readonly #departures: readonly { readonly of: Departure; round: number }[];
  /** Routes with a round of which some bytes have arrived, and their number. */
  readonly #arriving = new Map<number, { readonly round: number; bytes: number }>();
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
    const { shape, host, deadlineMs, clock } = options;
    this.#options = options;
    this.#routes = new Routes(shape, host);
    this.#departures = this.#routes.departures().map((of) => ({ of, round: 0 }));
    const { others } = this.#routes;
    const fair = Math.min(8, 32 / Math.max(1, others.length)) * mebibyte;
    const { windowBytes = Math.max(mebibyte, fair) } = options;
    this.#links = new Map(others.map((other) => [other, new Link(other, windowBytes)]));
    this.#deadlines = deadlinesOf({ stepDeadlineMs: deadlineMs });
    this.#tickMs = this.#deadlines.bridgeTick;
    this.#silenceMs = this.#deadlines.bridgeSilence;
    this.#tickedMs = clock.now();
    const zeros = this.#departures.map(({ of }) => [of.channel, 0]);
    this.traffic = { bytes: Object.fromEntries(zeros), frames: 0, resent: 0 };
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
    const subscription = transport.subscribe(this.#subject(host), (frame) => this.#receive(frame));
    const status = transport.onStatus((now) => this.#connection(now === "connected"));
    try {
      await transport.flush();
      this.#isReady();
      tick();
      await Promise.race([failed, this.#watch()]);
    } catch (error) {
      abort(); // B3
      throw error;
    } finally {
      cancelTick();
      status.unsubscribe();
      subscription.unsubscribe();
    }
  }

  letGo(host: number): void {
    this.#left.add(host);
  }

  /** Sends the parts that the devices of this host publish, until the generation ends. */
  async #watch(): Promise<void> {
    const { cells } = this.#options;
    const hasWork = () => this.#departures.some((one) => this.#roundOf(one) !== one.round);
    try {
      for (;;) {
        await cells.waitUntil(() => "frames to send or to write", hasWork, nobody);
        this.#collect();
        for (const link of this.#links.values()) this.#pump(link);
      }
    } catch (error) {
      if (!(error instanceof GenerationAbortedError)) throw error;
    }
  }

  #collect(): void {
    const { cells } = this.#options;
    const load = (cell: number) => cells.load(cell);
    for (const one of this.#departures) {
      const round = this.#roundOf(one);
      if (round === one.round) continue;
      one.round = round;
      for (const { route, to, at, first, bytes } of one.of.parts(load)) {
        for (const host of to)
          this.#links.get(host)?.add({ route, round, at, first, total: bytes });
        this.traffic.bytes[one.of.channel] += bytes * to.length;
      }
    }
  }

  /**
   * The round that all cells of a departure have; the last one sent, as long as none is later.
   * Small parts of an all-to-all wait for those of the other devices, to share their frames: a
   * receiver needs the parts of all devices before it goes on.
   */
  #roundOf({ of, round }: { readonly of: Departure; readonly round: number }): number {
    const { cells } = this.#options;
    const next = this.#leastOf(of.cells, round);
    const { together } = of;
    if (next === round || together === undefined) return next;
    if (bytesIn(cells.load(together.words)) > together.bytesMax) return next;
    return this.#leastOf(together.cells, round) === round ? round : next;
  }

  /** The least value of some cells, but not less than `round`. */
  #leastOf(some: readonly number[], round: number): number {
    let least = Number.POSITIVE_INFINITY;
    for (const cell of some) {
      least = Math.min(least, this.#options.cells.load(cell));
      if (least <= round) return round;
    }
    return least;
  }

  #pump(link: Link): void {
    const { transport, clock } = this.#options;
    const frameBytesMax = transport.frameBytesMax - headerRoom;
    for (;;) {
      const sent = link.next(frameBytesMax, clock.now());
      if (sent === undefined) return;
      this.traffic.frames++;
      this.#send(link, sent.sequence, sent.pieces);
    }
  }

  #sendAgain(link: Link, frames: readonly Sent[]): void {
    for (const sent of frames) {
      sent.sentMs = this.#options.clock.now();
      this.traffic.resent++;
      this.#send(link, sent.sequence, sent.pieces);
    }
  }

  /** Sends a frame with an acknowledgement. Sequence 0, without pieces: nothing but this. */
  #send(link: Link, sequence: number, pieces: readonly OwnPiece[]): void {
    const { transport, place, host, clock } = this.#options;
    const { generation } = place;
    const headers = encodeFrame({ generation, from: host, sequence, ...link.receipt(), pieces });
    link.lastSentMs = clock.now();
    // The devices leave the bytes unchanged until the receiver has them, so no copy is needed.
    transport.publish(this.#subject(link.host), this.#payload(pieces), { headers, isLent: true });
  }

  #payload(pieces: readonly OwnPiece[]): Uint8Array {
    const filled = pieces
      .filter(({ bytes }) => bytes > 0)
      .map(({ at, bytes }) => new Uint8Array(this.#options.memory, at, bytes));
    const [only] = filled;
    return only !== undefined && filled.length === 1 ? only : Buffer.concat(filled);
  }

  /** @throws FrameCorruptError before the frame has changed anything */
  #receive(frame: Frame): void {
    const { clock, place } = this.#options;
    const { generation, from, sequence, seen, missing, pieces } = decodeFrame(frame);
    const link = this.#links.get(from);
    if (generation !== place.generation || link === undefined) {
      throw new FrameCorruptError(frame.subject, "its sender is not a host of this generation"); // B2
    }
    const arrivals = pieces.map((piece) => this.#arrivalOf(frame, from, piece));
    link.receivedMs = clock.now();
    const lost = link.acknowledge(seen, missing);
    const beforeMs = clock.now() - this.#tickMs; // Frames just sent again are in flight.
    this.#sendAgain(
      link,
      lost.filter(({ sentMs }) => sentMs <= beforeMs),
    );
    if (sequence > 0 && link.accept(sequence, frame.payload.length)) {
      let at = 0;
      for (const [i, arrival] of arrivals.entries()) {
        const piece = pieces[i];
        if (piece === undefined) break;
        this.#arrive(piece, arrival, frame.payload.subarray(at, at + piece.bytes));
        at += piece.bytes;
      }
    }
    this.#pump(link);
    if (link.owesMuch) this.#send(link, 0, []);
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

  #arrive({ route, round, first, total }: Piece, arrival: Arrival, payload: Uint8Array): void {
    const { memory } = this.#options;
    new Uint8Array(memory, arrival.region.first + first, payload.length).set(payload);
    if (payload.length < total) {
      const known = this.#arriving.get(route);
      const bytes = (known?.round === round ? known.bytes : 0) + payload.length;
      if (bytes < total) return void this.#arriving.set(route, { round, bytes }); // B1
      this.#arriving.delete(route);
    }
    const { cells } = this.#options;
    const [last, ...before] = [...arrival.cells].reverse();
    for (const cell of before) cells.store(cell, round, []);
    if (last !== undefined) cells.store(last, round, arrival.readers);
  }

  #tick(): void {
    const { clock } = this.#options;
    const { bridgeReceipt, bridgeResend } = this.#deadlines;
    const nowMs = clock.now();
    const hasSlept = nowMs - this.#tickedMs > this.#silenceMs / 2;
    this.#tickedMs = nowMs;
    for (const link of this.#links.values()) {
      if (hasSlept && link.receivedMs !== undefined) link.receivedMs = nowMs; // This host was asleep.
      const fault = this.#left.has(link.host) ? undefined : this.#faultOf(link, nowMs);
      if (fault !== undefined) this.#fail(fault);
      const { oldest } = link;
      // The interval between resends grows with the age of the oldest frame (half of it), so that a
      // frame is sent a few times, not hundreds of times.
      const ageMs = oldest === undefined ? 0 : nowMs - oldest.firstSentMs;
      const patienceMs = Math.max(bridgeResend, ageMs / 2);
      this.#sendAgain(link, link.overdue(nowMs - patienceMs));
      if (link.owes || nowMs - link.lastSentMs > bridgeReceipt) this.#send(link, 0, []);
    }
  }

  /** The fault of the bridge at the other end; undefined: none. */
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

  #subject(host: number): string {
    return subjectOf({ ...this.#options.place, role: "frames", index: host, action: "frame" });
  }
}
