// The faulty disk, which wraps a real one and injects faults.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { type DiskTrouble, FaultyDisk } from "../../../chaos/faults/faulty-disk.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { readWhole, replaceDurably } from "../../../storage/disk/durable-files.ts";
import { startDirectory } from "../../data/data-files.ts";

/** A directory, and a disk that injects the fault `what` there, `operations` times. */
function startDisk(t: ExecutionContext, what: DiskTrouble, operations = 1) {
  const directory = startDirectory(t);
  const disk = new FaultyDisk(realDisk, { directory });
  const counts = { hits: 0, deaths: 0 };
  const over = (hits: number) => {
    counts.hits += hits;
  };
  const die = () => {
    counts.deaths++;
  };
  disk.arm({ what, operations, over, die });
  const path = join(directory, "manifest.json");
  return {
    disk,
    path,
    counts,
    write: (text: string) => replaceDurably(disk, path, Buffer.from(text)),
  };
}

const textOf = (path: string) => Buffer.from(readWhole(realDisk, path)).toString();

test("a full disk refuses the given number of writes with ENOSPC", (t) => {
  const { path, counts, write } = startDisk(t, "disk-full", 2);
  t.throws(() => write("one"), { code: "ENOSPC" });
  t.throws(() => write("two"), { code: "ENOSPC" });
  t.is(counts.hits, 2);
  write("three");
  t.is(textOf(path), "three");
});

test("a torn write leaves its first half, and kills the writer", (t) => {
  const { path, counts, write } = startDisk(t, "torn-write");
  write("12345678");
  t.is(textOf(path), "1234");
  t.deepEqual(counts, { hits: 1, deaths: 1 });
});

test("a flipped bit silently changes one bit of one write", (t) => {
  const { path, counts, write } = startDisk(t, "flipped-bit");
  write("aaaa");
  t.is(textOf(path), "aa`a");
  t.deepEqual(counts, { hits: 1, deaths: 0 });
  write("aaaa");
  t.is(textOf(path), "aaaa");
});

test("bytes whose sync was lost are gone when the power fails", (t) => {
  const { path, counts, write } = startDisk(t, "lost-sync");
  write("12345678");
  t.is(textOf(path), "", "the file's name is durable, its bytes are not");
  t.deepEqual(counts, { hits: 1, deaths: 1 });
});

test("a file whose sync was lost is lost at the next power failure", (t) => {
  const { disk, path, counts } = startDisk(t, "lost-sync");
  const file = disk.open(path, "write");
  file.write(Buffer.from("rows"), 0);
  file.sync();
  file.close();
  t.is(textOf(path), "rows");
  disk.powerFails();
  t.is(textOf(path), "");
  t.is(counts.deaths, 1);
});

test("a faulty disk injects no fault outside its directory", (t) => {
  const { disk, counts } = startDisk(t, "disk-full", 9);
  const other = startDirectory(t);
  replaceDurably(disk, join(other, "file"), Buffer.from("here"));
  t.is(counts.hits, 0);
});
