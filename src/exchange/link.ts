// One bridge's end of the way to another: what it has sent and not seen acknowledged, and what it
// has received. Nothing is kept of a frame but where its bytes lie: they stay there until the
// receiver has them all, so whatever is lost is read from memory again.
//
// Invariants
//   L1. At most `windowBytes` and one frame are in flight: nothing new is sent above that. A frame
//       counts as its payload and `frameCost`, so the number of frames is bounded too.
//   L2. Each sequence is accepted once, in whatever order they come.
//   L3. A route has one round on its way: the next one begins when the receiver has this one.

import { missingMax, type Piece, piecesMax } from "./frame.ts";

/** A round of a route that has to go out. */
export interface Outgoing {
  readonly route: number;
  readonly round: number;
  /** First byte in the route's region. */
  readonly first: number;
  readonly total: number;
}

/** A frame on its way. */
export interface Sent {
  readonly sequence: number;
  readonly pieces: readonly Piece[];
  readonly bytes: number;
  readonly firstSentMs: number;
  sentMs: number;
}

/** What a frame costs beside its payload. */
const frameCost = 4096;
/** Pieces up to this size together go into one frame: a frame costs more than their copy. */
const gatheredBytesMax = 16 * 1024;

export class Link {
  /** Host at the other end. */
  readonly host: number;
  /** When it was heard last; undefined before the first time. */
  heardMs: number | undefined;
  /** When anything was sent to it. */
  saidMs = 0;
  readonly #windowBytes: number;
  readonly #waiting: { readonly outgoing: Outgoing; sent: number }[] = [];
  readonly #inFlight = new Map<number, Sent>();
  #inFlightBytes = 0;
  #sequence = 0;
  /** Everything below was accepted, and these above. */
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

  /** The next new frame, if there is something to send and credit for it. L1 */
  next(frameBytesMax: number, nowMs: number): Sent | undefined {
    if (this.#waiting.length === 0 || this.#inFlightBytes >= this.#windowBytes) return undefined;
    const gathered = Math.min(gatheredBytesMax, frameBytesMax);
    const pieces: Piece[] = [];
    let bytes = 0;
    for (let one = this.#waiting[0]; one !== undefined; one = this.#waiting[0]) {
      const { route, round, first, total } = one.outgoing;
      const left = total - one.sent;
      if (pieces.length > 0 && bytes + left > gathered) break;
      if (pieces.length === piecesMax) break;
      const some = Math.min(left, frameBytesMax);
      pieces.push({ route, round, first: first + one.sent, bytes: some, total });
      one.sent += some;
      bytes += some;
      if (one.sent < total) break;
      this.#waiting.shift();
    }
    const sequence = ++this.#sequence;
    const sent = { sequence, pieces, bytes, firstSentMs: nowMs, sentMs: nowMs };
    this.#inFlight.set(sequence, sent);
    this.#inFlightBytes += bytes + frameCost;
    return sent;
  }

  /** The other end has all sequences below `seen` but for `missing`: the frames of these. */
  acknowledge(seen: number, missing: readonly number[]): Sent[] {
    for (const sequence of this.#inFlight.keys()) {
      if (sequence >= seen) break;
      if (!missing.includes(sequence)) this.#forget(sequence);
    }
    return missing.flatMap((sequence) => this.#inFlight.get(sequence) ?? []);
  }

  /** The frame that has waited longest for its acknowledgement. */
  get oldest(): Sent | undefined {
    for (const sent of this.#inFlight.values()) return sent;
    return undefined;
  }

  /** Frames that were sent before `beforeMs` and nobody has acknowledged. */
  overdue(beforeMs: number): Sent[] {
    return [...this.#inFlight.values()].filter(({ sentMs }) => sentMs < beforeMs);
  }

  /** Whether a frame is new. L2 */
  accept(sequence: number, bytes: number): boolean {
    this.#owedBytes += bytes + frameCost; // Of a repeated one too: its acknowledgement was lost.
    const isNew = sequence >= this.#seen && !this.#early.has(sequence);
    // Nobody who keeps L1 is that far ahead.
    if (!isNew || sequence - this.#seen > this.#windowBytes / frameCost + 1) return false;
    this.#early.add(sequence);
    while (this.#early.delete(this.#seen)) this.#seen++;
    return true;
  }

  /** Whether the other end ought to hear soon what has arrived: it runs out of credit. */
  get owesMuch(): boolean {
    return this.#owedBytes >= this.#windowBytes / 4;
  }

  get owes(): boolean {
    return this.#owedBytes > 0;
  }

  /** What has arrived, for the other end. */
  receipt(): { readonly seen: number; readonly missing: readonly number[] } {
    this.#owedBytes = 0;
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
