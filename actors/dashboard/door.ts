// The door of the dashboard: says of each request whether it is let in, and who asks.
//
// Invariants
//   D1. Without a token, only requests that name this machine are answered: a page of another site
//       whose name leads here reads nothing.
//   D2. What changes something is asked with a header that a form of another site cannot send, and
//       from this site's own page, if a browser sends it.
//   D3. A tenant's token opens nothing of the operator's, and nothing of another tenant's.

import type { IncomingMessage } from "node:http";
import { bearerOf, cookieOf, isForLoopback, isSameToken } from "../../src/wire/http/access.ts";
import type { Access, Visitor } from "./dashboard-options.ts";

/** A request that is not let in. */
export interface Refusal {
  readonly status: 400 | 401 | 403;
  readonly message: string;
}

/** The header of requests that change something. */
const changeHeader = "x-osiris-page";

/** The cookie's name; a machine's servers share their cookies, whatever their ports. */
export const cookieName = (port: number) => `osiris-${port}`;

/** Who asks; or why nobody is answered. */
export function visitorOf(
  request: IncomingMessage,
  access: Access,
  port: number,
): Visitor | Refusal {
  const { token, allow } = access;
  if (token === undefined) {
    if (isForLoopback(request)) return { tenant: undefined, allow }; // D1
    return { status: 403, message: "Expected an address of this machine, as http://127.0.0.1" };
  }
  const given = bearerOf(request) ?? cookieOf(request, cookieName(port));
  return visitorWith(given, access) ?? { status: 401, message: needsToken };
}

/** Who has the token; undefined: nobody. */
export function visitorWith(given: string | undefined, access: Access): Visitor | undefined {
  const { token, tenantTokens, allow } = access;
  if (given === undefined || token === undefined) return undefined;
  if (isSameToken(given, token)) return { tenant: undefined, allow };
  for (const [tenant, own] of tenantTokens) {
    // D3: faults are the operator's.
    if (isSameToken(given, own)) return { tenant, allow: allow.filter((one) => one === "control") };
  }
  return undefined;
}

const needsToken =
  "Expected a token: open the link that `osiris up` has printed, with ?token=… at its end";

/** Why a request may change nothing; undefined: it may. D2 */
export function refusalOfChange(request: IncomingMessage): Refusal | undefined {
  const { origin, host, [changeHeader]: header } = request.headers;
  if (header !== "1") return { status: 403, message: `Expected the header ${changeHeader}: 1` };
  if (origin !== undefined && hostIn(origin) !== host) {
    return { status: 403, message: "Expected a request of the dashboard's own page" };
  }
  if (!/^application\/json\b/.test(request.headers["content-type"] ?? "")) {
    return { status: 400, message: "Expected a body of application/json" };
  }
  return undefined;
}

function hostIn(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
