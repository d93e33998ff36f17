// The checkpoint store as its callers see it, without power cuts. Crashes are in
// store-crash.test.ts.

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import {
  CheckpointCorruptError,
  CheckpointForeignError,
  CheckpointMissingError,
  GenerationFencedError,
  InputUnusableError,
  InvalidOptionError,
  StoreFailedError,
} from "../../../../src/errors/errors.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { SimulatedDisk } from "../../../../src/ports/simulated-disk.ts";
import { openExistingStore, openStore } from "../../../../storage/checkpoints/store/open-store.ts";
import { replaceDurably } from "../../../../storage/disk/durable-files.ts";
import { seal } from "../../../../storage/disk/sealed-json.ts";
import {
  commitCheckpoint,
  contentOf,
  flipByte,
  startStore,
  testJob,
  writePart,
} from "../../../helpers/stores/checkpoints.ts";

test("a new store has no checkpoint, and its first generation is 1", (t) => {
  const { store } = startStore();
  t.is(store.latest(), undefined);
  t.deepEqual(store.list(), { manifests: [], damaged: [] });
  t.deepEqual(store.beginGeneration(), { generation: 1, latest: undefined, damaged: [] });
});

test("a committed checkpoint is read back byte for byte by the next store on its directory", async (t) => {
  const { store, disk, open } = startStore();
  store.beginGeneration();
  const manifest = commitCheckpoint(store, { generation: 1, cut: 10, best: true });
  t.is(manifest.parent, null);
  t.is(manifest.jobIdentity, testJob.jobIdentity);
  t.deepEqual(manifest.metrics, { auc: 0.75 });
  const again = openExistingStore("/run", disk);
  t.is(again.jobText, testJob.jobText);
  t.deepEqual(again.latest(), manifest);
  t.deepEqual(open().beginGeneration(), { generation: 2, latest: manifest, damaged: [] });
  for (const { name } of manifest.parts) {
    t.deepEqual(again.readWholePart(manifest, name), contentOf(10, name));
  }
  await again.verify(manifest);
});

test("each manifest names its parent, across generations", (t) => {
  const { store } = startStore();
  store.beginGeneration();
  const first = commitCheckpoint(store, { generation: 1, cut: 10 });
  store.beginGeneration();
  const second = commitCheckpoint(store, { generation: 2, cut: 20 });
  t.deepEqual(second.parent, {
    file: "000000010-g000001/manifest.json",
    sha256: first.sha256,
  });
  t.deepEqual(store.list().manifests, [second, first]);
});

test("a part larger than the read buffer streams back in pieces", (t) => {
  const { store } = startStore();
  store.beginGeneration();
  const bytes = new Uint8Array(2_500_000).map((_, index) => index % 251);
  const pieces = [bytes.subarray(0, 1_000_000), bytes.subarray(1_000_000)];
  const part = writePart(store, { generation: 1, cut: 5, name: "rows-0001" }, ...pieces);
  t.is(part.bytes, bytes.length);
  const manifest = commitCheckpoint(store, { generation: 1, cut: 5, extra: [part] });
  t.is([...store.readPart(manifest, "rows-0001")].length, 3);
  t.is(Buffer.compare(store.readWholePart(manifest, "rows-0001"), bytes), 0);
  t.throws(() => store.readWholePart(manifest, "none"), { instanceOf: CheckpointMissingError });
});

test("a fenced generation is refused every operation, and the visible files do not change", async (t) => {
  const { store, disk, open } = startStore();
  store.beginGeneration();
  commitCheckpoint(store, { generation: 1, cut: 10 });
  const late = store.packWriter(1, 20, "d1");
  late.begin("dense");
  late.write(contentOf(20, "dense"));
  late.end();
  const next = open();
  t.is(next.beginGeneration().latest?.cut, 10);
  const before = next.list();
  const fenced = { instanceOf: GenerationFencedError };
  t.throws(() => late.finish(), { ...fenced, message: /^\/run was .* at \d{4}-.* generation 2/ });
  t.throws(() => store.packWriter(1, 20, "d2").begin("dense"), fenced);
  t.throws(() => commitCheckpoint(store, { generation: 1, cut: 20 }), fenced);
  await t.throwsAsync(store.collect({ generation: 1, keep: 1 }), fenced);
  t.deepEqual(next.list(), before);
  await next.collect({ generation: 2, keep: 1 });
  t.deepEqual(disk.list("/run/checkpoints"), ["000000010-g000001"], "its leavings are collected");
});

test("a generation whose files were collected learns that it is fenced", async (t) => {
  const { store, open } = startStore();
  store.beginGeneration();
  commitCheckpoint(store, { generation: 1, cut: 10 });
  const late = store.packWriter(1, 20, "d1");
  late.begin("dense");
  late.end();
  const next = open();
  next.beginGeneration();
  await next.collect({ generation: 2, keep: 1 });
  t.throws(() => late.finish(), { instanceOf: GenerationFencedError });
});

