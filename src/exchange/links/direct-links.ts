// The port of direct links: connections between two hosts that carry the frames of their bridges
// without the broker. A bridge (bridge.ts) keeps its own sequences, windows and acknowledgements,
// so a frame may travel over the broker or over a direct link, and a link may fail at any moment:
// the bridge sends the frames in flight again over the broker.
//
//   bridge of host 0 ──send──▶ connection 0 ▶ 1 ──arrived──▶ bridge of host 1
//   bridge of host 0 ◀─arrived── connection 1 ▶ 0 ◀──send── bridge of host 1
//
// A connection carries frames one way, so each of its ends is used by one thread. The payload of a
// frame is received straight into the exchange's memory, and sent straight from it.
//
// Invariants
//   D1. A frame goes over a direct connection at most once, when it is new. So frames of a
//       connection arrive in the order of their sequences, and none of them repeats bytes that were
//       read.
//   D2. After `fence` returns, the other host's connection writes no byte. A bridge takes a frame
//       with pieces over the broker only after it has fenced the sender's direct connection.
//   D3. Before its hello is verified, a connection is read up to the hello's fixed size, and
//       nothing of it is parsed further.
// Implementations: native sockets (native-links.ts), Node's `net` (net-links.ts), simulated ones.

import type { Clock } from "../../ports/clock.ts";
import type { Extent } from "../exchange.ts";
import type { ExchangeFrame } from "../frame.ts";
import type { OwnPiece } from "../link.ts";

/** Version of the negotiation, the hello and the frames of direct links. */
export const linkVersion = 1;

/** Where a host takes connections. Plain data: it travels over NATS. */
export interface LinkAddress {
  /** Version of the protocol of direct links. */
  readonly version: number;
  /** Name or IP address, and TCP port. */
  readonly host: string;
  readonly port: number;
  /** Whether TCP connections are encrypted: TLS with a pre-shared key made from the token. */
  readonly isEncrypted: boolean;
  /** A Unix socket, and the boot id of its machine: for processes of that machine. */
  readonly local?: { readonly path: string; readonly machine: string };
}

/** A frame to send. Its bytes stay unchanged in the exchange's memory until they arrived. */
export interface DirectFrame extends Omit<ExchangeFrame, "generation" | "from" | "pieces"> {
  readonly pieces: readonly OwnPiece[];
}

/** Events of direct links. Calls come on the thread that opened them. */
export interface LinkEvents {
  /** Frames arrived; the bytes of their pieces are in the exchange's memory. */
  arrived(host: number, frames: readonly ExchangeFrame[]): void;
  /**
   * A connection ended that this host did not end: `outgoing` to the host, or from it. `reason`
   * is a sentence for people. A frame of a wrong checksum, or one that does not fit its route,
   * ends its connection so.
   */
  lost(host: number, way: "outgoing" | "incoming", reason: string): void;
  /** A connection was refused at its hello: a stranger, or another version, run or generation. */
  refused(address: string, reason: string): void;
}

export interface DirectLinksOptions extends LinkEvents {
  /** The exchange's memory on this host. */
  readonly memory: ArrayBufferLike;
  readonly place: { readonly cluster: string; readonly run: string; readonly generation: number };
  /** Index of this host among the hosts of the generation. */
  readonly host: number;
  /** Address on which connections are accepted, and which is sent to other hosts. */
  readonly listen: {
    readonly address: string;
    /** @default any free port */
    readonly port?: number;
    readonly isEncrypted: boolean;
  };
  /** The routes on which a host may send, with their regions in `memory`. */
  regionsOf(host: number): Iterable<{ readonly route: number; readonly region: Extent }>;
  /** Deadline of opening a connection, its hello included. */
  readonly openMs: number;
  readonly clock: Clock;
  /** @default `native` where the addon is loaded */
  readonly sockets?: "native" | "net";
}

/** The direct links of a host in one generation. */
export interface DirectLinks {
  /** Largest payload of a frame. */
  readonly frameBytesMax: number;
  /** Takes connections from now on. @throws LinkUnusableError where it cannot listen */
  listen(): Promise<LinkAddress>;
  /**
   * Admits one connection of a host that knows the token, of 32 random bytes. It replaces a token
   * of that host that was not used.
   */
  admit(host: number, token: Uint8Array): void;
  /**
   * Opens the connection for frames to a host.
   * @throws LinkUnusableError naming the address, and why: unreachable, refused, another version
   */
  dial(host: number, address: LinkAddress, token: Uint8Array): Promise<void>;
  /** Whether frames may be sent to the host. */
  isOpen(host: number): boolean;
  /**
   * Sends a frame, in the order of the calls, without waiting. It is dropped where the connection
   * is not open. Sequence 0, without pieces, only acknowledges.
   */
  send(host: number, frame: DirectFrame): void;
  /** Ends the connection to the host. Frames in flight on it may arrive or not. */
  hangUp(host: number): void;
  /** Ends the host's connection to this one. When it returns, no more bytes are written. D2 */
  fence(host: number): void;
  /** Ends all connections, and stops listening. Safe to call twice. */
  close(): Promise<void>;
}
