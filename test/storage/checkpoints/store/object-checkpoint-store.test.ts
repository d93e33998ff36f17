// The checkpoint store in an object store: the suite, what it costs in requests, and how it finds
// its newest record. Crashes and faults are in object-store-crash.test.ts.

import test from "ava";
import { callsOf, counted, noTraffic } from "../../../../bench/service/counted-objects.ts";
import { BucketMachine } from "../../../../chaos/objects/bucket-machine.ts";
import { MemoryBucket } from "../../../../chaos/objects/memory-bucket.ts";
import { CheckpointCorruptError, PathNotSharedError } from "../../../../src/errors/errors.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { ObjectLog } from "../../../../storage/checkpoints/store/object-log.ts";
import { openParts } from "../../../../storage/checkpoints/store/open-parts.ts";
import { openExistingStore, openStore } from "../../../../storage/checkpoints/store/open-store.ts";
import {
  commitCheckpoint,
  diskOver,
  startObjects,
  testJob,
} from "../../../helpers/stores/checkpoints.ts";
import { keepsCheckpoints } from "../../../suites/checkpoint-store.ts";

keepsCheckpoints("in an object store", () => startObjects());
const [address, kept] = ["s3://bucket/run", 2];

test("the requests and bytes of a checkpoint are bounded, however long the history", async (t) => {
  const bucket = new MemoryBucket();
  const { objects } = new BucketMachine(bucket);
  let traffic = noTraffic();
  const disk = { ...realDisk, objects: (name: string) => counted(objects(name), traffic) };
  // The store of a run is open for its whole time, so its traffic is counted in one object.
  const store = openStore({ directory: address, disk, ...testJob });
  const all = traffic;
  store.beginGeneration();
  let most = 0;
  let bytes = 0;
  for (let cut = 1; cut <= 100; cut++) {
    const [before, wrote] = [callsOf(all), all.writtenBytes];
    commitCheckpoint(store, { generation: 1, cut, best: cut === 1 });
    await store.collect({ generation: 1, keep: kept });
    if (cut > 5) most = Math.max(most, callsOf(all) - before);
    if (cut > 5) bytes = Math.max(bytes, all.writtenBytes - wrote);
  }
  t.log(`at most ${most} requests and ${bytes} bytes of small objects a checkpoint`);
  t.true(most <= 24, `${most} requests`);
  t.true(bytes < 8000, `${bytes} bytes`);
  t.is(bucket.keys.filter((key) => key.includes("/checkpoints/")).length, 2 * (kept + 1));

  traffic = noTraffic();
  const found = openExistingStore(address, disk).list();
  t.deepEqual(
    found.manifests.map(({ cut }) => cut),
    [100, 99, 1],
  );
  t.true(callsOf(traffic) <= 20, `${callsOf(traffic)} requests to open and list`);
});

test("lists that lag behind leave garbage, but hide and remove no needed object", async (t) => {
  const { store, bucket, open } = startObjects(new MemoryBucket("bucket", { listLag: 1000 }));
  store.beginGeneration();
  for (const cut of [10, 20, 30]) {
    commitCheckpoint(store, { generation: 1, cut });
    await store.collect({ generation: 1, keep: 1 });
  }
  const next = open();
  t.is(next.beginGeneration().latest?.cut, 30);
  commitCheckpoint(next, { generation: 2, cut: 40, on: next.latest() });
  await next.collect({ generation: 2, keep: 1 });
  t.deepEqual(
    next.list().manifests.map(({ cut }) => cut),
    [40, 30],
  );
  const names = bucket.keys.flatMap((key) => /checkpoints\/0*(\d+)-/.exec(key)?.[1] ?? []);
  t.deepEqual(names, ["30", "30", "40", "40"]);
});

test("a restore reads each byte of a device's packs once, and opens each pack once", (t) => {
  const bucket = new MemoryBucket();
  const { objects } = new BucketMachine(bucket);
  const own = openStore({ directory: address, disk: diskOver(bucket), ...testJob });
  own.beginGeneration();
  const first = commitCheckpoint(own, { generation: 1, cut: 10 });
  const manifest = commitCheckpoint(own, { generation: 1, cut: 20, on: first });
  const traffic = noTraffic();
  const disk = { ...realDisk, objects: (name: string) => counted(objects(name), traffic) };
  const parts = openParts(address, disk);
  let bytes = 0;
  for (const { name } of manifest.parts) {
    for (const file of parts.readFiles(manifest, name))
      for (const piece of file) bytes += piece.length;
  }
  parts.close();
  t.is(traffic.readBytes, bytes);
  t.is(traffic.calls.open, 2);
  t.is(callsOf(traffic), 2);
  const store = openExistingStore(address, disk);
  const before = traffic.calls.open;
  for (const { name } of manifest.parts) store.readWholePart(manifest, name);
  t.is(traffic.calls.open - before, 1, "whole parts of a pack need one open");
});

test("the newest record is found whatever the hint says, and a damaged one is named", (t) => {
  const bucket = new MemoryBucket();
  const machine = new BucketMachine(bucket);
  const writer = new ObjectLog(machine.objects(address), "one");
  const state = { generation: 1, jobIdentity: "a", from: null, chain: [], passedOver: [] };
  for (let number = 1; number <= 40; number++) {
    t.true(
      writer.append(writer.newest(), "commit", { ...state, generation: Math.ceil(number / 3) }),
    );
    const hints = [
      undefined,
      "",
      "x",
      "0",
      "1",
      String(Math.floor(number / 2)),
      String(number),
      "99",
    ];
    for (const hint of hints) {
      bucket.plant("run/log/newest", hint === undefined ? undefined : Buffer.from(hint));
      const reader = new ObjectLog(machine.objects(address), "two");
      t.is(reader.newest()?.number, number, `hint ${hint}`);
      t.is(reader.begin(1)?.number, 1);
      t.is(reader.begin(Math.ceil(number / 3))?.number, 3 * Math.ceil(number / 3) - 2);
      t.is(reader.begin(99), undefined);
    }
  }
  const reader = new ObjectLog(machine.objects(address), "two");
  t.false(
    reader.append({ ...state, version: 1, number: 7, kind: "commit", writer: "" }, "commit", state),
  );
  const key = "run/log/0000000040.json";
  const bytes = Uint8Array.from(bucket.bytesOf(key) ?? []);
  bytes[20] = (bytes[20] ?? 0) ^ 1;
  bucket.plant(key, bytes);
  t.throws(() => new ObjectLog(machine.objects(address), "two").newest(), {
    instanceOf: CheckpointCorruptError,
    message: /run\/log\/0000000040\.json is damaged: .*; put back an earlier version/,
  });
});

test("a host is refused if its object store lacks the claimed generation", (t) => {
  const { store, disk } = startObjects();
  store.beginGeneration();
  const parts = openParts(address, disk);
  t.notThrows(() => parts.checkSeen(1));
  t.throws(() => parts.checkSeen(2), {
    instanceOf: PathNotSharedError,
    message: /does not see generation 2 in s3:\/\/bucket\/run: .*`s3:\/\/bucket\/prefix`/,
  });
});
