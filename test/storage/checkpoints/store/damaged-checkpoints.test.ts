// Damaged files in a checkpoint store: the store finds and names the damage, falls back to the
// checkpoint before, and keeps the damaged one under another name.

import test from "ava";
import { encodeManifest } from "../../../../storage/checkpoints/store/manifest.ts";
import { replaceDurably } from "../../../../storage/disk/durable-files.ts";
import { commitCheckpoint, flipByte, startStore } from "../../../helpers/stores/checkpoints.ts";

test("every flipped bit of a manifest is found, and the checkpoint before it is used", (t) => {
  const { store, disk, open } = startStore();
  store.beginGeneration();
  commitCheckpoint(store, { generation: 1, cut: 10 });
  commitCheckpoint(store, { generation: 1, cut: 20 });
  const path = "/run/checkpoints/000000020-g000001/manifest.json";
  const file = disk.open(path, "read");
  for (let at = 0; at < file.size(); at++) {
    flipByte(disk, path, at, 1 << (at % 8));
    const { manifests, damaged } = store.list();
    t.deepEqual([manifests.length, damaged[0]?.path], [1, path]);
    flipByte(disk, path, at, 1 << (at % 8));
  }
  t.is(store.latest()?.cut, 20);
  flipByte(disk, path, 30);
  const begun = open().beginGeneration();
  t.is(begun.latest?.cut, 10);
  t.is(begun.damaged.length, 1);
  commitCheckpoint(store, { generation: 2, cut: 20 });
  t.deepEqual(
    store.list().manifests.map((one) => [one.cut, one.generation]),
    [
      [20, 2],
      [10, 1],
    ],
  );
});

test("damaged checkpoints are renamed and kept, whatever later collections remove", async (t) => {
  const { store, disk, open } = startStore();
  store.beginGeneration();
  for (const cut of [10, 20]) commitCheckpoint(store, { generation: 1, cut });
  const names = [10, 20].map((cut) => `/run/checkpoints/0000000${cut}-g000001`);
  for (const name of names) flipByte(disk, `${name}/manifest.json`, 30);
  const begun = open().beginGeneration();
  t.is(begun.latest, undefined);
  t.deepEqual(
    begun.damaged.map(({ path, kept }) => [path, kept]),
    names.reverse().map((name) => [`${name}/manifest.json`, `${name}.damaged`]),
  );
  for (const cut of [10, 20, 30]) commitCheckpoint(store, { generation: 2, cut });
  await store.collect({ generation: 2, keep: 1 });
  t.deepEqual(disk.list("/run/checkpoints"), [
    "000000010-g000001.damaged",
    "000000020-g000001.damaged",
    "000000030-g000002",
  ]);
  t.true(disk.exists(`${names[0]}.damaged/pack-d0-00000`));
  t.deepEqual(store.list().damaged, []);
});

test("a checkpoint replaced after a generation resumed from it is damage, though it is intact", (t) => {
  const { store, disk } = startStore();
  store.beginGeneration();
  commitCheckpoint(store, { generation: 1, cut: 10 });
  const second = commitCheckpoint(store, { generation: 1, cut: 20 });
  store.beginGeneration();
  const { sha256: _, ...fields } = { ...second, run: "another" };
  const path = "/run/checkpoints/000000020-g000001/manifest.json";
  replaceDurably(disk, path, encodeManifest(fields).bytes);
  const begun = store.beginGeneration();
  t.is(begun.latest?.cut, 10);
  t.regex(begun.damaged[0]?.reason ?? "", /a generation began from/);
});

test("a missing part and a truncated part count as damage, and the checkpoint before is used", (t) => {
  const { store, disk } = startStore();
  store.beginGeneration();
  for (const cut of [10, 20, 30]) commitCheckpoint(store, { generation: 1, cut });
  disk.open("/run/checkpoints/000000020-g000001/pack-d0-00000", "update").truncate(3);
  disk.remove("/run/checkpoints/000000030-g000001/pack-d0-00000");
  const begun = store.beginGeneration();
  t.is(begun.latest?.cut, 10);
  t.deepEqual(
    begun.damaged.map(({ reason }) => /it is not there|it has 3 bytes/.exec(reason)?.[0]),
    ["it is not there", "it has 3 bytes"],
  );
});
