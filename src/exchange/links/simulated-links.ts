// Direct links without a network: connections in one thread, in the time of a Clock, with faults
// drawn from a seed. Like sockets on threads of their own, a connection reads a frame's bytes some
// time after `send`, and writes them in parts, each at a time of its own, until it is fenced.
//
// Invariants
//   S1. Nothing happens inside a call: every effect on another host is a task of the clock.
//   S2. Frames of one connection arrive in order; frames of two connections in any order.
//   S3. Bytes in flight still arrive after their sender has lost or ended the connection.
//   S4. A frame with a flipped bit is written, and ends its connection before it has arrived.

import { timingSafeEqual } from "node:crypto";
import { LinkUnusableError } from "../../errors/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import { purposes, RandomStream } from "../../ports/random.ts";
import type { Extent } from "../exchange.ts";
import {
  type DirectFrame,
  type DirectLinks,
  type DirectLinksOptions,
  type LinkAddress,
  linkVersion,
} from "./direct-links.ts";

/** Faults of all connections. Probabilities lie in [0, 1]; left out means never. */
export interface LinkFaults {
  /** Least and largest time of a frame on its way. @default [0, 0] */
  readonly delayMs?: readonly [number, number];
  /** How often a connection is cut at a frame: bytes in flight may still arrive. */
  readonly cut?: number;
  /** How often a connection takes this frame and all later ones, and loses them. */
  readonly halfOpen?: number;
  /** How often a bit of a frame is flipped. */
  readonly flip?: number;
  /** How often a connection is refused. */
  readonly refuse?: number;
}

/** The network between simulated hosts. */
export interface LinkNetwork {
  /** The links of a host. `enter` runs a task on the host's thread: now, later, or never. */
  open(options: DirectLinksOptions, enter?: (task: () => void) => void): DirectLinks;
  /** Replaces all faults. Frames in flight keep the delays they have. */
  setFaults(...faults: readonly LinkFaults[]): void;
  /** Cuts an open connection, counted from `pick`; false: none is open. */
  cut(pick: number): boolean;
  /** Random tokens of the seed. */
  newToken(): Uint8Array;
  /** Frames sent so far, and those that arrived. */
  readonly sent: number;
  readonly arrived: number;
}

export function createLinkNetwork(options: {
  readonly clock: Clock;
  readonly seed: number;
  readonly faults?: LinkFaults | undefined;
}): LinkNetwork {
  const network = new SimulatedNetwork(options.clock, options.seed);
  network.setFaults(options.faults ?? {});
  return network;
}

/** One end of connections: a host's links. */
interface End {
  readonly options: DirectLinksOptions;
  readonly enter: (task: () => void) => void;
  readonly admitted: Map<number, Uint8Array>;
  readonly outgoing: Map<number, Connection>;
  readonly incoming: Map<number, Connection>;
  isClosed: boolean;
}

interface Connection {
  readonly from: End;
  readonly to: End;
  /** The regions that the sender may write to, by route. */
  readonly regions: ReadonlyMap<number, Extent>;
  /** The sender sends nothing more, and the receiver writes nothing more. */
  isEnded: boolean;
  isFenced: boolean;
  isHalfOpen: boolean;
  /** When the last part arrives. S2 */
  lastMs: number;
}

class SimulatedNetwork implements LinkNetwork {
  sent = 0;
  arrived = 0;
  readonly #clock: Clock;
  readonly #random: RandomStream;
  readonly #ends = new Map<number, End>();
  readonly #connections = new Set<Connection>();
  #faults: readonly LinkFaults[] = [];
  #ports = 0;

  constructor(clock: Clock, seed: number) {
    this.#clock = clock;
    this.#random = new RandomStream(seed, purposes.faults, 4);
  }

  setFaults(...faults: readonly LinkFaults[]): void {
    this.#faults = faults;
  }

