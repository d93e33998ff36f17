// The options of the dashboard: where its page is served, who may open it, and which actions are
// allowed.

import { randomBytes } from "node:crypto";
import { z } from "zod";
import { expected, isLoopback, tokenFor } from "../../../internal.ts";
import { type PageAction, pageActions } from "./page-api.ts";

const settings = z.strictObject({
  /** Port of the page; 0: any free port. @default 0 */
  port: z.int().min(0).max(65_535).default(0),
  /** Address to serve the page on. @default "127.0.0.1" */
  host: z.string().min(1).max(253).default("127.0.0.1"),
  /**
   * The operator's token. Left out: none is needed if only this machine can reach the page, no
   * actions are allowed, and the cluster has no tenants; otherwise a random token.
   */
  token: z
    .string()
    .regex(/^[\x21-\x7e]{16,256}$/, "16 to 256 characters, without blanks")
    .optional(),
  /**
   * Allowed actions: `control` submits, pauses, resumes, scales and cancels runs; `faults` makes
   * actors throw, if the cluster allows faults. @default []
   */
  allow: z.array(z.enum(pageActions)).max(pageActions.length).default([]),
});

/** The options of `dashboard`; an error names `dashboard.port`. */
export const dashboardOptions = z.strictObject({ dashboard: settings });

export type DashboardOptions = z.input<typeof settings>;

export type DashboardSettings = z.output<typeof settings>;

/** The viewer of a page. */
export interface Visitor {
  /** The viewer's tenant; undefined: the operator. */
  readonly tenant: string | undefined;
  readonly allow: readonly PageAction[];
}

/** The tokens that give access, and the allowed actions. */
export interface Access {
  /** The operator's token; undefined: no token is needed. */
  readonly token: string | undefined;
  /** By tenant: a token derived from the operator's. */
  readonly tenantTokens: ReadonlyMap<string, string>;
  readonly allow: readonly PageAction[];
}

/**
 * Resolves the access to a dashboard. @throws InvalidOptionError if `faults` is allowed in a
 * cluster that does not allow faults
 */
export function accessOf(
  { host, token: given, allow }: DashboardSettings,
  cluster: { readonly tenants: readonly string[]; readonly faultsAllowed: boolean },
): Access {
  if (allow.includes("faults") && !cluster.faultsAllowed) {
    throw expected("dashboard.allow", "without `faults` where `faultsAllowed` is not true", allow);
  }
  const isOpen = isLoopback(host) && allow.length === 0 && cluster.tenants.length === 0;
  const token = given ?? (isOpen ? undefined : randomBytes(16).toString("hex"));
  const tenantTokens = new Map(
    token === undefined
      ? []
      : cluster.tenants.map((name) => [name, tokenFor(token, `dashboard of tenant ${name}`)]),
  );
  return { token, tenantTokens, allow };
}
