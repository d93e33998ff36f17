// Pack files: many parts share a file, and what happens to them when the disk fails, when a pack is
// full, and when older checkpoints are collected. Crashes are in store-crash.test.ts.

import { isDeepStrictEqual } from "node:util";
import test from "ava";
import {
  CheckpointCorruptError,
  GenerationFencedError,
  StoreFailedError,
} from "../../../../src/errors/errors.ts";
import { SimulatedDisk } from "../../../../src/ports/simulated-disk.ts";
import type { Manifest } from "../../../../storage/checkpoints/store/checkpoint-store.ts";
import { decodeManifest, encodeManifest } from "../../../../storage/checkpoints/store/manifest.ts";
import { openParts } from "../../../../storage/checkpoints/store/open-parts.ts";
import { openExistingStore, openStore } from "../../../../storage/checkpoints/store/open-store.ts";
import { createSaving } from "../../../../storage/checkpoints/store/part-writer.ts";
import { commitCheckpoint, contentOf, testJob } from "../../../helpers/stores/checkpoints.ts";

const names = Array.from({ length: 40 }, (_, i) => `table-${String(i).padStart(5, "0")}`);

/** A store that begins a new pack file after 1,000 bytes, so that few parts need several files. */
function startPacked() {
  const disk = new SimulatedDisk();
  const store = openStore({ directory: "/run", disk, packBytes: 1000, ...testJob });
  store.beginGeneration();
  const saving = createSaving({
    ...{ store, generation: 1, owner: "d0", manifest: undefined },
    differential: "one-shot",
  });
  const saveAll = (cut: number, isWhole: boolean) => {
    for (const name of names) {
      saving.begin(cut, name, isWhole);
      saving.write(contentOf(cut, name));
      saving.end([]);
    }
    return saving.finish().map(({ leaves: _, ...part }) => part);
  };
  const commit = (cut: number, isWhole = true): Manifest => {
    const about = { run: "r1", metrics: null, position: null, best: false, createdBy: "test" };
    const modelDigest = "d".repeat(64);
    const parts = saveAll(cut, isWhole);
    return store.commit({ ...about, generation: 1, cut, parts, modelDigest, arithmetic: "any" });
  };
  return { disk, store, saving, saveAll, commit };
}

test("parts share packs of bounded size, and the syncs are counted in packs", (t) => {
  const { disk, saveAll } = startPacked();
  const before = disk.operations;
  const parts = saveAll(10, true);
  const files = disk.list("/run/checkpoints/000000010-g000001");
  const bytes = names.reduce((sum, name) => sum + contentOf(10, name).length, 0);
  t.is(files.length, Math.ceil(bytes / 1000));
  // The directory; for each pack its creation, sync and renaming; for each part a write.
  t.is(disk.operations - before, 1 + 3 * files.length + names.length);
  for (const [i, { file, at }] of parts.entries()) {
    const last = parts[i - 1];
    if (last === undefined || last.file !== file) t.is(at, 0);
    else t.is(at, last.at + last.bytes);
  }
});

test("each part is read from its place, by name and as a whole checkpoint", async (t) => {
  const { disk, store, commit } = startPacked();
  const manifest = commit(10);
  const parts = openParts("/run", disk);
  for (const name of names) {
    const [own] = parts.readFiles(manifest, name);
    t.deepEqual(Buffer.concat([...(own ?? [])]), Buffer.from(contentOf(10, name)));
  }
  parts.close();
  await store.verify(manifest);
  t.deepEqual(openExistingStore("/run", disk).latest(), manifest);
});

test("an increment on packs of a collected checkpoint's neighbours survives the collection", async (t) => {
  const { disk, store, commit } = startPacked();
  commit(10);
  for (const cut of [20, 30, 40]) commit(cut, false);
  t.deepEqual(await store.collect({ generation: 1, keep: 1 }), [
    "000000020-g000001",
    "000000030-g000001",
  ]);
  const again = openExistingStore("/run", disk);
  const manifest = again.latest();
  if (manifest === undefined) throw new Error("There is no checkpoint");
  for (const name of names) {
    const files = again.readFiles(manifest, name).map((pieces) => Buffer.concat([...pieces]));
    t.deepEqual(
      files,
      [40, 10].map((cut) => Buffer.from(contentOf(cut, name))),
    );
  }
  disk.remove("/run/checkpoints/000000010-g000001/pack-d0-00001");
  t.regex(again.list().damaged[0]?.path ?? "", /000000010-g000001\/pack-d0-00001$/);
});

