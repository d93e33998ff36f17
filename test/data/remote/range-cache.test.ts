// The cache of byte ranges of remote files: all readers of a host fetch a range once; the cache
// stays below its limit; a damaged entry is fetched again; a full disk costs requests, not the run.

import { readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { listCaches, removeCaches } from "../../../src/data/cache/list-caches.ts";
import { RangeCache, rangesIn } from "../../../src/data/remote/range-cache.ts";
import { openRanges } from "../../../src/data/tables/byte-ranges.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../data-files.ts";
import { startWebServer } from "./web-server.ts";

const file = { path: "http://x/a", tag: '"1"', size: 1e6 };
const bytesOf = (seed: number, length = 1000) =>
  Uint8Array.from({ length }, (_, i) => (i * 31 + seed) % 251);

/** A cache with a limit, and a range of it, written. */
function startCache(t: ExecutionContext, bytesMax: number | undefined = 64_000_000) {
  const directory = startDirectory(t);
  const cache = new RangeCache({ directory, bytesMax });
  const at = (start: number, end: number) => cache.pathOf(file, start, end) ?? "";
  return { directory, cache, at };
}

test("readers of a host fetch each range once, and a changed file again", async (t) => {
  const web = await startWebServer(t);
  const content = bytesOf(7, 300_000);
  const address = web.put("a.parquet", content);
  const { directory, cache } = startCache(t);
  const read = async (kept: RangeCache) => {
    web.ranges.length = 0;
    const ranges = await openRanges(address, kept);
    const first = await ranges.read(1000, 200_000);
    const second = await ranges.read(250_000, 300_000);
    await ranges.close();
    return [first.subarray(0, 199_000), second.subarray(0, 50_000)] as const;
  };
  const expected = [content.slice(1000, 200_000), content.slice(250_000)];
  t.deepEqual(
    (await read(cache)).map((one) => Uint8Array.from(one)),
    expected,
  );
  t.deepEqual(web.ranges, ["0-5", "1000-199999", "250000-299999"]);
  // Another reader, in another thread or process.
  const other = new RangeCache({ directory, bytesMax: 64_000_000 });
  t.deepEqual(
    (await read(other)).map((one) => Uint8Array.from(one)),
    expected,
  );
  t.deepEqual(web.ranges, ["0-5"], "only size and tag are requested");
  const changed = bytesOf(8, 300_000);
  web.put("a.parquet", changed);
  t.deepEqual(Uint8Array.from((await read(cache))[1]), changed.slice(250_000));
  t.deepEqual(web.ranges, ["0-5", "1000-199999", "250000-299999"]);
});

test("a torn, damaged or unfinished range of a remote file is fetched again", (t) => {
  const { cache, at } = startCache(t);
  const path = at(0, 1000);
  const into = new Uint8Array(1000);
  t.false(cache.read(path, into));
  for (const damage of [
    (bytes: Buffer) => bytes.subarray(0, 500),
    (bytes: Buffer) => Buffer.concat([bytes.subarray(0, 600), Buffer.alloc(408)]),
    (bytes: Buffer) => bytes.fill(bytes[700] === 0 ? 1 : 0, 700, 701),
    () => Buffer.alloc(1008), // Zeros, as after a power cut.
  ]) {
    cache.write(path, bytesOf(1));
    t.true(cache.read(path, into));
    t.deepEqual(into, bytesOf(1));
    writeFileSync(path, damage(readFileSync(path)));
    t.false(cache.read(path, into), String(damage));
    t.false(realDisk.exists(path));
  }
  // A writer was killed between writing and renaming.
  const killed: Disk = {
    ...realDisk,
    rename() {
      throw Object.assign(new Error("killed"), { code: "EIO" });
    },
  };
  new RangeCache({ directory: join(path, "../../.."), bytesMax: 64_000_000, disk: killed }).write(
    path,
    bytesOf(1),
  );
  t.false(cache.read(path, into));
});

/** Paths of ranges of `bytes` bytes in one set of a cache. */
function pathsInSet(cache: RangeCache, count: number, bytes: number): string[] {
  const paths: string[] = [];
  for (let i = 0; paths.length < count; i++) {
    const path = cache.pathOf(file, i, i + bytes) ?? "";
    if (path.includes("/ranges/0a/")) paths.push(path);
  }
  return paths;
}

const bytesIn = (directory: string) =>
  rangesIn(directory, realDisk).reduce((sum, one) => sum + one.bytes, 0);

test("a set of ranges keeps to its share of the limit, and drops the least recently used", (t) => {
  const { directory, cache } = startCache(t, 64 * 20_000);
  const [kept = "", ...others] = pathsInSet(cache, 100, 1000);
  const held = new Uint8Array(1000);
  cache.write(kept, bytesOf(0));
  let most = 0;
  for (const [i, path] of others.entries()) {
    cache.write(path, bytesOf(i));
    const used = new Date(Date.now() - 1e7 + 1000 * i); // A second apart.
    if (realDisk.exists(path)) utimesSync(path, used, used);
    if (i % 10 === 0) t.true(cache.read(kept, held), `after ${i}`);
    most = Math.max(most, bytesIn(directory));
  }
  t.true(most > 10_000 && most <= 20_000, `${most} bytes`);
  t.true(cache.read(others.at(-1) ?? "", held));
  t.false(cache.read(others[0] ?? "", held));
  const [large = ""] = pathsInSet(cache, 1, 30_000);
  cache.write(large, bytesOf(1, 30_000)); // Larger than a set's share.
  t.false(realDisk.exists(large));
});

test("sixteen threads that add at the same time do not exceed the share", (t) => {
  const bytesMax = 64 * 64_000;
  const { directory, cache } = startCache(t, bytesMax);
  const threads = Array.from({ length: 16 }, () => new RangeCache({ directory, bytesMax }));
  let most = 0;
  for (const [i, path] of pathsInSet(cache, 400, 490).entries()) {
    threads[i % 16]?.write(path, bytesOf(i, 490));
    most = Math.max(most, i % 20 === 19 ? bytesIn(directory) : 0);
  }
  t.true(most > 47_000 && most <= 64_000, `${most} bytes`);
});

test("without a limit, ranges take a quarter of the disk that is free or theirs", (t) => {
  const directory = startDirectory(t);
  let free = 64 * 80_000;
  const cache = new RangeCache({ directory, bytesMax: undefined, freeBytes: () => free });
  const paths = pathsInSet(cache, 100, 1000);
  for (const path of paths.slice(0, 60)) cache.write(path, bytesOf(1));
  const before = bytesIn(directory);
  t.true(before > 12_000 && before <= 26_000, `${before}`);
  free = 0; // Other files have filled the disk.
  for (const path of paths.slice(60)) cache.write(path, bytesOf(1));
  t.true(bytesIn(directory) < before / 2);
});

test("ranges that the disk refuses and files without a tag come from the server", async (t) => {
  const web = await startWebServer(t);
  const content = bytesOf(3, 5000);
  const address = web.put("a.parquet", content);
  const refusing: Disk = {
    ...realDisk,
    open() {
      throw Object.assign(new Error("no space"), { code: "ENOSPC" });
    },
  };
  const cache = new RangeCache({ directory: startDirectory(t), bytesMax: 1e9, disk: refusing });
  for (let times = 1; times <= 2; times++) {
    const ranges = await openRanges(address, cache);
    t.deepEqual(Uint8Array.from(await ranges.read(0, 5000)).slice(0, 5000), content);
    t.is(web.ranges.length, 2 * times);
  }
  t.is(cache.pathOf({ ...file, tag: "" }, 0, 10), undefined);
});

test("the list of caches counts ranges of remote files, which are removed by age", (t) => {
  const { directory, cache, at } = startCache(t);
  for (let i = 0; i < 5; i++) cache.write(at(i, i + 100), bytesOf(i, 100));
  const old = new Date(Date.now() - 3_600_000);
  utimesSync(at(0, 100), old, old);
  const list = listCaches(directory, Date.now());
  t.deepEqual(list.ranges, { count: 5, bytes: 540 });
  const remove = (unusedMs: number, dryRun: boolean) =>
    removeCaches(list, { unusedMs, dryRun }, Date.now()).ranges;
  t.deepEqual(remove(60_000, true), { count: 1, bytes: 108 });
  t.is(listCaches(directory, Date.now()).ranges.count, 5);
  t.deepEqual(remove(60_000, false), { count: 1, bytes: 108 });
  t.is(listCaches(directory, Date.now()).ranges.count, 4);
  const all = removeCaches(list, { all: true }, Date.now());
  t.is(all.ranges.count, 0, "recently used ranges stay");
});
