// Admission: rate limits of tenants at the job service. The cluster's operator is not limited.

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
 * appends it to the client's headers, in exactly this spelling.
 */
const askedBy = "Nats-Request-Info";

/**
 * The tenant that makes the request, according to the subject; undefined: the cluster's operator.
 * If the cluster has a list of tenants, the tenant must be in it, and the server's header must
 * agree.
 * @throws InvalidOptionError, TenantRefusedError
 */
export function requestingTenant(
  { subject, headers }: Pick<Frame, "subject" | "headers">,
  tenants: Tenants,
): string | undefined {
  const tenant = checkOptions(tenantName.optional(), tenantOf(subject), "tenant");
  const names = Object.keys(tenants);
  if (tenant !== undefined && names.length > 0 && !names.includes(tenant)) {
    throw new TenantRefusedError(tenant, "the cluster has no tenant of this name");
  }
  if (isForged(headers))
    throw new TenantRefusedError(tenant, "the request carries a forged header of the server");
  const account = accountIn(headers[askedBy]);
  if (account !== undefined && account !== tenant && names.includes(account)) {
    throw new TenantRefusedError(tenant, `the server names \`${account}\` as the sender`);
  }
  return tenant;
}

/**
 * Whether a client forged the header: spelled it differently, or left a line open that would
 * swallow the server's header.
 */
function isForged(headers: Frame["headers"]): boolean {
  const others = Object.entries(headers).filter(([name]) => name !== askedBy);
  return others.some((header) => header.join().toLowerCase().includes(askedBy.toLowerCase()));
}

function accountIn(info: string | undefined): string | undefined {
  try {
    const { acc } = JSON.parse(info ?? "{}") as { readonly acc?: unknown };
    return typeof acc === "string" ? acc : undefined;
  } catch {
    return undefined; // Not written by a server.
  }
}

export interface Admission {
  /** Counts a request. @throws JobTooLargeError, TooManyRequestsError */
  admit(tenant: string | undefined, bytes: number): void;
}

/** The tenant's token bucket: the remaining requests at a time. */
interface Bucket {
  left: number;
  atMs: number;
}

/** Most tenants that are tracked; beyond it, the bucket of the least recent tenant is dropped. */
const tenantsMax = 10_000;

/** Size of a burst, in seconds of the permitted rate. */
const burstSeconds = 2;

/** Opens the rate limits of the listed tenants; other tenants have the defaults. */
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
