// Admission: how much a tenant may ask of the job service. Whoever runs the cluster is not counted.

import { LRUCache } from "lru-cache";
import {
  JobTooLargeError,
  TenantRefusedError,
  TooManyRequestsError,
} from "../../src/errors/errors.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { tenantOf } from "../../src/wire/messages/subjects.ts";
import type { Frame } from "../../src/wire/messages/transport.ts";
import {
  type RequestLimits,
  requestLimits,
  type Tenants,
  tenantName,
} from "../../src/wire/tenancy/tenants.ts";

/**
 * Header in which a nats-server names the account of a request from another account. The server
 * writes it behind all headers of the client, in these letters.
 */
const askedBy = "Nats-Request-Info";

/**
 * The tenant that asks, by the subject; undefined: the cluster's operator. Where there is a list of
 * tenants, it is one of them, and the server says no other.
 * @throws InvalidOptionError, TenantRefusedError
 */
export function tenantAsking(
  { subject, headers }: Pick<Frame, "subject" | "headers">,
  tenants: Tenants,
): string | undefined {
  const tenant = checkOptions(tenantName.optional(), tenantOf(subject), "tenant");
  const names = Object.keys(tenants);
  if (tenant !== undefined && names.length > 0 && !names.includes(tenant)) {
    throw new TenantRefusedError(tenant, "it is none of this cluster's");
  }
  if (isForged(headers)) throw new TenantRefusedError(tenant, "its headers say who asks");
  const account = accountIn(headers[askedBy]);
  if (account !== undefined && account !== tenant && names.includes(account)) {
    throw new TenantRefusedError(tenant, `the server says that it is \`${account}\` who asks`);
  }
  return tenant;
}

/** A client writes that name in other letters, or leaves a line open that swallows the server's. */
function isForged(headers: Frame["headers"]): boolean {
  const others = Object.entries(headers).filter(([name]) => name !== askedBy);
  return others.some((header) => header.join().toLowerCase().includes(askedBy.toLowerCase()));
}

function accountIn(info: string | undefined): string | undefined {
  try {
    const { acc } = JSON.parse(info ?? "{}") as { readonly acc?: unknown };
    return typeof acc === "string" ? acc : undefined;
  } catch {
    return undefined; // No server wrote that.
  }
}

export interface Admission {
  /** Counts a request. @throws JobTooLargeError, TooManyRequestsError */
  admit(tenant: string | undefined, bytes: number): void;
}

/** Requests that a tenant has left, and when that was so. */
interface Bucket {
  left: number;
  atMs: number;
}

/** Tenants that are counted at once; beyond it, the count of the least recent tenant restarts. */
const tenantsMax = 10_000;

/** How many seconds of requests may come at once. */
const burstSeconds = 2;

/** The limits of the tenants of a file; a tenant that is not in it has the usual ones. */
export function openAdmission(clock: Clock, tenants: Tenants): Admission {
  const usual = requestLimits.parse({});
  const buckets = new LRUCache<string, Bucket>({ max: tenantsMax });
  return {
    admit(tenant, bytes) {
      if (tenant === undefined) return;
      const limits = Object.hasOwn(tenants, tenant) ? (tenants[tenant] ?? usual) : usual;
      if (bytes > limits.requestBytesMax) {
        throw new JobTooLargeError(tenant, bytes, limits.requestBytesMax);
      }
      take(buckets, tenant, limits, clock.now());
    },
  };
}

function take(
  buckets: LRUCache<string, Bucket>,
  tenant: string,
  { requestsPerSecond }: RequestLimits,
  nowMs: number,
): void {
  const most = Math.max(1, burstSeconds * requestsPerSecond);
  const { left, atMs } = buckets.get(tenant) ?? { left: most, atMs: nowMs };
  const grown = Math.min(most, left + ((nowMs - atMs) / 1000) * requestsPerSecond);
  buckets.set(tenant, { left: grown < 1 ? grown : grown - 1, atMs: nowMs });
  if (grown < 1) throw new TooManyRequestsError(tenant, requestsPerSecond);
}
