// One bridge's link to the bridge of another host: the frames in flight, which are sent and not
// acknowledged, and the received sequences. A frame in flight stores only the position of its
// bytes: they stay in exchange memory until the receiver has them, so a resend reads them again.
//
// Invariants
//   L1. At most `windowBytes` plus one frame are in flight. A frame counts with its payload and
//       `frameCost`, so that the number of frames is bounded too.
//   L2. Each sequence is accepted once, in any order.
//   L3. A route has one round in flight: the next begins when the receiver has the whole round.
//   L4. All frames in flight travel the same way: over the broker, or over the direct connection.

import { gatheredBytesMax, missingMax, type Piece, piecesMax } from "./frame.ts";

/** A round of a route to be sent. */
export interface Outgoing {
  readonly route: number;
  readonly round: number;
  /** First byte in this host's memory. */
  readonly at: number;
  /** First byte in the route's region, at the receiver. */
  readonly first: number;
  readonly total: number;
  /** When it was due, in milliseconds since 1970. */
  readonly dueMs: number;
  /** Bytes to send from `at` on: a part may leave in several. @default total */
  readonly bytes?: number;
}

/** A piece of a frame, and its first byte in this host's memory. */
export interface OwnPiece extends Piece {
  readonly at: number;
}

/** How frames reach a host. */
export type Way = "broker" | "direct";

/** A frame in flight. */
export interface Sent {
  readonly sequence: number;
  readonly pieces: readonly OwnPiece[];
  readonly bytes: number;
  /** When its oldest bytes were due. */
  readonly dueMs: number;
  readonly firstSentMs: number;
  sentMs: number;
}

/** The cost of a frame in addition to its payload. */
const frameCost = 4096;

export class Link {
  /** The host at the other end. */
  readonly host: number;
  /** When the last frame from the host was received; undefined before the first. */
  receivedMs: number | undefined;
  /** When the last frame was sent to the host. */
  lastSentMs = 0;
  /** How the frames in flight travel. L4 */
  way: Way = "broker";
  /** How the last frame to be acknowledged came. */
  heardBy: Way = "broker";
  /** When the host last acknowledged a frame that was in flight. */
  confirmedMs = 0;
  readonly #windowBytes: number;
  readonly #waiting: { readonly outgoing: Outgoing; sent: number }[] = [];
  readonly #inFlight = new Map<number, Sent>();
  #inFlightBytes = 0;
  #sequence = 0;
  /** All sequences below `#seen` were accepted; `#early`: accepted sequences from `#seen` on. */
  #seen = 1;
  readonly #early = new Set<number>();
  #owedBytes = 0;

  constructor(host: number, windowBytes: number) {
    this.host = host;
    this.#windowBytes = windowBytes;
  }

  add(outgoing: Outgoing): void {
    this.#waiting.push({ outgoing, sent: 0 });
  }

  /** The next new frame, if there are bytes to send and the window has room. L1 */
  next(frameBytesMax: number, nowMs: number): Sent | undefined {
    if (this.#waiting.length === 0 || this.#inFlightBytes >= this.#windowBytes) return undefined;
    const gathered = Math.min(gatheredBytesMax, frameBytesMax);
    const pieces: OwnPiece[] = [];
    let bytes = 0;
    const dueMs = this.#waiting[0]?.outgoing.dueMs ?? 0;
    for (let one = this.#waiting[0]; one !== undefined; one = this.#waiting[0]) {
      const { route, round, at, first, total, bytes: own = total } = one.outgoing;
      const left = own - one.sent;
      if (left > 0 && bytes > 0 && bytes + left > gathered) break;
      if (pieces.length === piecesMax) break;
      const some = Math.min(left, frameBytesMax);
      const from = { at: at + one.sent, first: first + one.sent };
      pieces.push({ route, round, ...from, bytes: some, total });
      one.sent += some;
      bytes += some;
      if (one.sent < own) break;
      this.#waiting.shift();
    }
    const sequence = ++this.#sequence;
    const sent = { sequence, pieces, bytes, dueMs, firstSentMs: nowMs, sentMs: nowMs };
    this.#inFlight.set(sequence, sent);
    this.#inFlightBytes += bytes + frameCost;
    return sent;
  }

  /**
   * Handles an acknowledgement: the receiver has all sequences below `seen` except `missing`.
   * Returns the missing frames, which must be sent again.
   */
  acknowledge(seen: number, missing: readonly number[], nowMs: number): Sent[] {
    for (const sequence of this.#inFlight.keys()) {
      if (sequence >= seen) break;
      if (missing.includes(sequence)) continue;
      this.#forget(sequence);
      this.confirmedMs = nowMs;
    }
    return missing.flatMap((sequence) => this.#inFlight.get(sequence) ?? []);
  }

  /** Turns new frames to this way. False as long as frames in flight travel the other way. L4 */
  turnTo(way: Way): boolean {
    if (this.#inFlight.size === 0) this.way = way;
    return this.way === way;
  }

  /** The oldest frame in flight. */
  get oldest(): Sent | undefined {
    for (const sent of this.#inFlight.values()) return sent;
    return undefined;
  }

  /** How long frames have been in flight and none of them was acknowledged. */
  silentMs(nowMs: number): number {
    return nowMs - Math.max(this.oldest?.firstSentMs ?? nowMs, this.confirmedMs);
  }

  /** Frames in flight that were last sent before `beforeMs`. */
  overdue(beforeMs: number): Sent[] {
    return [...this.#inFlight.values()].filter(({ sentMs }) => sentMs < beforeMs);
  }

  /** Whether a received frame is new. A sequence too far ahead is refused: L1 limits the sender. */
  isNew(sequence: number): boolean {
    if (sequence < this.#seen || this.#early.has(sequence)) return false;
    return sequence - this.#seen <= this.#windowBytes / frameCost + 1;
  }

  /** Accepts a received frame. Returns false if it is a repeat. L2 */
  accept(sequence: number, bytes: number): boolean {
    this.#owedBytes += bytes + frameCost; // Repeats too: their acknowledgement was lost.
    if (!this.isNew(sequence)) return false;
    this.#early.add(sequence);
    while (this.#early.delete(this.#seen)) this.#seen++;
    return true;
  }

  /** Whether an acknowledgement is urgent, because the sender's window fills up. */
  get owesMuch(): boolean {
    return this.#owedBytes >= this.#windowBytes / 4;
  }

  get owes(): boolean {
    return this.#owedBytes > 0;
  }

  /**
   * The acknowledgement for the other end. If it is sent on a direct connection, frames from the
   * broker still count as unacknowledged: the other host may have given up that connection.
   */
  receipt(way: Way): { readonly seen: number; readonly missing: readonly number[] } {
    if (way === "broker" || this.heardBy === "direct") this.#owedBytes = 0;
    const missing: number[] = [];
    let seen = this.#seen;
    const last = Math.max(seen - 1, ...this.#early);
    while (seen <= last && missing.length < missingMax) {
      if (!this.#early.has(seen)) missing.push(seen);
      seen++;
    }
    return { seen, missing };
  }

  #forget(sequence: number): void {
    const bytes = this.#inFlight.get(sequence)?.bytes ?? 0;
    this.#inFlightBytes -= bytes + frameCost;
    this.#inFlight.delete(sequence);
  }
}
