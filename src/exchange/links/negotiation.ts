// Negotiates the direct links of a host over NATS. It requests from each other host the address on
// which that host accepts connections, and dials it. After a connection ends, the host requests the
// address again, with growing pauses.
//
//   host 0 ──ask──▶ host 1              on the subject of the bridge of host 1, action `link`
//   host 0 ◀─address, token── host 1    host 1 admits one connection of host 0
//   host 0 ══hello, frames══▶ host 1
//
// Invariants
//   N1. A token opens one connection of the host that it was made for.
//   N2. No frame waits for a link: frames travel over the broker until it is open.
//   N3. Both hosts report why a link is not used: a host that cannot dial sends the other the
//       reason.
//   N4. At most `dialsMax` connections are being opened at a time.

import { z } from "zod";
import { FrameCorruptError, LinkUnusableError, recordError, visible } from "../../errors/errors.ts";
import type { Cancel, Clock } from "../../ports/clock.ts";
import { decodeBody, encodeBody } from "../../wire/messages/body.ts";
import { subjectOf } from "../../wire/messages/subjects.ts";
import type { Frame, Subscription, Transport } from "../../wire/messages/transport.ts";
import {
  type DirectLinks,
  type DirectLinksOptions,
  type LinkAddress,
  linkVersion,
} from "./direct-links.ts";

/** The functions by which a bridge opens direct links. */
export interface DirectWay {
  open(options: DirectLinksOptions): DirectLinks;
  readonly listen: DirectLinksOptions["listen"];
  /** 32 bytes that nobody can guess. */
  newToken(): Uint8Array;
  /** Called when a link opens or ends, cannot be opened, or a stranger is refused. */
  tell(news: LinkNews): void;
}

/** News of a direct link, with the other host's index in the generation. Plain data. */
export type LinkNews =
  | { readonly type: "open"; readonly host: number }
  /** Frames to the host (`outgoing`), or from it, travel over the broker. */
  | {
      readonly type: "unusable";
      readonly host: number;
      readonly way: "outgoing" | "incoming";
      readonly reason: string;
    }
  | { readonly type: "refused"; readonly address: string; readonly reason: string }
  /** The clock of the host is `aheadMs` ahead of this one's. */
  | { readonly type: "apart"; readonly host: number; readonly aheadMs: number };

export interface NegotiationOptions {
  readonly links: DirectLinks;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly place: { readonly cluster: string; readonly run: string; readonly generation: number };
  readonly host: number;
  readonly others: readonly number[];
  readonly newToken: () => Uint8Array;
  readonly tell: (news: LinkNews) => void;
  /** Deadline of an answer, and of opening a connection. */
  readonly openMs: number;
}

/** Most connections that are being opened at a time. */
const dialsMax = 16;
/**
 * First and longest pause before another attempt; a connection that lasted longer than `steadyMs`
 * resets the pause.
 */
const [pauseMsMin, pauseMsMax, steadyMs] = [100, 10_000, 10_000];
/**
 * Attempts without an answer before a link is reported as unusable: the other host may still be
 * starting.
 */
const silencesToTell = 6;
/** Clocks that differ by less count as equal. */
const apartMs = 1000;

const version = z.int().min(0);
const host = z.int().min(0);
const reason = z.string().max(500);
const token = z.base64().max(64);
const address = z.object({
  version,
  host: z.string().min(1).max(255),
  port: z.int().min(0).max(65535),
  isEncrypted: z.boolean(),
  local: z.object({ path: z.string().max(255), machine: z.string().max(255) }).exactOptional(),
});

/** A message to the bridge of another host: a request for an offer, or why its offer failed. */
const messageSchema = z.object({
  version,
  from: host,
  /** Connections of the sender to the receiver that have ended. */
  ended: z.int().min(0),
  unusable: reason.optional(),
});
/** The answer to a request: an offer, or a refusal. */
const answerSchema = z.object({
  version,
  /** Milliseconds since 1970. */
  date: z.number(),
  offer: z.object({ address, token }).optional(),
  refusal: reason.optional(),
});

type Offer = NonNullable<z.output<typeof answerSchema>["offer"]>;

interface Peer {
  readonly host: number;
  attempts: number;
  openedMs: number;
  /** Ended connections to the host; and those from it, as its last request stated. */
  endedTo: number;
  endedFrom: number;
  /** The last reported reasons why frames to the host, and from it, travel over the broker. */
  reportedTo: string | undefined;
  reportedFrom: string | undefined;
  isLeft: boolean;
  cancel: Cancel;
  /** Called when the connection is open, or known to be unusable. */
  tried: () => void;
}

