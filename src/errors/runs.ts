// Errors of runs and tenants: runs that end without a model, requests that the queue refuses, and
// requests that a user or a tenant is not allowed to make, or not at this rate.

import { errorClass } from "./training-error.ts";

/** The run was cancelled by its owner. */
export class RunCancelledError extends errorClass(
  "RUN_CANCELLED",
  "stop",
  (run: string) =>
    `Run ${run} was cancelled; its job, submitted again, goes on from its last checkpoint`,
) {}

/** Leaders have repeatedly crashed while they prepared the run: it is not started again. */
export class RunSetAsideError extends errorClass(
  "RUN_SET_ASIDE",
  "stop",
  (run: string, leaders: number) =>
    `Run ${run} was set aside: ${leaders} leaders ended while they prepared it, and no step was ` +
    "made. Check its data, its vocabularies and the memory that they need; submit the job " +
    "again to try once more",
) {}

/** The key of a submission belongs to a run of another job, which is not repeated or replaced. */
export class KeyTakenError extends errorClass(
  "KEY_TAKEN",
  "stop",
  (key: string, run: string) =>
    `Key \`${key}\` belongs to run ${run} of another job: submit this one under another key`,
) {}

/** A tenant has reached its quota. `tenant` undefined: the operator of the cluster. */
export class QuotaExceededError extends errorClass(
  "QUOTA_EXCEEDED",
  "stop",
  (tenant: string | undefined, what: string, most: number) => {
    const who = tenant === undefined ? "The cluster's operator" : `Tenant \`${tenant}\``;
    return (
      `${who} may have at most ${most} ${what}: ` +
      "wait until a run is over, cancel one, or ask for a larger quota"
    );
  },
) {}

/** The state of a run does not allow the request. */
export class RunStateError extends errorClass(
  "RUN_STATE",
  "stop",
  (run: string, request: string, expected: string, status: string) =>
    `Cannot ${request} run ${run}: expected it to be ${expected}, it is ${status}`,
) {}

/** No host of the cluster keeps timelines of a run. */
export class TraceMissingError extends errorClass(
  "TRACE_MISSING",
  "stop",
  (run: string) =>
    `No host keeps a step of run ${run}: it has made none yet, or its hosts have ended or served ` +
    "eight other generations since. Trace a run while it trains, or soon after",
) {}

/** A request, with its job, exceeds the size limit of its tenant. */
export class JobTooLargeError extends errorClass(
  "JOB_TOO_LARGE",
  "stop",
  (tenant: string, bytes: number, bytesMax: number) =>
    `Expected a request of at most ${bytesMax} bytes from tenant ${tenant}, got ${bytes}: ` +
    "send a smaller job, or raise `requestBytesMax` of the tenant",
) {}

/** A tenant exceeds its rate limit of requests. */
export class TooManyRequestsError extends errorClass(
  "TOO_MANY_REQUESTS",
  "restore",
  (tenant: string, perSecond: number) =>
    `Expected at most ${perSecond} requests a second from tenant ${tenant}: ` +
    "send the request again in a moment, or raise `requestsPerSecond` of the tenant",
) {}

/**
 * The sender of a request is not the tenant that the subject names. `tenant` undefined: the subject
 * names the operator of the cluster.
 */
export class TenantRefusedError extends errorClass(
  "TENANT_REFUSED",
  "stop",
  (tenant: string | undefined, reason: string) => {
    const who = tenant === undefined ? "the cluster's operator" : `tenant \`${tenant}\``;
    return `Cannot serve this as ${who}: ${reason}; name your own tenant (\`--tenant\`)`;
  },
) {}

/** The broker does not let this user publish to a subject, or subscribe to it. */
export class NotPermittedError extends errorClass(
  "NOT_PERMITTED",
  "stop",
  (subject: string) =>
    `The broker's permissions forbid ${subject} to this user: ` +
    "use your own tenant, or ask the cluster's operator for more rights",
) {}
