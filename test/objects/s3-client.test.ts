// The S3 client against a strict store behind HTTP, with each fault on the connection.

import type { ExecutionContext } from "ava";
import test from "ava";
import type { BucketFlaws } from "../../chaos/objects/memory-bucket.ts";
import { openObjectStore } from "../../src/objects/open-object-store.ts";
import { keepsLongObjects, keepsObjects, same, someBytes } from "../suites/object-store.ts";
import { eachFault, quickLimits, startBucketServer } from "./bucket-server.ts";

const address = "s3://bucket/some/prefix";

async function startStore(t: ExecutionContext, flaws: BucketFlaws = {}) {
  const server = await startBucketServer(t, flaws);
  const store = await openObjectStore(address, undefined, quickLimits);
  t.teardown(() => store.close());
  return { ...server, server, store };
}

test.serial("a bucket over HTTP stores and returns short and long objects", async (t) => {
  const { bucket, store } = await startStore(t);
  await keepsObjects(t, store);
  t.deepEqual(bucket.keys, ["some/prefix/log/a b+c%.json", "some/prefix/log/one.json"]);
  await keepsLongObjects(t, store);
  t.is(bucket.openUploads, 0);
});

test.serial("a store that sends bare ETags keeps objects too", async (t) => {
  const { store } = await startStore(t, { hasBareEtags: true });
  await keepsLongObjects(t, store);
});

test.serial("each fault of the connection is overcome, and creates no object twice", async (t) => {
  const { bucket, store } = await startStore(t);
  for (const [i, fault] of eachFault.entries()) {
    const key = `one-${i}`;
    const name = JSON.stringify(fault);
    // A slow store answers after the client's deadline for an attempt.
    bucket.fault(1, fault.kind === "slow" ? { kind: "slow", ms: 600 } : fault);
    t.true(await store.create(key, Buffer.from("mine")), name);
    t.false(await store.create(key, Buffer.from("yours")), name);
    bucket.fault(1, fault.kind === "slow" ? { kind: "slow", ms: 600 } : fault);
    same(t, await store.get(key), Buffer.from("mine"));
  }
});

test.serial("failed parts of an upload are sent again, several at once", async (t) => {
  const { bucket, store } = await startStore(t);
  const bytes = someBytes(0x180_0005);
  const isPart = (number: string) => (request: { query?: Readonly<Record<string, string>> }) =>
    request.query?.partNumber === number;
  bucket.fault(isPart("1"), { kind: "torn" }, 2);
  bucket.fault(isPart("2"), { kind: "answer-lost" });
  bucket.fault(isPart("3"), { kind: "unavailable" }, 3);
  const upload = store.upload("long");
  await upload.write(bytes);
  await upload.finish();
  same(t, await store.get("long"), bytes);
  // The answer to the upload's completion is lost: the object exists, the upload no longer does.
  bucket.fault(({ method, query }) => method === "POST" && query?.uploadId !== undefined, {
    kind: "answer-lost",
  });
  const second = store.upload("second");
  const some = bytes.subarray(0, 0x80_0005); // Two parts.
  await second.write(some);
  await second.finish();
  same(t, await store.get("second"), some);
});

test.serial("a store that never answers fails by name, within the deadlines", async (t) => {
  const { bucket, server } = await startStore(t);
  const limits = { attemptsMax: 2, attemptMs: 50, backoffMs: 1 };
  const store = await openObjectStore(address, undefined, limits);
  bucket.fault(() => true, { kind: "slow", ms: 300 }, 2);
  await t.throwsAsync(store.put("one", Buffer.from("1")), {
    code: "STORE_FAILED",
    message:
      "Cannot write s3://bucket/some/prefix/one: no answer within 51 ms, the last of 2 times",
  });
  await store.close();
  t.true(server.bucket.requests <= 2); // A stalled client may give up before it has sent one.
});

test.serial("a refusal of a store names what to check, and contains no secret", async (t) => {
  const { server, store } = await startStore(t);
  const refused = async (asked: Promise<unknown>, message: RegExp) => {
    const error = await t.throwsAsync(asked, { code: "INPUT_UNUSABLE", message });
    t.notRegex(error?.message ?? "", /KEY|secret|127\.0\.0\.1/);
  };
  const other = await openObjectStore("s3://other/prefix", undefined, quickLimits);
  await refused(other.get("x"), /404 NoSuchBucket; check the name of the bucket/);
  await other.close();
  server.secrets.set("KEY", "another");
  await refused(store.get("x"), /403 SignatureDoesNotMatch; check the credentials/);
  server.secrets.set("KEY", "secret");
  server.region = "eu-west-1";
  await refused(store.put("x", Buffer.from("1")), /the bucket lies in eu-west-1: set AWS_REGION$/);
});

test.serial("bytes that are damaged on their way are refused, and sent again", async (t) => {
  const { bucket, store } = await startStore(t);
  const answer = bucket.answer.bind(bucket);
  let damaged = 0;
  bucket.answer = (request) => {
    if (request.body === undefined || damaged++ > 0) return answer(request);
    const body = new Uint8Array(request.body);
    body[3] = (body[3] ?? 0) ^ 1;
    return answer({ ...request, body });
  };
  await store.put("one", Buffer.from("whole"));
  t.true(damaged >= 2);
  same(t, await store.get("one"), Buffer.from("whole"));
});
