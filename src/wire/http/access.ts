// Access checks of the HTTP servers: whether an address is local to this machine, whether a request
// was meant for it, and which token a request carries.

import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

/** The headers of a request that identify the requested host and the caller. */
export interface Headed {
  readonly headers: {
    readonly host?: string | undefined;
    readonly authorization?: string | undefined;
  };
}

const loopback: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "::1", "[::1]"]);

/** Whether only this machine can reach a server that listens at `host`. */
export function isLoopback(host: string): boolean {
  return loopback.has(host) || /^127(\.\d{1,3}){3}$/.test(host);
}

/**
 * Whether a request names this machine as its host. In a DNS rebinding attack, a page of another
 * site reaches this server, but its requests name the other site.
 */
export function isForLoopback(request: Headed): boolean {
  const { host = "" } = request.headers;
  return isLoopback(host.replace(/:\d+$/, ""));
}

/**
 * Whether two tokens are equal; compared in constant time, so that the time does not leak the
 * difference.
 */
export function isSameToken(given: string, expected: string): boolean {
  const [a, b] = [given, expected].map((one) => createHash("sha256").update(one).digest());
  return a !== undefined && b !== undefined && timingSafeEqual(a, b);
}

/** The token of `Authorization: Bearer`; undefined: the header has none. */
export function bearerOf(request: Headed): string | undefined {
  return /^Bearer (.+)$/i.exec(request.headers.authorization ?? "")?.[1];
}

/** The value of a cookie, decoded as `encodeURIComponent` encodes it; undefined: there is none. */
export function cookieOf(request: IncomingMessage, name: string): string | undefined {
  for (const one of (request.headers.cookie ?? "").split(";")) {
    const [key, ...value] = one.trim().split("=");
    if (key === name) return decoded(value.join("="));
  }
  return undefined;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // Not encoded by us: compared as is.
  }
}

/** Derives a token for one purpose from the operator's token, so that it need not be stored. */
export function tokenFor(secret: string, purpose: string): string {
  return createHmac("sha256", secret).update(purpose).digest("hex").slice(0, 32);
}
