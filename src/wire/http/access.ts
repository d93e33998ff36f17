// Who may ask an HTTP server of ours: whether an address is this machine's own, whether a request
// was meant for it, and which token a request brings.

import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

/** A request's headers that tell who asks for whom. */
export interface Headed {
  readonly headers: {
    readonly host?: string | undefined;
    readonly authorization?: string | undefined;
  };
}

const loopback: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "::1", "[::1]"]);

/** Whether nobody but this machine reaches what listens there. */
export function isLoopback(host: string): boolean {
  return loopback.has(host) || /^127(\.\d{1,3}){3}$/.test(host);
}

/**
 * Whether a request names this machine as its host. A page of another site whose name was made to
 * lead here (DNS rebinding) names that site.
 */
export function isForLoopback(request: Headed): boolean {
  const { host = "" } = request.headers;
  return isLoopback(host.replace(/:\d+$/, ""));
}

/** Whether two tokens are the same, in a time that tells nothing of how they differ. */
export function isSameToken(given: string, expected: string): boolean {
  const [a, b] = [given, expected].map((one) => createHash("sha256").update(one).digest());
  return a !== undefined && b !== undefined && timingSafeEqual(a, b);
}

/** The token of `Authorization: Bearer`; undefined: there is none. */
export function bearerOf(request: Headed): string | undefined {
  return /^Bearer (.+)$/i.exec(request.headers.authorization ?? "")?.[1];
}

/** The value of a cookie, as `encodeURIComponent` wrote it; undefined: there is none. */
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
    return text; // Somebody else wrote it: it is compared as it is.
  }
}

/** A token for one purpose, made of the token of the operator: nothing has to be kept for it. */
export function tokenFor(secret: string, purpose: string): string {
  return createHmac("sha256", secret).update(purpose).digest("hex").slice(0, 32);
}
