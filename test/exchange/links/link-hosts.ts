// Hosts with direct links in one thread, for the tests of all carriers: each has its own memory, in
// which every other host has a route with a region.

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { ExchangeFrame, Piece } from "../../../src/exchange/frame.ts";
import type {
  DirectFrame,
  DirectLinks,
  DirectLinksOptions,
  LinkAddress,
} from "../../../src/exchange/links/direct-links.ts";
import { decodeFarewell, type Ending } from "../../../src/exchange/links/link-frames.ts";
import { sayHello } from "../../../src/exchange/links/link-hello.ts";
import { openDirectLinks } from "../../../src/exchange/links/open-links.ts";
import { realClock } from "../../../src/ports/clock.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { until } from "../../helpers/until.ts";

export type Sockets = "native" | "net";
export type Way = "tcp" | "unix" | "tls";

/** Bytes of the region of each sender, and of the area that a host sends from. */
export const regionBytes = 1 << 20;
export const place = { cluster: "test", run: "r1", generation: 3 };
/** Longer than a busy machine takes to open a link. */
export const openMs = 60_000;

export interface LinkHost {
  readonly host: number;
  readonly memory: SharedArrayBuffer;
  readonly links: DirectLinks;
  readonly address: LinkAddress;
  readonly arrived: { readonly from: number; readonly frame: ExchangeFrame }[];
  readonly lost: string[];
  readonly refused: string[];
}

export interface LinkHosts {
  readonly hosts: readonly LinkHost[];
  [Symbol.asyncDispose](): Promise<void>;
}

/** First byte of the region for frames of a host. */
export function regionOf(from: number): number {
  return regionBytes * (from + 1);
}

/** Opens the links of some hosts: each listens, and no connection is open yet. */
export async function startLinkHosts({
  sockets,
  way,
  change = () => ({}),
}: {
  readonly sockets: readonly Sockets[];
  readonly way: Way;
  readonly change?: (host: number) => Partial<DirectLinksOptions>;
}): Promise<LinkHosts> {
  const hosts = await Promise.all(
    sockets.map(async (kind, host) => {
      const memory = new SharedArrayBuffer(regionBytes * (sockets.length + 2));
      fill(memory, host);
      const events = { arrived: [] as LinkHost["arrived"], lost: [] as string[] };
      const refused: string[] = [];
      const links = openDirectLinks({
        ...{ memory, place, host, openMs, clock: realClock, sockets: kind },
        listen: { address: "127.0.0.1", isEncrypted: way === "tls" },
        regionsOf: (from) => [
          { route: 7 * from, region: { first: regionOf(from), bytes: regionBytes } },
        ],
        arrived: (from, frames) => events.arrived.push(...frames.map((frame) => ({ from, frame }))),
        lost: (other, end, reason) => events.lost.push(`${other} ${end}: ${reason}`),
        refused: (_, reason) => refused.push(reason),
        ...change(host),
      });
      const { local, ...rest } = await links.listen();
      const isLocal = way === "unix" && local !== undefined;
      const address = isLocal ? { ...rest, local, port: 1 } : rest; // No host listens on port 1.
      return { host, memory, links, address, ...events, refused };
    }),
  );
  return {
    hosts,
    async [Symbol.asyncDispose]() {
      await Promise.all(hosts.map(({ links }) => links.close()));
    },
  };
}

/** Opens the connection of one host to another. */
export async function connectLinks(from: LinkHost, to: LinkHost): Promise<void> {
  const token = randomBytes(32);
  to.links.admit(from.host, token);
  await from.links.dial(to.host, to.address, token);
}

/** A frame with pieces of these sizes, from the beginning of the sender's memory on. */
export function frameOf(
  from: number,
  sequence: number,
  sizes: readonly number[],
  change: Partial<Piece> = {},
): DirectFrame {
  const pieces: (Piece & { at: number })[] = [];
  let at = 0;
  for (const bytes of sizes) {
    const total = bytes + 5;
    pieces.push({ route: 7 * from, round: sequence, at, first: at, bytes, total, ...change });
    at += bytes;
  }
  return { sequence, seen: 2 ** 40 + sequence, missing: [sequence, 2 ** 33], pieces };
}

/** Random bytes, different on each host and in each round. */
export function fill(memory: ArrayBufferLike, host: number, round = 0): void {
  const stream = new RandomStream(host, 9, round);
  const words = new Uint32Array(memory, 0, regionBytes / 4);
  for (let i = 0; i < words.length; i++) words[i] = stream.word();
}

/** Whether some bytes of a host's own area have arrived at another host. */
export function hasArrived(from: LinkHost, to: LinkHost, bytes: number): boolean {
  const sent = Buffer.from(from.memory, 0, bytes);
  return sent.equals(Buffer.from(to.memory, regionOf(from.host), bytes));
}

/** A socket whose hello a host has accepted: its bytes are frames of host `from`. */
export async function rawSender(to: LinkHost, from = 0): Promise<Socket> {
  const token = randomBytes(32);
  to.links.admit(from, token);
  const socket = connect({ host: to.address.host, port: to.address.port, noDelay: true });
  socket.on("error", () => undefined);
  await once(socket, "connect");
  await sayHello(socket, { place, isEncrypted: false, from, to: to.host, token });
  return socket;
}

/** Sends bytes on a raw socket in chunks, and resolves to how the receiver ends the connection. */
export async function endingOf(socket: Socket, chunks: readonly Uint8Array[]): Promise<Ending> {
  const received: Buffer[] = [];
  socket.on("data", (bytes: Buffer) => received.push(bytes));
  for (const chunk of chunks) socket.write(chunk);
  await until("the end of the connection", () => socket.closed);
  return decodeFarewell(Buffer.concat(received));
}
