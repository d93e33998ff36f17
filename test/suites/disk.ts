// The conformance suite of the port Disk, without power failures.

import type { ExecutionContext, TestFn } from "ava";
import type { Disk } from "../../src/ports/disk.ts";

/** A disk under test, an empty directory on it, and a function that cleans up. */
export interface DiskUnderTest {
  readonly disk: Disk;
  readonly directory: string;
  readonly close: () => void;
}

const text = (value: string) => new TextEncoder().encode(value);

function contentOf(disk: Disk, path: string): string {
  const file = disk.open(path, "read");
  const bytes = new Uint8Array(file.size());
  file.read(bytes, 0);
  file.close();
  return new TextDecoder().decode(bytes);
}

function put(disk: Disk, path: string, content: string): void {
  const file = disk.open(path, "write");
  file.write(text(content), 0);
  file.sync();
  file.close();
}

/** Registers the suite's tests for one implementation. */
export function testDisk(test: TestFn, name: string, start: () => DiskUnderTest): void {
  const check = (title: string, body: (t: ExecutionContext, at: DiskUnderTest) => void) =>
    test(`${name}: ${title}`, (t) => {
      const subject = start();
      t.teardown(subject.close);
      body(t, subject);
    });

  check("reads back what was written, past the end too", (t, { disk, directory }) => {
    const file = disk.open(`${directory}/a`, "write");
    file.write(text("hello"), 0);
    file.write(text("LL"), 2);
    file.write(text("!"), 7);
    t.is(file.size(), 8);
    const bytes = new Uint8Array(20).fill(9);
    t.is(file.read(bytes, 1), 7);
    t.deepEqual([...bytes.subarray(0, 8)], [101, 76, 76, 111, 0, 0, 33, 9]);
    t.is(file.read(bytes, 8), 0);
    t.is(file.read(bytes, 80), 0);
    file.close();
  });

  check("truncates shorter and longer", (t, { disk, directory }) => {
    const file = disk.open(`${directory}/a`, "write");
    file.write(text("hello"), 0);
    file.truncate(2);
    t.is(file.size(), 2);
    file.truncate(4);
    file.close();
    t.is(contentOf(disk, `${directory}/a`), "he\0\0");
  });

  check("opens with each mode as the port says", (t, { disk, directory }) => {
    const path = `${directory}/a`;
    t.throws(() => disk.open(path, "read"), { code: "ENOENT" });
    t.throws(() => disk.open(path, "update"), { code: "ENOENT" });
    t.throws(() => disk.open(`${directory}/no/a`, "write"), { code: "ENOENT" });
    disk.open(path, "exclusive").close();
    t.throws(() => disk.open(path, "exclusive"), { code: "EEXIST" });
    put(disk, path, "one");
    const file = disk.open(path, "update");
    file.write(text("w"), 0);
    file.close();
    t.is(contentOf(disk, path), "wne");
    put(disk, path, "");
    t.is(contentOf(disk, path), "");
    const reading = disk.open(path, "read");
    t.throws(() => reading.write(text("x"), 0), { code: "EBADF" });
    reading.close();
  });

  check("lists names sorted, and nothing where nothing is", (t, { disk, directory }) => {
    for (const one of ["b", "a", "c"]) put(disk, `${directory}/${one}`, one);
    disk.makeDirectory(`${directory}/d/e`);
    disk.makeDirectory(`${directory}/d/e`);
    t.deepEqual(disk.list(directory), ["a", "b", "c", "d"]);
    t.deepEqual(disk.list(`${directory}/d`), ["e"]);
    t.deepEqual(disk.list(`${directory}/none`), []);
  });

  check("renames over what was there", (t, { disk, directory }) => {
    put(disk, `${directory}/a`, "new");
    put(disk, `${directory}/b`, "old");
    disk.rename(`${directory}/a`, `${directory}/b`);
    disk.syncDirectory(directory);
    t.is(contentOf(disk, `${directory}/b`), "new");
    t.false(disk.exists(`${directory}/a`));
    t.throws(() => disk.rename(`${directory}/a`, `${directory}/b`), { code: "ENOENT" });
  });

  check("removes a file, a directory, and what is not there", (t, { disk, directory }) => {
    disk.makeDirectory(`${directory}/d/e`);
    put(disk, `${directory}/d/e/f`, "x");
    put(disk, `${directory}/a`, "x");
    disk.remove(`${directory}/d`);
    disk.remove(`${directory}/a`);
    disk.remove(`${directory}/a`);
    t.deepEqual(disk.list(directory), []);
  });
}
