// Both disks behave alike without power cuts; the simulated one loses whatever a real one may lose.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { realDisk } from "../../src/ports/disk.ts";
import { SimulatedCrash, SimulatedDisk } from "../../src/ports/simulated-disk.ts";
import { testDisk } from "../suites/disk.ts";

testDisk(test, "real disk", () => {
  const directory = mkdtempSync(join(tmpdir(), "osiris-disk-"));
  return { disk: realDisk, directory, close: () => rmSync(directory, { recursive: true }) };
});

testDisk(test, "simulated disk", () => {
  const disk = new SimulatedDisk();
  disk.makeDirectory("/home");
  return { disk, directory: "/home", close: () => undefined };
});

const bytes = new Uint8Array(100).map((_, index) => index + 1);

/** A disk with the durable directory /d, and in it the file `a`, open. */
function startDisk(options: { seed?: number } = {}) {
  const disk = new SimulatedDisk(options);
  disk.makeDirectory("/d");
  disk.syncDirectory("/");
  return { disk, file: disk.open("/d/a", "write") };
}

function contentOf(disk: SimulatedDisk, path: string): Uint8Array {
  const file = disk.open(path, "read");
  const content = new Uint8Array(file.size());
  file.read(content, 0);
  return content;
}

test("a synced file whose name was not synced is gone after a crash", (t) => {
  const { disk, file } = startDisk();
  file.write(bytes, 0);
  file.sync();
  disk.crash();
  t.deepEqual(disk.list("/d"), []);
});

test("a synced name keeps only the bytes that were synced", (t) => {
  const { disk, file } = startDisk();
  file.write(bytes.subarray(0, 10), 0);
  file.sync();
  file.write(bytes.subarray(10), 10);
  disk.syncDirectory("/d");
  disk.crash();
  t.deepEqual(contentOf(disk, "/d/a"), bytes.slice(0, 10));
});

test("a rename and a removal are undone unless the directory was synced", (t) => {
  const { disk, file } = startDisk();
  file.write(bytes, 0);
  file.sync();
  disk.syncDirectory("/d");
  disk.rename("/d/a", "/d/b");
  t.deepEqual(disk.list("/d"), ["b"]);
  disk.crash();
  t.deepEqual(disk.list("/d"), ["a"]);
  disk.remove("/d/a");
  disk.crash();
  t.deepEqual(contentOf(disk, "/d/a"), bytes);
  disk.rename("/d/a", "/d/b");
  disk.syncDirectory("/d");
  disk.crash();
  t.deepEqual(disk.list("/d"), ["b"]);
});

test("with a seed, unsynced bytes are lost, kept or torn, always the same way", (t) => {
  const crashed = (seed: number) => {
    const { disk, file } = startDisk({ seed });
    disk.syncDirectory("/d");
    file.write(bytes, 0);
    disk.crash();
    return contentOf(disk, "/d/a");
  };
  const lengths = new Set<number>();
  for (let seed = 0; seed < 40; seed++) {
    const content = crashed(seed);
    t.deepEqual(content, bytes.slice(0, content.length));
    t.deepEqual(crashed(seed), content);
    lengths.add(content.length);
  }
  t.true(lengths.has(0));
  t.true(lengths.has(100));
  t.true(lengths.size > 5, "some writes are torn");
});

test("with a seed, an unsynced rename is done or undone, never half", (t) => {
  const outcomes = new Set<string>();
  for (let seed = 0; seed < 40; seed++) {
    const { disk, file } = startDisk({ seed });
    file.sync();
    disk.syncDirectory("/d");
    disk.rename("/d/a", "/d/b");
    disk.crash();
    outcomes.add(disk.list("/d").join(","));
  }
  t.deepEqual([...outcomes].sort(), ["a", "b"]);
});

test("crashAt cuts power in that operation, and nothing works before crash()", (t) => {
  const { disk, file } = startDisk();
  const before = disk.operations;
  disk.crashAt(2);
  file.write(bytes, 0);
  t.throws(() => file.sync(), { instanceOf: SimulatedCrash });
  t.is(disk.operations, before + 2);
  t.throws(() => disk.remove("/d/a"), { instanceOf: SimulatedCrash });
  t.throws(() => disk.list("/d"), { instanceOf: SimulatedCrash });
  disk.crash();
  t.deepEqual(disk.list("/d"), []);
  t.throws(() => file.write(bytes, 0), { instanceOf: SimulatedCrash }, "older files are unusable");
  disk.open("/d/b", "exclusive").close();
  t.deepEqual(disk.list("/d"), ["b"]);
});

test("removing a directory takes one operation per name", (t) => {
  const { disk } = startDisk();
  disk.open("/d/b", "write").close();
  const before = disk.operations;
  disk.remove("/d");
  t.is(disk.operations, before + 3);
});

test("failAt fails one operation, which then has no effect", (t) => {
  const { disk, file } = startDisk();
  disk.failAt(1, "ENOSPC");
  t.throws(() => file.write(bytes, 0), { code: "ENOSPC" });
  t.is(file.size(), 0);
  file.write(bytes, 0);
  t.is(file.size(), 100);
});