export class Negotiation {
  readonly #options: NegotiationOptions;
  readonly #peers: ReadonlyMap<number, Peer>;
  readonly #queue: Peer[] = [];
  #dials = 0;
  #subscription: Subscription | undefined;
  #listening: Promise<LinkAddress | string> | undefined;
  #isClosed = false;

  constructor(options: NegotiationOptions) {
    this.#options = options;
    const nothing = () => {};
    const unreported = { reportedTo: undefined, reportedFrom: undefined };
    const fresh = { attempts: 0, openedMs: 0, endedTo: 0, endedFrom: 0, ...unreported };
    this.#peers = new Map(
      options.others.map((other) => {
        return [other, { host: other, ...fresh, isLeft: false, cancel: nothing, tried: nothing }];
      }),
    );
  }

  /** Resolves when the link to each host is open, or known to be unusable. */
  async start(): Promise<void> {
    const { transport, links, host } = this.#options;
    this.#subscription = transport.subscribe(this.#subject(host), (frame) => this.#hear(frame));
    // Without an address this host may still dial the others.
    this.#listening = links.listen().catch((error: unknown) => recordError(error).message);
    const tried = [...this.#peers.values()].map((peer) => {
      return new Promise<void>((resolve) => {
        peer.tried = resolve;
        this.#try(peer);
      });
    });
    await Promise.all(tried);
  }

  /** Connections to a host that have ended. */
  endedTo(host: number): number {
    return this.#peers.get(host)?.endedTo ?? 0;
  }

  /** Connections from a host that had ended when it requested the present one. */
  endedFrom(host: number): number {
    return this.#peers.get(host)?.endedFrom ?? 0;
  }

  /** The connection to a host has ended. */
  lost(host: number, reason: string): void {
    const peer = this.#peers.get(host);
    if (peer === undefined) return;
    peer.endedTo++;
    if (this.#options.clock.now() - peer.openedMs > steadyMs) peer.attempts = 0;
    this.#fail(peer, reason);
  }

  /** The connection from a host has ended. */
  lostFrom(host: number, reason: string): void {
    const peer = this.#peers.get(host);
    if (peer === undefined) return;
    peer.reportedFrom = undefined;
    this.#tellFrom(peer, reason);
  }

  /** Opens no further connection to a host. */
  letGo(host: number): void {
    const peer = this.#peers.get(host);
    if (peer === undefined) return;
    peer.isLeft = true;
    peer.cancel();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#subscription?.unsubscribe();
    for (const { cancel } of this.#peers.values()) cancel();
    await this.#options.links.close();
  }

  /**
   * Reports why frames from a host use the broker; a repeated request does not repeat the report.
   * N3
   */
  #tellFrom(peer: Peer, reason: string): void {
    const { isLeft, reportedFrom, host } = peer;
    if (isLeft || reportedFrom === reason) return;
    peer.reportedFrom = reason;
    this.#options.tell({ type: "unusable", host, way: "incoming", reason });
  }

  #try(peer: Peer): void {
    if (this.#isClosed || peer.isLeft) return;
    if (this.#dials === dialsMax) return void this.#queue.push(peer); // N4
    this.#dials++;
    void this.#dial(peer).finally(() => {
      this.#dials--;
      const next = this.#queue.shift();
      if (next !== undefined) this.#try(next);
    });
  }

  async #dial(peer: Peer): Promise<void> {
    const { links, clock, tell } = this.#options;
    peer.attempts++;
    try {
      const offer = await this.#ask(peer);
      await this.#open(peer, offer);
      peer.openedMs = clock.now();
      peer.reportedTo = undefined;
      if (this.#isClosed || !links.isOpen(peer.host)) return; // It was lost at once.
      tell({ type: "open", host: peer.host });
      peer.tried();
    } catch (error) {
      if (this.#isClosed) return;
      if (error instanceof LinkUnusableError) this.#fail(peer, error.message);
      else if (peer.attempts >= silencesToTell) this.#fail(peer, recordError(error).message);
      else this.#again(peer);
    }
  }

  /** Asks a host for its address. @throws LinkUnusableError, or RequestFailedError */
  async #ask({ host: other, endedTo }: Peer): Promise<Offer> {
    const { transport, clock, host: from, openMs, tell } = this.#options;
    const ask = { version: linkVersion, from, ended: endedTo };
    const { payload, headers } = encodeBody(ask, "application/json");
    const askedMs = clock.date().getTime();
    const options = { headers, deadlineMs: openMs };
    const subject = this.#subject(other);
    const answer = checked(answerSchema, await transport.request(subject, payload, options));
    const tripMs = clock.date().getTime() - askedMs;
    const aheadMs = Math.round(answer.date - askedMs - tripMs / 2);
    if (Math.abs(aheadMs) > apartMs + tripMs / 2) tell({ type: "apart", host: other, aheadMs });
    const name = "to the other host";
    if (answer.version !== linkVersion) {
      throw new LinkUnusableError(name, versions(answer.version));
    }
    if (answer.offer === undefined) {
      throw new LinkUnusableError(name, `it answers: ${visible(answer.refusal ?? "no")}`);
    }
    return answer.offer;
  }

  /** @throws LinkUnusableError */
  async #open({ host: other, endedTo }: Peer, offer: Offer): Promise<void> {
    const { links, transport, host: from } = this.#options;
    try {
      await links.dial(other, offer.address, Buffer.from(offer.token, "base64"));
    } catch (error) {
      const unusable = recordError(error).message.slice(0, 500);
      const message = { version: linkVersion, from, ended: endedTo, unusable };
      const { payload, headers } = encodeBody(message, "application/json");
      if (!this.#isClosed) transport.publish(this.#subject(other), payload, { headers }); // N3
      throw error;
    }
  }

  #fail(peer: Peer, reason: string): void {
    if (this.#isClosed || peer.isLeft) return;
    if (peer.reportedTo !== reason) {
      this.#options.tell({ type: "unusable", host: peer.host, way: "outgoing", reason });
    }
    peer.reportedTo = reason;
    peer.tried();
    this.#again(peer);
  }

  #again(peer: Peer): void {
    const pauseMs = Math.min(pauseMsMax, pauseMsMin * 2 ** Math.min(20, peer.attempts - 1));
    peer.cancel();
    peer.cancel = this.#options.clock.after(pauseMs, () => this.#try(peer));
  }

  /** @throws FrameCorruptError where the sender is no host of this generation */
  #hear(frame: Frame): void {
    const message = checked(messageSchema, frame);
    const { from: other, ended, unusable, version: theirs } = message;
    const peer = this.#peers.get(other);
    if (peer === undefined) {
      throw new FrameCorruptError(frame.subject, "its sender is not a host of this generation");
    }
    const { reply } = frame;
    if (unusable !== undefined) this.#tellFrom(peer, visible(unusable));
    if (unusable !== undefined || reply === undefined) return;
    if (theirs !== linkVersion) this.#tellFrom(peer, versions(theirs));
    void this.#listening?.then((address) => {
      if (this.#isClosed) return;
      if (typeof address === "string") this.#tellFrom(peer, address);
      const { clock, transport } = this.#options;
      const own = { version: linkVersion, date: clock.date().getTime() };
      const answer =
        theirs !== linkVersion
          ? { ...own, refusal: versions(theirs) }
          : typeof address === "string"
            ? { ...own, refusal: address.slice(0, 500) }
            : { ...own, offer: { address, token: this.#admit(peer, ended) } };
      const { payload, headers } = encodeBody(answer, "application/json");
      transport.publish(reply, payload, { headers });
    });
  }

  /**
   * Admits one new connection of a host, and ends the former one, which that host has given up. N1
   */
  #admit(peer: Peer, ended: number): string {
    const { links, newToken } = this.#options;
    const secret = newToken();
    links.fence(peer.host);
    peer.endedFrom = ended;
    links.admit(peer.host, secret);
    return Buffer.from(secret).toString("base64");
  }

  #subject(of: number): string {
    return subjectOf({ ...this.#options.place, role: "frames", index: of, action: "link" });
  }
}

function versions(theirs: number): string {
  return `the other host has version ${theirs} of direct links, this one version ${linkVersion}`;
}

/** The body of a frame. @throws FrameCorruptError */
function checked<Schema extends z.ZodType>(schema: Schema, frame: Frame): z.output<Schema> {
  const { data, success } = schema.safeParse(decodeBody(frame));
  if (!success) throw new FrameCorruptError(frame.subject, "it is no message of direct links");
  return data;
}
