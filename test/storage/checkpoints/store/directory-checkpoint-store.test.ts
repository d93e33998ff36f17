// The checkpoint store in a directory, as its callers see it, without power cuts. Crashes are in
// store-crash.test.ts.

import { fork } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import {
  CheckpointForeignError,
  CheckpointMissingError,
  GenerationFencedError,
  InputUnusableError,
  StoreFailedError,
} from "../../../../src/errors/errors.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { SimulatedDisk } from "../../../../src/ports/simulated-disk.ts";
import { openExistingStore, openStore } from "../../../../storage/checkpoints/store/open-store.ts";
import { replaceDurably } from "../../../../storage/disk/durable-files.ts";
import { seal } from "../../../../storage/disk/sealed-json.ts";
import { startDirectory } from "../../../data/data-files.ts";
import {
  commitCheckpoint,
  startStore,
  startStoreInDirectory,
  testJob,
} from "../../../helpers/stores/checkpoints.ts";
import { keepsCheckpoints } from "../../../suites/checkpoint-store.ts";

keepsCheckpoints("in a directory", startStoreInDirectory);

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
  t.true(disk.exists("/run/checkpoints/000000020-g000001/manifest.json"), "it was renamed");
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

test("a directory that is a file, or lies in one, is refused as unusable", (t) => {
  const directory = startDirectory(t);
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
  const directory = startDirectory(t);
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

test("of two jobs that opened one empty directory, one is refused when it begins", (t) => {
  const { disk, store } = startStore();
  disk.remove("/run/job.json");
  const other = openStore({ directory: "/run", disk, jobIdentity: "b".repeat(64), jobText: "" });
  t.throws(() => store.beginGeneration(), { instanceOf: CheckpointForeignError });
  t.is(other.beginGeneration().generation, 1);
});

test("the error of a fenced generation says who began the newer one, and when", (t) => {
  const { store } = startStore();
  for (let generation = 1; generation <= 2; generation++) store.beginGeneration();
  t.throws(() => commitCheckpoint(store, { generation: 1, cut: 20 }), {
    instanceOf: GenerationFencedError,
    message: /^\/run was .* at \d{4}-.* generation 2/,
  });
});