  newToken(): Uint8Array {
    return Uint8Array.from({ length: 32 }, () => this.#random.below(256));
  }

  cut(pick: number): boolean {
    const open = [...this.#connections].filter(({ isEnded }) => !isEnded);
    const one = open[pick % Math.max(1, open.length)];
    if (one !== undefined) this.#cut(one, "it was cut");
    return one !== undefined;
  }

  open(options: DirectLinksOptions, enter = (task: () => void) => task()): DirectLinks {
    const end: End = {
      ...{ options, enter, isClosed: false },
      ...{ admitted: new Map(), outgoing: new Map(), incoming: new Map() },
    };
    let port: number | undefined;
    return {
      frameBytesMax: 2 ** 20,
      listen: async () => {
        port = ++this.#ports;
        this.#ends.set(port, end);
        const { address: host, isEncrypted } = options.listen;
        return { version: linkVersion, host, port, isEncrypted };
      },
      admit: (host, token) => void end.admitted.set(host, token),
      dial: (host, address, token) => this.#dial(end, host, address, token),
      isOpen: (host) => end.outgoing.get(host)?.isEnded === false,
      send: (host, frame) => {
        const connection = end.outgoing.get(host);
        if (connection?.isEnded === false) this.#send(connection, frame);
      },
      hangUp: (host) => this.#end(end.outgoing.get(host), "the other host hung up"),
      fence: (host) => this.#fence(end.incoming.get(host)),
      close: async () => {
        end.isClosed = true;
        if (port !== undefined) this.#ends.delete(port);
        for (const one of end.outgoing.values()) this.#end(one, "the other host closed it");
        for (const one of end.incoming.values()) this.#fence(one);
      },
    };
  }

  async #dial(end: End, host: number, address: LinkAddress, token: Uint8Array): Promise<void> {
    const { openMs, host: own } = end.options;
    const name = `${address.host}:${address.port}`;
    const tripMs = this.#delayMs() + this.#delayMs();
    await new Promise<void>((resume) => {
      this.#clock.after(Math.min(openMs, tripMs), () => end.enter(resume));
    });
    const to = this.#ends.get(address.port);
    if (to === undefined || to.isClosed || this.#happens("refuse")) {
      throw new LinkUnusableError(name, "connection refused");
    }
    const expected = to.admitted.get(own);
    if (expected === undefined || !timingSafeEqual(expected, token)) {
      const reason = "its token is not the one of this host";
      this.#later(to, () => to.options.refused(`host ${own}`, reason));
      throw new LinkUnusableError(name, "the other host refused the token");
    }
    to.admitted.delete(own);
    if (tripMs > openMs) throw new LinkUnusableError(name, `no answer within ${openMs} ms`);
    const listed = [...to.options.regionsOf(own)];
    const regions = new Map(listed.map(({ route, region }) => [route, region]));
    const fresh = { isEnded: false, isFenced: false, isHalfOpen: false, lastMs: 0 };
    const connection = { from: end, to, regions, ...fresh };
    this.#connections.add(connection);
    this.#end(end.outgoing.get(host), "it was dialled again");
    this.#fence(to.incoming.get(own));
    end.outgoing.set(host, connection);
    to.incoming.set(own, connection);
  }

  #send(connection: Connection, frame: DirectFrame): void {
    const { from, to } = connection;
    if (this.#happens("halfOpen")) connection.isHalfOpen = true;
    const isFlipped = this.#happens("flip");
    if (this.#happens("cut")) this.#clock.after(0, () => this.#cut(connection, "it was cut"));
    if (connection.isHalfOpen) return;
    this.sent++;
    const { memory, host } = from.options;
    const { generation } = from.options.place;
    this.#inTurn(connection, () => {
      const parts: { readonly at: number; readonly bytes: Uint8Array }[] = [];
      for (const { route, first, at, bytes } of frame.pieces) {
        const region = connection.regions.get(route);
        if (region === undefined || first + bytes > region.bytes) {
          return this.#lose(connection, `it does not fit into route ${route}`);
        }
        const payload = new Uint8Array(memory, at, bytes).slice();
        const half = this.#random.below(bytes + 1);
        parts.push({ at: region.first + first, bytes: payload.subarray(0, half) });
        parts.push({ at: region.first + first + half, bytes: payload.subarray(half) });
      }
      const [hit] = parts.filter(({ bytes }) => bytes.length > 0);
      if (isFlipped && hit !== undefined) hit.bytes[0] = (hit.bytes[0] ?? 0) ^ 1;
      for (const { at, bytes } of parts) {
        this.#inTurn(connection, () => new Uint8Array(to.options.memory).set(bytes, at));
      }
      const { pieces, ...head } = frame;
      const arrived = { ...head, generation, from: host, pieces };
      this.#inTurn(connection, () => {
        if (isFlipped) return this.#lose(connection, "a frame has a wrong checksum"); // S4
        this.arrived++;
        this.#later(to, () => to.options.arrived(host, [arrived]));
      });
    });
  }

  /** Runs a task of a connection in its order, unless it is fenced by then. S2 */
  #inTurn(connection: Connection, task: () => void): void {
    const atMs = Math.max(connection.lastMs, this.#clock.now() + this.#delayMs() / 4);
    connection.lastMs = atMs;
    this.#clock.after(atMs - this.#clock.now(), () => {
      if (!connection.isFenced) task();
    });
  }

  /** The network fails. The sender learns of it at once, the receiver after the last byte. S3 */
  #cut(connection: Connection, reason: string): void {
    if (connection.isEnded) return;
    const { from, to } = connection;
    this.#end(connection, reason);
    this.#clock.after(0, () => {
      from.enter(() => {
        if (!from.isClosed) from.options.lost(to.options.host, "outgoing", reason);
      });
    });
  }

  /** The receiver ends the connection for a fault. */
  #lose(connection: Connection, reason: string): void {
    const { from, to } = connection;
    this.#later(to, () => to.options.lost(from.options.host, "incoming", reason));
    this.#fence(connection);
  }

  /** The sender ends the connection, and the receiver learns of it. */
  #end(connection: Connection | undefined, reason: string): void {
    if (connection === undefined || connection.isEnded) return;
    const { from, to } = connection;
    connection.isEnded = true;
    this.#connections.delete(connection);
    this.#inTurn(connection, () => {
      connection.isFenced = true;
      this.#later(to, () => to.options.lost(from.options.host, "incoming", reason));
    });
  }

  /** The receiver ends the connection, and the sender learns of it. */
  #fence(connection: Connection | undefined): void {
    if (connection === undefined || connection.isFenced) return;
    connection.isFenced = true;
    this.#connections.delete(connection);
    if (connection.isEnded) return;
    const { from, to } = connection;
    const reason = "the other host ended it";
    this.#later(from, () => {
      if (connection.isEnded) return;
      connection.isEnded = true;
      from.options.lost(to.options.host, "outgoing", reason);
    });
  }

  #later(end: End, task: () => void): void {
    this.#clock.after(this.#delayMs(), () => {
      end.enter(() => {
        if (!end.isClosed) task();
      });
    });
  }

  #delayMs(): number {
    const given = this.#faults.find(({ delayMs }) => delayMs !== undefined);
    const [least, most] = given?.delayMs ?? [0, 0];
    return least + (most - least) * this.#random.uniform();
  }

  #happens(fault: "cut" | "halfOpen" | "flip" | "refuse"): boolean {
    return this.#faults.some(({ [fault]: probability = 0 }) => {
      return probability > 0 && this.#random.uniform() < probability;
    });
  }
}
