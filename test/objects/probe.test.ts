// The trial of a store: which stores are refused and why, and the verdict stored in the store.

import test, { type ExecutionContext } from "ava";
import { BucketMachine } from "../../chaos/objects/bucket-machine.ts";
import { type BucketFlaws, MemoryBucket } from "../../chaos/objects/memory-bucket.ts";
import { openObjectStore } from "../../src/objects/open-object-store.ts";
import { probeStore, requireFence, requireFenceBlocking } from "../../src/objects/probe.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { asks, startObjectStore } from "../data/remote/object-store.ts";
import { quickLimits, startBucketServer } from "./bucket-server.ts";

const address = "s3://bucket/some/prefix";

async function startStore(flaws: BucketFlaws = {}) {
  const bucket = new MemoryBucket("bucket", flaws);
  const { objects } = new BucketMachine(bucket);
  const open = () => openObjectStore(address, { ...realDisk, objects });
  return { bucket, objects, open, store: await open() };
}

test("a fit store is tested once, after which it has only the verdict", async (t) => {
  const { bucket, store, open } = await startStore();
  await requireFence(store);
  t.deepEqual(bucket.keys, ["some/prefix/store.json"]);
  const { findings } = JSON.parse(String(await store.get("store.json").then(textOf)));
  t.deepEqual(new Set(findings.map(({ state }: { state: string }) => state)), new Set(["ok"]));
  const before = bucket.requests;
  await requireFence(await open());
  t.is(bucket.requests - before, 1, "a later opening reads the verdict");
  await store.put("store.json", Buffer.from("{"));
  await requireFence(store);
  t.true(bucket.requests - before > 30, "with an unreadable verdict, the store is tested again");
});

const textOf = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? new Uint8Array());

test("a store that overwrites objects is refused at each use, with what it did", async (t) => {
  const { bucket, objects, store } = await startStore({ isUnfenced: true });
  const refusal = {
    code: "STORE_UNFENCED",
    message: new RegExp(
      `^Cannot keep checkpoints in ${address}: it let a second writer replace an object, and ` +
        "confirmed both creations .*; it confirmed to 8 of 8 concurrent writers that each had",
    ),
  };
  await t.throwsAsync(requireFence(store), refusal);
  const before = bucket.requests;
  t.throws(() => requireFenceBlocking(objects(address)), refusal);
  t.is(bucket.requests - before, 1);
});

test("the error about an unfit store names each fault of the store", async (t) => {
  const stateOf = async (flaws: BucketFlaws, name: string) => {
    const { findings } = await probeStore((await startStore(flaws)).store);
    return findings.find((one) => one.name === name);
  };
  t.like(await stateOf({ takesDamaged: true }, "body with a wrong checksum"), { state: "warn" });
  t.like(await stateOf({ hasBareEtags: true }, "ETags"), { state: "ok", found: "not quoted" });
  t.like(await stateOf({ listLag: 9 }, "list"), { state: "ok", found: "lags behind" });
  t.like(await stateOf({}, "upload in parts"), { state: "ok" });
});

test("the test of a store finds out that it returns an older object after a write", async (t) => {
  const { bucket, store } = await startStore();
  const answer = bucket.answer.bind(bucket);
  let old: ReturnType<typeof answer> | undefined;
  bucket.answer = (request) => {
    const given = answer(request);
    const isWhole = request.headers?.range?.startsWith("bytes=0-");
    if (!isWhole || !request.key.endsWith("/read")) return given;
    old ??= given;
    return old;
  };
  await t.throwsAsync(requireFence(store), {
    code: "STORE_UNFENCED",
    message: /a read after a write did not return the written bytes/,
  });
});

async function refused(t: ExecutionContext, store: Parameters<typeof requireFence>[0]) {
  const error = await t.throwsAsync(requireFence(store), { code: "STORE_UNFENCED" });
  return error?.message ?? "";
}

test.serial("a store over HTTP is tested with writers that race", async (t) => {
  await startBucketServer(t);
  const store = await openObjectStore(address, undefined, quickLimits);
  await t.notThrowsAsync(requireFence(store));
  await store.close();
});

test.serial("s3rver, which ignores If-None-Match, is refused", async (t) => {
  asks(t, await startObjectStore(t));
  const store = await openObjectStore("s3://clicks/checkpoints", undefined, quickLimits);
  t.regex(await refused(t, store), /it let a second writer replace an object/);
  await store.close();
});
