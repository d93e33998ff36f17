// Stores of simulated machines over a bucket in memory: each fault is handled, and so are crashes
// between and within requests.

import test from "ava";
import { BucketMachine } from "../../chaos/objects/bucket-machine.ts";
import { type BucketFlaws, MemoryBucket } from "../../chaos/objects/memory-bucket.ts";
import { openObjectStore } from "../../src/objects/open-object-store.ts";
import { put, type StorePlace, usualStoreLimits } from "../../src/objects/rules.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { SimulatedCrash } from "../../src/ports/simulated-disk.ts";
import { someOrAll } from "../helpers/thinned.ts";
import { keepsLongObjects, keepsObjects, same, someBytes } from "../suites/object-store.ts";
import { eachFault } from "./bucket-server.ts";

const address = "s3://bucket/some/prefix";

function startStore(flaws: BucketFlaws = {}) {
  const bucket = new MemoryBucket("bucket", flaws);
  let waitedMs = 0;
  const machine = new BucketMachine(bucket, {
    spend: (ms) => {
      waitedMs += ms;
    },
  });
  const store = machine.objects(address);
  return { bucket, machine, store, waitedMs: () => waitedMs };
}

test("a bucket in memory stores and returns short and long objects", async (t) => {
  const { bucket, machine } = startStore();
  const store = await openObjectStore(address, { ...realDisk, objects: machine.objects });
  await keepsObjects(t, store);
  t.deepEqual(bucket.keys, ["some/prefix/log/a b+c%.json", "some/prefix/log/one.json"]);
  await keepsLongObjects(t, store);
  t.is(bucket.openUploads, 0);
});

const twoParts = someBytes(0x80_0005);
/** The requests of an upload: the first begins it, two send parts, the last completes it. */
const requests = someOrAll("requests of an upload in parts", [1, 2, 4], [1, 2, 3, 4]);

for (const fault of eachFault) {
  test(`a caller creates an object once, although ${JSON.stringify(fault)}`, (t) => {
    const { bucket, store, waitedMs } = startStore();
    const other = new BucketMachine(bucket).objects(address);
    bucket.fault(1, fault);
    t.true(store.create("one", Buffer.from("mine")));
    t.false(other.create("one", Buffer.from("yours")));
    t.is(String(Buffer.from(store.get("one") ?? "")), "mine");
    bucket.fault(1, fault);
    t.is(String(Buffer.from(store.get("one") ?? "")), "mine");
    bucket.fault(1, fault);
    t.false(other.create("one", Buffer.from("yours")), "a second `create` of the loser fails, too");
    t.is(String(Buffer.from(store.get("one") ?? "")), "mine");
    if (fault.kind === "expired") t.is(waitedMs(), 0, "new credentials are used without a wait");
  });

  test(`an upload in parts ends whole, although ${JSON.stringify(fault)}`, (t) => {
    for (const request of requests) {
      const { bucket, store } = startStore();
      bucket.fault(request, fault);
      const upload = store.upload("long");
      upload.write(twoParts);
      upload.finish();
      same(t, store.get("long"), twoParts);
    }
  });
}

test("a create whose answer was lost fails if another object existed first", (t) => {
  const { bucket, store } = startStore();
  const other = new BucketMachine(bucket).objects(address);
  bucket.fault(1, { kind: "delayed", after: 1 });
  bucket.fault(2, { kind: "request-lost" }, 0);
  bucket.fault(({ method }) => method === "PUT", { kind: "request-lost" }, 8);
  t.throws(() => store.create("one", Buffer.from("mine")), { code: "STORE_FAILED" });
  t.true(store.create("two", Buffer.from("mine")));
  t.false(other.create("one", Buffer.from("yours")), "the late request was carried out first");
  t.true(store.create("one", Buffer.from("mine")), "the first try had created it");
});

test("failed parts are sent again when the caller tries again", (t) => {
  const { bucket, store } = startStore();
  const bytes = someBytes(0x100_0005);
  const upload = store.upload("long");
  bucket.fault(({ query }) => query?.partNumber === "2", { kind: "unavailable" }, 9);
  upload.write(bytes);
  t.throws(() => upload.finish(), {
    code: "STORE_FAILED",
    message: /long: the store says 503 SlowDown, the last of 9 times$/,
  });
  const before = bucket.requests;
  upload.finish();
  same(t, store.get("long"), bytes);
  t.true(bucket.requests - before <= 7, "parts that the store has are not sent again");
  t.is(bucket.openUploads, 0);
});

