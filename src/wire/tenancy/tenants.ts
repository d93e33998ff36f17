// Tenants: which tenants share a cluster, what their users may do, and their limits. All in one
// file: the broker's configuration is made from it (nats-config.ts), and the job service obeys it.

import { z } from "zod";
import { checkOptions, expected } from "../../ports/check-options.ts";
import { bodyBytesMax } from "../messages/chunks.ts";
import { isUserKey } from "../transports/credentials.ts";

/** A name that is valid in a subject's token, a broker's configuration and a file name. */
export const tenantName = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, "letters, digits, - and _, at most 64");

const userOptions = z.strictObject({
  /** `everything`: submit runs and control them; `read`: only look at them. */
  may: z.enum(["everything", "read"]).default("everything"),
  /**
   * Password, or its bcrypt hash. Without it and without `nkey`, an nkey is made and its seed
   * written to a file.
   */
  pass: z
    .string()
    .min(8)
    .regex(/^\P{Cc}*$/u, "a password of one line, without control characters")
    .optional(),
  /** Public key of an existing nkey of the user, `U…`. */
  nkey: z
    .string()
    .regex(/^U[A-Z2-7]{55}$/, "the public key of a user's nkey, U…")
    .optional(),
});

/** Limits of the job service for one tenant. */
export const requestLimits = z.strictObject({
  /** Requests a second; bursts of twice as many. */
  requestsPerSecond: z.number().gt(0).max(1e6).default(100),
  /** Largest request, including the job. */
  requestBytesMax: z.int().min(1024).max(bodyBytesMax).default(524_288),
});

export type RequestLimits = z.output<typeof requestLimits>;

/** Limits on a tenant's use at one time; a limit left out does not apply. */
const tenantQuota = z.strictObject({
  /** Runs that are queued or paused. */
  queuedMax: z.int().min(1).optional(),
  /** Runs that have devices, and the devices of all of them; further runs wait. */
  runningMax: z.int().min(1).optional(),
  devicesMax: z.int().min(1).optional(),
  /** Highest priority of its jobs. A job of higher priority makes jobs of others wait. */
  priorityMax: z.int().min(-100).max(100).optional(),
  /** Bytes of the data caches in each directory that its jobs name, at most. */
  cacheBytesMax: z.int().min(1).optional(),
});

export type TenantQuota = z.output<typeof tenantQuota>;

const tenantOptions = requestLimits.extend({
  ...tenantQuota.shape,
  users: z.record(tenantName, userOptions),
  /** Connections that its users may have at one time. */
  connectionsMax: z.int().min(1).default(64),
});

/** The tenants of a file, by name. */
export const tenantsOptions = z.record(tenantName, tenantOptions);

export type Tenants = z.output<typeof tenantsOptions>;
export type TenantUser = z.output<typeof userOptions>;

/**
 * Login name of a user with a password. Names of tenants and users have no `.`, so it is unique.
 */
export function loginOf(tenant: string, user: string): string {
  return `${tenant}.${user}`;
}

/** The quota of a tenant. The operator, and tenants that the file does not name, have none. */
export function quotaOf(tenants: Tenants, tenant: string | undefined): TenantQuota {
  return tenant !== undefined && Object.hasOwn(tenants, tenant) ? (tenants[tenant] ?? {}) : {};
}

/** The cluster's own account in a broker's configuration: no tenant can have this name. */
export const houseAccount = "OSIRIS";

/** The tenants of a file, complete with defaults. @throws InvalidOptionError */
export function tenantsOf(value: unknown): Tenants {
  const tenants = checkOptions(tenantsOptions, value, "tenants");
  const folded = new Set<string>();
  for (const name of Object.keys(tenants)) {
    if (folded.has(name.toLowerCase())) {
      const apart = "named differently also if case is ignored, as some disks ignore it";
      throw expected("tenants", apart, name);
    }
    folded.add(name.toLowerCase());
  }
  const keys = new Set<string>();
  for (const [name, { users }] of Object.entries(tenants)) {
    if (name === houseAccount || /^SYS$/i.test(name)) {
      throw expected("tenants", `named otherwise than ${houseAccount} and SYS`, name);
    }
    for (const [user, { pass, nkey }] of Object.entries(users)) {
      if (nkey === undefined) continue;
      const where = `tenants.${name}.users.${user}.nkey`;
      if (pass !== undefined) throw expected(where, "left out where there is `pass`", nkey);
      if (!isUserKey(nkey)) throw expected(where, "the public key of a user's nkey, U…", nkey);
      if (keys.has(nkey)) throw expected(where, "a key of no other user, as it names one", nkey);
      keys.add(nkey);
    }
  }
  return tenants;
}