test("a manifest renamed after a newer generation began never joins the chain", (t) => {
  const disk = new SimulatedDisk();
  const { store, open } = startStore(disk);
  store.beginGeneration();
  commitCheckpoint(store, { generation: 1, cut: 10 });
  // Generation 1 stalls right before its manifest is renamed into place; generation 2 takes over.
  const rename = disk.rename.bind(disk);
  disk.rename = (from, to) => {
    if (to.endsWith("000000020-g000001/manifest.json")) open().beginGeneration();
    rename(from, to);
  };
  const fenced = { instanceOf: GenerationFencedError };
  t.throws(() => commitCheckpoint(store, { generation: 1, cut: 20 }), fenced);
  t.true(disk.exists("/run/checkpoints/000000020-g000001/manifest.json"), "it did land");
  t.is(open().latest()?.cut, 10);
  t.is(open().beginGeneration().latest?.cut, 10);
  const manifest = commitCheckpoint(store, { generation: 3, cut: 20 });
  t.deepEqual(
    store.list().manifests.map((one) => [one.cut, one.generation]),
    [
      [20, 3],
      [10, 1],
    ],
  );
  t.is(manifest.parent?.file, "000000010-g000001/manifest.json");
});

test("an unfinished generation claim does not change the chain", (t) => {
  const { store, disk } = startStore();
  store.beginGeneration();
  commitCheckpoint(store, { generation: 1, cut: 10 });
  disk.open("/run/generations/000002.json", "exclusive").close();
  t.is(store.latest()?.cut, 10);
  const begun = store.beginGeneration();
  t.is(begun.generation, 3);
  t.is(begun.latest?.cut, 10);
  t.deepEqual(begun.damaged, []);
});

test("a commit is refused while a part is missing or has a size other than its manifest's", (t) => {
  const { store } = startStore();
  store.beginGeneration();
  const place = { file: "pack-ghost-00000", at: 0, bytes: 4, sha256: "0".repeat(64) };
  const part = { name: "ghost", ...place, base: [] };
  const corrupt = { instanceOf: CheckpointCorruptError, message: /pack-ghost-00000/ };
  t.throws(() => commitCheckpoint(store, { generation: 1, cut: 10, extra: [part] }), corrupt);
  writePart(store, { generation: 1, cut: 10, name: "ghost" }, new Uint8Array(5));
  t.throws(() => commitCheckpoint(store, { generation: 1, cut: 10, extra: [part] }), corrupt);
  t.is(store.latest(), undefined);
});

test("a discarded pack leaves no file, and discarding a finished one does nothing", (t) => {
  const { store, disk } = startStore();
  store.beginGeneration();
  const writer = store.packWriter(1, 10, "d0");
  writer.begin("dense");
  writer.discard();
  t.deepEqual(disk.list("/run/checkpoints/000000010-g000001"), []);
  const again = store.packWriter(1, 10, "d0");
  again.begin("dense");
  again.end();
  again.finish();
  again.discard();
  t.deepEqual(disk.list("/run/checkpoints/000000010-g000001"), ["pack-d0-00000"]);
});

test("collect keeps the newest and the best checkpoint, and files being written", async (t) => {
  const { store, disk } = startStore();
  store.beginGeneration();
  for (const cut of [10, 20, 30, 40, 50]) {
    commitCheckpoint(store, { generation: 1, cut, best: cut < 30 });
  }
  writePart(store, { generation: 1, cut: 60, name: "dense" });
  const removed = await store.collect({ generation: 1, keep: 2 });
  t.deepEqual(removed, ["000000010-g000001", "000000030-g000001"]);
  t.deepEqual(
    disk.list("/run/checkpoints").map((name) => Number.parseInt(name, 10)),
    [20, 40, 50, 60],
  );
  t.deepEqual(await store.collect({ generation: 1, keep: 2 }), []);
  t.deepEqual(
    store.list().manifests.map(({ cut }) => cut),
    [50, 40, 20],
  );
  const none = store.collect({ generation: 1, keep: 0 });
  await t.throwsAsync(none, { instanceOf: InvalidOptionError });
});

test("collect after a restore removes files of older generations, not its own first parts", async (t) => {
  const { store, disk } = startStore();
  store.beginGeneration();
  commitCheckpoint(store, { generation: 1, cut: 10 });
  writePart(store, { generation: 1, cut: 20, name: "dense" });
  store.beginGeneration();
  writePart(store, { generation: 2, cut: 10, name: "dense" });
  t.deepEqual(await store.collect({ generation: 2, keep: 1 }), ["000000020-g000001"]);
  t.deepEqual(disk.list("/run/checkpoints"), ["000000010-g000001", "000000010-g000002"]);
});

test("collect removes nothing while the newest checkpoint does not read back", async (t) => {
  const { store, disk } = startStore();
  store.beginGeneration();
  for (const cut of [10, 20]) commitCheckpoint(store, { generation: 1, cut });
  flipByte(disk, "/run/checkpoints/000000020-g000001/pack-d0-00000", 0);
  const corrupt = { instanceOf: CheckpointCorruptError, message: /20-g000001\/pack-.*`dense`/ };
  await t.throwsAsync(store.collect({ generation: 1, keep: 1 }), corrupt);
  t.is(disk.list("/run/checkpoints").length, 2);
});

