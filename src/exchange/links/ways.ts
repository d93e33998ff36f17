// The ways of a bridge's frames to the other hosts: over the broker, or over a direct connection
// while one is open. Which way a frame travels changes no byte.
//
// A pair of hosts has a connection for each direction. If one acknowledges nothing, both are given
// up, and the frames in flight are sent again over the broker. Such a frame may overtake bytes of
// the connection, so it states how many of the sender's connections have ended, and the receiver
// first ends its side of them. A frame sent before the present connection states no newer count,
// and does not end it.

import type { Clock } from "../../ports/clock.ts";
import type { Deadlines } from "../../ports/deadlines.ts";
import { subjectOf } from "../../wire/messages/subjects.ts";
import type { Transport } from "../../wire/messages/transport.ts";
import { type ExchangeFrame, encodeFrame, type FrameStamp, headerRoom } from "../frame.ts";
import type { Link, OwnPiece, Way } from "../link.ts";
import type { Routes } from "../routes.ts";
import type { DirectLinks } from "./direct-links.ts";
import { type DirectWay, Negotiation } from "./negotiation.ts";

export interface WayOptions {
  /** Index of this host, as in the exchange's `hostOf`. */
  readonly host: number;
  /** The exchange's memory on this host. */
  readonly memory: ArrayBufferLike;
  /** A connection that only the bridge uses. The caller closes it. */
  readonly transport: Transport;
  readonly place: { readonly cluster: string; readonly run: string; readonly generation: number };
  readonly clock: Clock;
  /** Opens direct links to the other hosts. @default all frames travel over the broker */
  readonly direct?: DirectWay | undefined;
}

/** The bridge's handlers of events on direct connections. */
interface WayEvents {
  arrived(host: number, frames: readonly ExchangeFrame[]): void;
  /** The connection to the host has ended. */
  lost(host: number): void;
}

export class Ways {
  /** Payload bytes sent each way, repeats included. */
  readonly bytes = { broker: 0, direct: 0 };
  /**
   * Largest payload of a frame: small enough for the broker, over which any frame may be sent
   * again.
   */
  readonly frameBytesMax: number;
  readonly #options: WayOptions;
  readonly #links: DirectLinks | undefined;
  readonly #negotiation: Negotiation | undefined;
  readonly #events: WayEvents;

  constructor(options: WayOptions, routes: Routes, deadlines: Deadlines, events: WayEvents) {
    const { transport, clock, place, host, memory, direct } = options;
    this.#options = options;
    this.#events = events;
    const brokerMax = transport.frameBytesMax - headerRoom;
    if (direct === undefined) {
      this.frameBytesMax = brokerMax;
      return;
    }
    const { tell, newToken, listen } = direct;
    const openMs = deadlines.link;
    this.#links = direct.open({
      ...{ memory, place, host, listen, clock, openMs },
      regionsOf: (other) => routes.regionsOf(other),
      arrived: events.arrived,
      lost: (other, way, reason) => {
        if (way === "incoming") this.#negotiation?.lostFrom(other, reason);
        else this.#lost(other, reason);
      },
      refused: (address, reason) => tell({ type: "refused", address, reason }),
    });
    const { others } = routes;
    const links = this.#links;
    const given = { links, transport, clock, place, host, others, newToken, tell, openMs };
    this.#negotiation = new Negotiation(given);
    this.frameBytesMax = Math.min(brokerMax, this.#links.frameBytesMax);
  }

  /** Opens the direct links. Resolves when each is open, or known to be unusable. */
  async start(): Promise<void> {
    await this.#negotiation?.start();
  }

  /** How new frames travel to a host. */
  wayTo(host: number): Way {
    return this.#links?.isOpen(host) === true ? "direct" : "broker";
  }

  /**
   * Sends a frame with an acknowledgement. Sequence 0, without pieces: only the acknowledgement.
   */
  send(
    link: Link,
    sequence: number,
    pieces: readonly OwnPiece[],
    way: Way,
    stamp: FrameStamp,
  ): void {
    const { transport, place, host: from, clock } = this.#options;
    const frame = { sequence, ...link.receipt(way), pieces, stamp };
    link.lastSentMs = clock.now();
    for (const { bytes } of pieces) this.bytes[way] += bytes;
    if (way === "direct") {
      this.#links?.send(link.host, frame);
      return;
    }
    const ended = this.#negotiation?.endedTo(link.host) ?? 0;
    const headers = encodeFrame({ generation: place.generation, from, ended, ...frame });
    // The devices leave the bytes unchanged until the receiver has them, so no copy is needed.
    const payload = this.#payload(pieces);
    transport.publish(this.subject(link.host), payload, { headers, isLent: true });
  }

  /** The subject of a host's frames. */
  subject(host: number): string {
    return subjectOf({ ...this.#options.place, role: "frames", index: host, action: "frame" });
  }

  /** When it returns, the first `ended` connections from a host write no more bytes. */
  fence(host: number, ended: number): void {
    if (ended > (this.#negotiation?.endedFrom(host) ?? 0)) this.#links?.fence(host);
  }

  /** Gives up the connections to a host and from it. */
  giveUp(host: number, reason: string): void {
    this.#links?.hangUp(host);
    this.#links?.fence(host);
    this.#lost(host, reason);
  }

  letGo(host: number): void {
    this.#negotiation?.letGo(host);
  }

  async close(): Promise<void> {
    await this.#negotiation?.close();
  }

  #lost(host: number, reason: string): void {
    this.#negotiation?.lost(host, reason); // Counts it first: frames sent again state the count.
    this.#events.lost(host);
  }

  #payload(pieces: readonly OwnPiece[]): Uint8Array {
    const filled = pieces
      .filter(({ bytes }) => bytes > 0)
      .map(({ at, bytes }) => new Uint8Array(this.#options.memory, at, bytes));
    const [only] = filled;
    return only !== undefined && filled.length === 1 ? only : Buffer.concat(filled);
  }
}