test("collect removes nothing where a part of an older pack is damaged, and names it", async (t) => {
  const { disk, store, commit } = startPacked();
  commit(10);
  for (const cut of [20, 30]) commit(cut, false);
  const own = store.latest()?.parts.find(({ name }) => name === "table-00027")?.base[0];
  t.true(disk.flipBit(`/run/checkpoints/000000010-g000001/${own?.file}`, 8 * (own?.at ?? 0) + 3));
  const message = /000000010-g000001\/pack-d0-0000\d is damaged: of its part `table-00027`/;
  const collecting = store.collect({ generation: 1, keep: 1 });
  await t.throwsAsync(collecting, { instanceOf: CheckpointCorruptError, message });
  t.is(disk.list("/run/checkpoints").length, 3);
});

test("a pack whose write fails on a full disk is continued where it failed", (t) => {
  const whole = startPacked();
  const expected = whole.saveAll(10, true);
  const fullAt = (operation: number) => {
    const { disk, saving } = startPacked();
    disk.failAt(operation, "ENOSPC");
    let failures = 0;
    const patiently = <Result>(write: () => Result): Result => {
      for (;;) {
        try {
          return write();
        } catch (error) {
          if (!(error instanceof StoreFailedError)) throw error;
          failures++;
        }
      }
    };
    for (const name of names) {
      patiently(() => saving.begin(10, name, true));
      patiently(() => saving.write(contentOf(10, name)));
      saving.end([]);
    }
    const parts = patiently(() => saving.finish());
    t.deepEqual(
      parts.map(({ leaves: _, ...part }) => part),
      expected,
    );
    const store = openExistingStore("/run", disk);
    const manifest = { cut: 10, generation: 1, parts: expected } as unknown as Manifest;
    for (const name of names) t.deepEqual(store.readWholePart(manifest, name), contentOf(10, name));
    return failures;
  };
  let operation = 1;
  while (fullAt(operation) > 0) operation++;
  t.true(operation > names.length, `${operation}`);
});

test("a pack that was begun before a newer generation is refused its name", (t) => {
  const { disk, store, saving } = startPacked();
  saving.begin(10, "dense", true);
  saving.write(contentOf(10, "dense"));
  saving.end([]);
  openExistingStore("/run", disk).beginGeneration();
  t.throws(() => saving.finish(), { instanceOf: GenerationFencedError });
  t.deepEqual(disk.list("/run/checkpoints/000000010-g000001"), ["pack-d0-00000.temp"]);
  t.is(store.latest(), undefined);
});

test("a manifest of 20,000 increments has at most 3 MB and comes back as it was", (t) => {
  const { store } = startPacked();
  const place = (i: number) => {
    return { file: "pack-d12-00000", at: 4000 * i, bytes: 4000, sha256: hashOf(i) };
  };
  const parts = Array.from({ length: 20_000 }, (_, i) => ({
    ...place(i),
    name: `table-${String(i >> 1).padStart(5, "0")}-b0.1-q${i % 2}.1`,
    base: [{ ...place(i + 1), cut: 10, generation: 1 }],
  }));
  const [{ sha256: _, ...small }] = [commitCheckpoint(store, { generation: 1, cut: 10 })];
  const { bytes, manifest } = encodeManifest({ ...small, cut: 20, parts });
  t.true(bytes.length <= 2.75e6, `${bytes.length}`);
  t.true(isDeepStrictEqual(decodeManifest(bytes, "manifest.json"), manifest));
});

function hashOf(i: number): string {
  return (BigInt(i + 1) * 0x9e37_79b9_7f4a_7c15n).toString(16).padStart(64, "0");
}

test("a manifest with a line that is no part is damage, and the line is named", (t) => {
  const { commit } = startPacked();
  const { sha256: _, ...manifest } = commit(10);
  const [first] = manifest.parts;
  if (first === undefined) throw new Error("There is no part");
  const wrong: [object, RegExp][] = [
    [{ name: "../a" }, /parts\.0: expected a plain lower-case file name/],
    [{ name: "a b" }, /parts\.0: it is cut short/],
    [{ file: "../../victim" }, /files\.\d+: expected CHECKPOINT\/FILE/],
    [{ at: -1 }, /parts\.0: expected a file, two counts and a hash, got 0 -1 /],
    [{ bytes: 1.5 }, /parts\.0: expected a file, two counts and a hash/],
    [{ bytes: 2 ** 60 }, /parts\.0: expected a file, two counts and a hash/],
    [{ sha256: "ff" }, /parts\.0: expected a file, two counts and a hash/],
  ];
  for (const [change, message] of wrong) {
    const { bytes } = encodeManifest({ ...manifest, parts: [{ ...first, ...change }] });
    t.throws(() => decodeManifest(bytes, "m"), { instanceOf: CheckpointCorruptError, message });
  }
});