test("a directory of another job is refused, and the error says which options differ", (t) => {
  const { disk, store } = startStore();
  store.beginGeneration();
  commitCheckpoint(store, { generation: 1, cut: 10 });
  const other = { jobIdentity: "b".repeat(64), jobText: '{"model":"m","seed":8}' };
  const error = t.throws(() => openStore({ directory: "/run", disk, ...other }), {
    instanceOf: CheckpointForeignError,
  });
  t.regex(error.message, /other `seed`/);
});

test("a job takes over a directory without a checkpoint, and fences its former owner", (t) => {
  const { disk, store } = startStore();
  store.beginGeneration();
  const job = { jobIdentity: "b".repeat(64), jobText: "{}" };
  const next = openStore({ directory: "/run", disk, ...job });
  t.is(next.beginGeneration().generation, 2);
  t.throws(() => commitCheckpoint(store, { generation: 1, cut: 10 }), {
    instanceOf: GenerationFencedError,
  });
  commitCheckpoint(next, { generation: 2, cut: 10 });
  t.is(next.latest()?.jobIdentity, job.jobIdentity);
  t.throws(() => openStore({ directory: "/run", disk, ...testJob }), {
    instanceOf: CheckpointForeignError,
  });
});

test("of two jobs that opened one empty directory, one is refused when it begins", (t) => {
  const { disk, store } = startStore();
  disk.remove("/run/job.json");
  const other = openStore({ directory: "/run", disk, jobIdentity: "b".repeat(64), jobText: "" });
  t.throws(() => store.beginGeneration(), { instanceOf: CheckpointForeignError });
  t.is(other.beginGeneration().generation, 1);
});

test("a directory that is a file, or lies in one, is refused as unusable", (t) => {
  const directory = mkdtempSync(join(tmpdir(), "osiris-store-"));
  t.teardown(() => rmSync(directory, { recursive: true }));
  const path = join(directory, "file");
  writeFileSync(path, "");
  for (const at of [path, join(path, "deeper")]) {
    const error = t.throws(() => openStore({ directory: at, ...testJob }), {
      instanceOf: InputUnusableError,
    });
    t.true(error.message.includes(at));
  }
  t.throws(() => openExistingStore(directory), { instanceOf: CheckpointMissingError });
});

test("a checkpoint of another format is refused, not skipped", (t) => {
  const { store, disk } = startStore();
  store.beginGeneration();
  for (const cut of [10, 20]) commitCheckpoint(store, { generation: 1, cut });
  const path = "/run/checkpoints/000000020-g000001/manifest.json";
  replaceDurably(disk, path, new TextEncoder().encode(seal({ version: 3 }).text));
  const error = t.throws(() => store.beginGeneration(), { instanceOf: InputUnusableError });
  t.regex(error.message, /Expected version 2 in .*manifest\.json, got 3/);
});

test("a full disk is a store error that a restore may retry", (t) => {
  const { store, disk } = startStore();
  store.beginGeneration();
  const writer = store.packWriter(1, 10, "d1");
  writer.begin("dense");
  disk.failAt(1, "ENOSPC");
  const error = t.throws(() => writer.write(new Uint8Array(4)), { instanceOf: StoreFailedError });
  t.regex(error.message, /pack-d1-00000.*ENOSPC/);
  t.is(error.recovery, "restore");
  writer.discard();
  disk.failAt(2, "EIO");
  t.throws(() => commitCheckpoint(store, { generation: 1, cut: 10 }), {
    instanceOf: StoreFailedError,
  });
  t.is(store.latest(), undefined);
});

test("a generation claim that fails on a full disk leaves no file and frees its number", (t) => {
  const { store, disk } = startStore();
  store.beginGeneration();
  const before = disk.list("/run/generations");
  for (let at = 1, claimed = false; !claimed; at++) {
    disk.failAt(at, "ENOSPC");
    try {
      t.is(store.beginGeneration().generation, 2);
      claimed = true;
    } catch (error) {
      t.true(error instanceof StoreFailedError);
      t.deepEqual(disk.list("/run/generations"), before, `write ${at}`);
    }
    t.true(at < 20);
  }
});

test("processes that begin at the same moment get distinct generations", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "osiris-store-"));
  t.teardown(() => rmSync(directory, { recursive: true }));
  openStore({ directory, ...testJob });
  const claims = 20;
  const claimer = new URL("../../../helpers/processes/claimer.js", import.meta.url);
  const children = [0, 1, 2].map(() => fork(claimer, [directory, String(claims)]));
  const claimed: number[] = [];
  for (const child of children)
    child.on("message", (numbers: number[]) => claimed.push(...numbers));
  const exits = await Promise.all(children.map((child) => once(child, "exit")));
  t.deepEqual(
    exits.map(([code]) => code),
    [0, 0, 0],
  );
  claimed.sort((a, b) => a - b);
  t.deepEqual(
    claimed,
    Array.from({ length: 3 * claims }, (_, index) => index + 1),
  );
  t.is(realDisk.list(join(directory, "generations")).length, 3 * claims);
});
