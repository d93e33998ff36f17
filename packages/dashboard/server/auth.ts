// Authorisation of the dashboard: decides for each request whether it is allowed, and for which
// viewer.
//
// Invariants
//   D1. Without a token, only requests that name this machine as host are answered: a page of
//       another site that reaches this server by DNS rebinding reads nothing.
//   D2. A request that changes something needs a header that a form of another site cannot send,
//       and the dashboard's own origin, if the browser sends an origin.
//   D3. A tenant's token gives no access to the operator's or another tenant's data.

import type { IncomingMessage } from "node:http";
import { bearerOf, cookieOf, isForLoopback, isSameToken } from "../../../internal.ts";
import type { Access, Visitor } from "./dashboard-options.ts";

/** The refusal of a request. */
export interface Refusal {
  readonly status: 400 | 401 | 403;
  readonly message: string;
}

/** The header that requests with changes must have. */
const changeHeader = "x-osiris-page";

/**
 * The cookie's name, with the port, because servers on different ports of a machine share cookies.
 */
export const cookieName = (port: number) => `osiris-${port}`;

/** The viewer that a request belongs to, or its refusal. */
export function visitorOf(
  request: IncomingMessage,
  access: Access,
  port: number,
): Visitor | Refusal {
  const { token, allow } = access;
  if (token === undefined) {
    if (isForLoopback(request)) return { tenant: undefined, allow }; // D1
    return {
      status: 403,
      message: "Expected an address of this machine, such as http://127.0.0.1",
    };
  }
  const given = bearerOf(request) ?? cookieOf(request, cookieName(port));
  return visitorWith(given, access) ?? { status: 401, message: needsToken };
}

/** The viewer with this token; undefined: it is not valid. */
export function visitorWith(given: string | undefined, access: Access): Visitor | undefined {
  const { token, tenantTokens, allow } = access;
  if (given === undefined || token === undefined) return undefined;
  if (isSameToken(given, token)) return { tenant: undefined, allow };
  for (const [tenant, token] of tenantTokens) {
    // D3: faults are for the operator only.
    if (isSameToken(given, token))
      return { tenant, allow: allow.filter((one) => one === "control") };
  }
  return undefined;
}

const needsToken =
  "Expected a token: open the link that `osiris up` has printed, with ?token=… at its end";

/** Why a request may not change anything; undefined: it may. D2 */
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
