// Where a host takes direct links: its address, ports and encryption, by its options and by its
// connection to the broker.

import { randomBytes } from "node:crypto";
import { createSocket } from "node:dgram";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import type { DirectLinksOptions } from "../../src/exchange/links/direct-links.ts";
import type { LinkPlace } from "../../src/exchange/links/link-options.ts";
import type { DirectWay } from "../../src/exchange/links/negotiation.ts";
import type { Connection } from "../runtime/mailbox.ts";

/** Opens the direct links of a host. */
export async function directWayOf(
  place: LinkPlace,
  { servers, tls }: Pick<Connection, "servers" | "tls">,
): Promise<Omit<DirectWay, "tell">> {
  // Loaded only by threads that open links.
  const { openDirectLinks } = await import("../../src/exchange/links/open-links.ts");
  const { address, first, last } = partsOf(place.linkAddress ?? "");
  const isTls = tls !== undefined || servers.includes("tls://");
  const { linkEncryption } = place;
  const own = address ?? (await addressTo(servers));
  const port = await freePort(own, first, last);
  const listen: DirectLinksOptions["listen"] = {
    address: own,
    ...(port !== undefined && { port }),
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

/** The address from which this machine reaches the first broker, or any of its addresses. */
async function addressTo(servers: string): Promise<string> {
  const { hostname, port } = urlOf(servers.split(",")[0] ?? "");
  const socket = createSocket(hostname.includes(":") ? "udp6" : "udp4");
  try {
    return await new Promise<string>((resolve, reject) => {
      socket.once("error", reject);
      // Connecting a UDP socket sends nothing: it only chooses the route.
      socket.connect(Number(port || 4222), hostname, () => resolve(socket.address().address));
    });
  } catch {
    const all = Object.values(networkInterfaces()).flatMap((own) => own ?? []);
    const usable = all.find(({ internal, family }) => !internal && family === "IPv4");
    return usable?.address ?? "127.0.0.1";
  } finally {
    socket.close();
  }
}

function urlOf(server: string): { readonly hostname: string; readonly port: string } {
  const text = server.includes("://") ? server : `nats://${server}`;
  const { hostname, port } = new URL(text.replace(/^[a-z]+:/, "http:"));
  return { hostname: hostname.replace(/^\[|\]$/g, ""), port };
}

/** A free port of a range; undefined: any. Where none is free, the first, and listening fails. */
async function freePort(host: string, first: number, last: number): Promise<number | undefined> {
  if (first === 0) return undefined;
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
