// The server of a bucket in memory, for the length of a test.

import type { ExecutionContext } from "ava";
import { type BucketServer, serveBucket } from "../../chaos/objects/bucket-server.ts";
import type { BucketFlaws, StoreFault } from "../../chaos/objects/memory-bucket.ts";
import type { StoreLimits } from "../../src/objects/rules.ts";
import { setEnvironment } from "../helpers/environment.ts";

/** Limits with which faults cost milliseconds. */
export const quickLimits: StoreLimits = { attemptsMax: 9, attemptMs: 400, backoffMs: 2 };

/** The environment of a client of a bucket's server. */
export function bucketEnvironment(endpoint: string) {
  return {
    AWS_ENDPOINT_URL_S3: endpoint,
    AWS_REGION: "us-east-1",
    AWS_ACCESS_KEY_ID: "KEY",
    AWS_SECRET_ACCESS_KEY: "secret",
  };
}

/** Serves a bucket until the test ends, and sets the environment of its client. */
export async function startBucketServer(
  t: ExecutionContext,
  flaws: BucketFlaws = {},
): Promise<BucketServer> {
  const server = await serveBucket(flaws);
  t.teardown(server.stop);
  setEnvironment(t, bucketEnvironment(server.endpoint));
  return server;
}

/** One fault of each kind; those that take until a deadline come last. */
export const eachFault: readonly StoreFault[] = [
  ...(["request-lost", "answer-lost", "torn", "unavailable", "conflict", "expired"] as const).map(
    (kind) => ({ kind }),
  ),
  { kind: "duplicated", after: 1 },
  { kind: "delayed", after: 0 },
  { kind: "delayed", after: 1 },
  { kind: "slow", ms: 20_000 },
];