test("retries wait longer each time, and a refusal for good is not retried", (t) => {
  const { bucket, store, waitedMs } = startStore();
  bucket.fault(() => true, { kind: "unavailable" }, 5);
  store.put("one", Buffer.from("1"));
  t.is(waitedMs(), 100 + 200 + 400 + 800 + 1600);
  t.is(bucket.requests, 6);
  const elsewhere = new BucketMachine(bucket).objects("s3://elsewhere/prefix");
  t.throws(() => elsewhere.get("one"), {
    code: "INPUT_UNUSABLE",
    message: /^Cannot read s3:\/\/elsewhere\/prefix\/one: the store says 404 NoSuchBucket; check/,
  });
  t.is(bucket.requests, 6);
});

test("requests are repeated for each transient HTTP status, and fail at once for others", (t) => {
  for (const [statuses, next] of [
    [[0, 408, 409, 429, 500, 502, 503, 504], "pause"],
    [[400, 401, 403, 404, 405, 411], "refusal"],
  ] as const) {
    for (const status of statuses) {
      const place = { address, prefix: "", limits: usualStoreLimits } as StorePlace;
      const rule = put(place, "one", Buffer.from("1"));
      rule.next();
      const answered = () => rule.next({ status, headers: {}, body: Buffer.from("") });
      if (next === "pause") t.like(answered().value, { kind: "pause" }, `${status}`);
      else t.throws(answered, { code: "INPUT_UNUSABLE" }, `${status}`);
    }
  }
});

test("nine attempts at a store that refuses each at once pause for 23 s in all", (t) => {
  const place = { address, prefix: "", limits: usualStoreLimits } as StorePlace;
  const rule = put(place, "one", Buffer.from("1"));
  const refusal = { status: 503, headers: {}, body: Buffer.from("") };
  let pausedMs = 0;
  rule.next();
  for (let attempt = 1; attempt < usualStoreLimits.attemptsMax; attempt++) {
    const { value } = rule.next(refusal) as { value: { readonly ms: number } };
    pausedMs += value.ms;
    rule.next();
  }
  t.is(pausedMs, 22_700);
  t.throws(() => rule.next(refusal), { code: "STORE_FAILED" });
});

test("in a bucket in memory only lists lag behind", (t) => {
  const { store } = startStore({ listLag: 2 });
  for (const key of ["a", "b", "c"]) store.put(key, Buffer.from(key));
  t.deepEqual(store.list(""), ["a"]);
  store.remove(["a"]);
  t.deepEqual(store.list(""), ["a", "b"]);
  t.is(store.size("a"), undefined);
  same(t, store.get("c"), Buffer.from("c"));
});

test("an unfenced bucket lets both callers create", (t) => {
  const { bucket, store } = startStore({ isUnfenced: true });
  const other = new BucketMachine(bucket).objects(address);
  t.true(store.create("one", Buffer.from("mine")));
  t.true(other.create("one", Buffer.from("yours")));
});

test("a crash ends a machine before or after the effect of a request, not the others", (t) => {
  for (const when of ["before", "after"] as const) {
    const { bucket, machine, store } = startStore();
    const other = new BucketMachine(bucket).objects(address);
    store.put("one", Buffer.from("1"));
    machine.crashAt(2, when);
    store.put("two", Buffer.from("2"));
    t.throws(() => store.put("three", Buffer.from("3")), { instanceOf: SimulatedCrash });
    t.throws(() => store.get("one"), { instanceOf: SimulatedCrash });
    t.is(other.size("three"), when === "after" ? 1 : undefined);
    machine.restart();
    t.is(store.size("two"), 1);
  }
});

test("a reader reads ahead, leaps, and reads each byte of a long object", (t) => {
  const { bucket, store } = startStore();
  const bytes = someBytes(0x280_0007);
  bucket.plant("some/prefix/long", bytes);
  t.is(store.open("none"), undefined);
  const reader = store.open("long");
  t.is(reader?.size, bytes.length);
  const piece = new Uint8Array(100_003);
  for (let at = 0; at < bytes.length; at += piece.length) {
    const count = reader?.read(piece, at) ?? 0;
    t.is(Buffer.compare(piece.subarray(0, count), bytes.subarray(at, at + count)), 0);
  }
  t.true(bucket.requests < 20, `${bucket.requests} requests for 40 MiB`);
  const whole = new Uint8Array(bytes.length);
  t.is(reader?.read(whole, 0), bytes.length);
  same(t, whole, bytes);
  const before = bucket.requests;
  for (const at of [0x200_0000, 0x100_0000, 0x250_0000, 0, 0x280_0000]) {
    const count = reader?.read(piece, at) ?? 0;
    same(t, piece.subarray(0, count), bytes.subarray(at, at + piece.length));
  }
  t.true(bucket.requests - before <= 6, "reads out of order read nothing ahead");
  t.is(reader?.read(piece, bytes.length), 0);
});
