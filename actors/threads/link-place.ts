// Where a host takes direct links: its address, ports and encryption, by its options and by its
// connection to the broker.

import { randomBytes } from "node:crypto";
import { createSocket, type SocketOptions } from "node:dgram";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import type { DirectLinksOptions } from "../../src/exchange/links/direct-links.ts";
import type { LinkPlace } from "../../src/exchange/links/link-options.ts";
import type { DirectWay } from "../../src/exchange/links/negotiation.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Connection } from "../runtime/mailbox.ts";

/**
 * Longest wait for the resolver of names, as long as for a direct link to open. A resolver that
 * does not respond would delay the generation by half a minute or more.
 */
const resolverMs = 2000;

interface PlacePorts {
  readonly clock: Clock;
  /** Resolves names. @default that of the machine */
  readonly lookup?: NonNullable<SocketOptions["lookup"]>;
}

/** Opens the direct links of a host. */
export async function directWayOf(
  place: LinkPlace,
  { servers, tls }: Pick<Connection, "servers" | "tls">,
  ports: PlacePorts,
): Promise<Omit<DirectWay, "tell">> {
  // Loaded only by threads that open links.
  const { openDirectLinks } = await import("../../src/exchange/links/open-links.ts");
  const { address, first, last } = partsOf(place.linkAddress ?? "");
  const isTls = tls !== undefined || servers.includes("tls://");
  const { linkEncryption } = place;
  const own = address ?? (await addressTo(servers, ports)) ?? anyAddress();
  const port = first === 0 ? undefined : await within(ports.clock, freePort(own, first, last));
  const listen: DirectLinksOptions["listen"] = {
    address: own,
    ...(first !== 0 && { port: port ?? first }),
    isEncrypted: linkEncryption === "auto" ? isTls : linkEncryption === "always",
  };
  return { open: openDirectLinks, listen, newToken: () => randomBytes(32) };
}

function partsOf(text: string) {
  const found = /^(?:\[([^\]]+)\]|([^:]+))?(?::(\d+)(?:-(\d+))?)?$/.exec(text);
  const [, bracketed, plain, from, to = from] = found ?? [];
  const numbers = from === undefined ? {} : { first: Number(from), last: Number(to) };
  return { address: bracketed ?? plain, first: 0, last: 0, ...numbers };
}

/** Resolves as `found`, or to undefined after `resolverMs`. */
async function within<Found>(clock: Clock, found: Promise<Found>): Promise<Found | undefined> {
  let cancel = () => {};
  const late = new Promise<undefined>((resolve) => {
    cancel = clock.after(resolverMs, () => resolve(undefined));
  });
  return await Promise.race([found, late]).finally(() => cancel());
}

/** The address from which this machine reaches the first broker; undefined: none was found. */
async function addressTo(
  servers: string,
  { clock, lookup }: PlacePorts,
): Promise<string | undefined> {
  const { hostname, port } = urlOf(servers.split(",")[0] ?? "");
  const type = hostname.includes(":") ? "udp6" : "udp4";
  const socket = createSocket({ type, ...(lookup && { lookup }) });
  const found = new Promise<string | undefined>((resolve) => {
    socket.once("error", () => resolve(undefined));
    // Connecting a UDP socket sends nothing: it only chooses the route.
    socket.connect(Number(port || 4222), hostname, () => resolve(socket.address().address));
  });
  return await within(clock, found).finally(() => socket.close());
}

function anyAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((own) => own ?? []);
  const usable = all.find(({ internal, family }) => !internal && family === "IPv4");
  return usable?.address ?? "127.0.0.1";
}

function urlOf(server: string): { readonly hostname: string; readonly port: string } {
  const text = server.includes("://") ? server : `nats://${server}`;
  const { hostname, port } = new URL(text.replace(/^[a-z]+:/, "http:"));
  return { hostname: hostname.replace(/^\[|\]$/g, ""), port };
}

/** A free port of a range; where none is free, the first, and listening fails. */
async function freePort(host: string, first: number, last: number): Promise<number> {
  for (let port = first; port <= last; port++) {
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false)).listen({ host, port }, () => resolve(true));
    });
    await new Promise((closed) => server.close(closed));
    if (isFree) return port;
  }
  return first;
}
