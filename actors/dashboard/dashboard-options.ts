// The options of the dashboard: where its page is served, to whom, and what the page may do.

import { randomBytes } from "node:crypto";
import { z } from "zod";
import { expected } from "../../src/ports/check-options.ts";
import { isLoopback, tokenFor } from "../../src/wire/http/access.ts";
import { type PageAction, pageActions } from "./page-api.ts";

const settings = z.strictObject({
  /** Port of the page; 0: any that is free. @default 0 */
  port: z.int().min(0).max(65_535).default(0),
  /** Address that it is served on. @default "127.0.0.1" */
  host: z.string().min(1).max(253).default("127.0.0.1"),
  /**
   * What the operator's browser has to know. Left out: nothing, where only this machine reaches the
   * page, it may do nothing, and the cluster has no tenants; else a random one.
   */
  token: z
    .string()
    .regex(/^[\x21-\x7e]{16,256}$/, "16 to 256 characters, without blanks")
    .optional(),
  /**
   * What it may do besides looking: `control` submits, pauses, resumes, scales and cancels runs;
   * `faults` makes actors throw, where the cluster allows faults. @default []
   */
  allow: z.array(z.enum(pageActions)).max(pageActions.length).default([]),
});

/** The options of `dashboard`; an error names `dashboard.port`. */
export const dashboardOptions = z.strictObject({ dashboard: settings });

export type DashboardOptions = z.input<typeof settings>;

export type DashboardSettings = z.output<typeof settings>;

/** Who opened a page. */
export interface Visitor {
  /** Undefined: the operator. */
  readonly tenant: string | undefined;
  readonly allow: readonly PageAction[];
}

/** Tokens, and who has them. */
export interface Access {
  /** Undefined: nobody needs one. */
  readonly token: string | undefined;
  /** By tenant: a token each, made of the operator's. */
  readonly tenantTokens: ReadonlyMap<string, string>;
  readonly allow: readonly PageAction[];
}

/** @throws InvalidOptionError where faults are to be thrown in a cluster that allows none */
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
