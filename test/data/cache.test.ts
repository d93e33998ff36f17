// The cache of a dataset on disk: it has the samples of the dataset, and never a half-written file.
// A directory that cannot be written is an immediate error.

import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { openCache } from "../../src/data/cache/cache-reader.ts";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import type { Dataset } from "../../src/data/dataset.ts";
import { dataOptions } from "../../src/data/options.ts";
import { csv, synthetic } from "../../src/data/sources.ts";
import {
  DataCacheDamagedError,
  DiskRefusedError,
  InputUnusableError,
  StoreFailedError,
} from "../../src/errors/errors.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { sameValues } from "../helpers/same-values.ts";
import { openCached, prepare, readPlain, startDirectory, writeText } from "./data-files.ts";

const tables = [
  { name: "a", rows: 50 },
  { name: "b", rows: 7 },
  { name: "c", rows: 1000 },
];

async function startCache(t: ExecutionContext, samples = 1000) {
  const directory = startDirectory(t);
  const cache = join(directory, "cache");
  const idsPerBag = { min: 0, max: 5 };
  const options = synthetic({ samples, batchSize: 8, dense: 3, idsPerBag, cache });
  const report = await prepare(options, tables);
  return { cache, options, report };
}

function damage(path: string, offset: number): void {
  const byte = readFileSync(path)[offset] ?? 0;
  const descriptor = openSync(path, "r+");
  writeSync(descriptor, Uint8Array.of(byte ^ 1), 0, 1, offset);
  closeSync(descriptor);
}

test("any samples in any order are the same from memory and from the disk", async (t) => {
  const { report } = await startCache(t);
  const whole = openCached(t, report.path);
  const blocks = openCached(t, report.path, 10_000);
  const all = readPlain(whole);
  t.is(all.length, 1000);
  sameValues(t, readPlain(blocks), all);
  const indices = [999, 0, 31, 32, 31, 500, 64, 63];
  const picked = indices.map((index) => all[index]);
  sameValues(t, readPlain(whole, indices), picked as typeof all);
  sameValues(t, readPlain(blocks, indices), picked as typeof all);
  sameValues(t, readPlain(whole, []), []);
  const longest = tables.map((_, f) => Math.max(...all.map(({ bags }) => bags[f]?.length ?? 0)));
  t.deepEqual(report.idsMax, longest);
  t.is(report.positives, all.filter(({ label }) => label === 1).length);
  t.true(all.every(({ bags }) => bags.every((bag, f) => bag.every((id) => id < rowsOf(f)))));
});

const rowsOf = (feature: number) => tables[feature]?.rows ?? 0;

test("an index beyond the data is refused, and a batch too long for its memory is counted", async (t) => {
  const { report } = await startCache(t, 40);
  const dataset = openCached(t, report.path);
  t.throws(() => readPlain(dataset, [40]), { message: /an index of the dataset/ });
  const batch = {
    dense: new Float32Array(6),
    labels: new Float32Array(2),
    lengths: new Int32Array(6),
    ids: new Int32Array(0),
  };
  const own = readPlain(dataset, [0, 1]).flatMap(({ bags }) => bags.flat());
  t.is(dataset.read(Float64Array.of(0, 1), batch), own.length);
});

test("a closed dataset cannot be read", async (t) => {
  const { report } = await startCache(t, 4);
  const dataset: Dataset = openCache(report.path, realDisk);
  dataset.close();
  dataset.close();
  t.throws(() => readPlain(dataset, [0]), { message: /the dataset is open/ });
});

test("an existing cache is reused, and a changed file makes another cache", async (t) => {
  const directory = startDirectory(t);
  const cache = join(directory, "cache");
  const path = writeText(directory, { name: "a.csv", text: "y,a\n1,x\n0,z\n" });
  const section = (categorical: { column: string; ids: "hash" | "integer" }[], epochs: number) =>
    prepare(csv(path, { label: "y", categorical, batchSize: epochs, epochs, cache }), [
      { name: "a", rows: 9 },
    ]);
  const first = await section([{ column: "a", ids: "hash" }], 1);
  damage(first.path, 70);
  const again = await section([{ column: "a", ids: "hash" }], 3);
  t.deepEqual(again, first, "the cache is reused without a look at the text or at its blocks");
  t.throws(() => openCache(first.path, realDisk), { instanceOf: DataCacheDamagedError });
  utimesSync(path, 1, 1);
  const touched = await section([{ column: "a", ids: "hash" }], 1);
  t.not(touched.path, first.path);
  t.is(touched.digest, first.digest);
  t.is(realDisk.list(cache).length, 2);
});

test("a flipped bit is found when its block is read: the block is named, the file set aside", async (t) => {
  const { options, report } = await startCache(t);
  const instanceOf = DataCacheDamagedError;
  const message =
    /cache .* is damaged: the checksum of block 0 \(samples 0\.\.31\) differs; it is rebuilt/;
  const open = () => openCache(report.path, realDisk);
  const harms = [
    () => t.throws(open, { instanceOf, message }),
    () => {
      const blocks = openCache(report.path, realDisk, 10_000);
      t.is(readPlain(blocks, [32, 999]).length, 2);
      t.throws(() => readPlain(blocks, [5]), { instanceOf, message });
      blocks.close();
    },
  ];
  for (const meet of harms) {
    damage(report.path, 64 + 40);
    meet();
    t.false(realDisk.exists(report.path));
    const remade = "a reader found damage in it";
    t.deepEqual(await prepare(options, tables), { ...report, remade });
    t.deepEqual(await prepare(options, tables), report, "once");
    t.is(realDisk.list(dirname(report.path)).length, 1);
    open().close();
  }
});

test("readers of a damaged cache set it aside once, and never the cache made anew", async (t) => {
  const { options, report } = await startCache(t);
  damage(report.path, 64 + 40);
  const reader = () => openCache(report.path, realDisk, 10_000);
  const fail = (reader: Dataset) =>
    t.throws(() => readPlain(reader, [5]), { instanceOf: DataCacheDamagedError });
  const readers = [reader(), reader(), reader()] as const;
  const [first, second, third] = readers;
  fail(first);
  fail(second);
  const { remade: _, ...made } = await prepare(options, tables);
  t.deepEqual(made, report);
  fail(third); // The third reader still has the damaged file open.
  t.deepEqual(await prepare(options, tables), report);
  for (const reader of readers) reader.close();
});

test("a damaged header, index or end is found, and the cache made anew, with the reason", async (t) => {
  const { options, report } = await startCache(t);
  const size = readFileSync(report.path).length;
  const harms: [string, () => void, RegExp][] = [
    ["magic", () => damage(report.path, 0), /does not start as one/],
    ["header", () => damage(report.path, 17), /checksum of its header/],
    ["index", () => damage(report.path, size - 3), /checksum of its index/],
    ["end", () => truncateSync(report.path, size - 1), /its end is missing/],
    ["everything", () => truncateSync(report.path, 0), /does not start as one/],
  ];
  for (const [what, harm, message] of harms) {
    harm();
    const { remade = "", ...made } = await prepare(options, tables);
    t.regex(remade, message);
    t.deepEqual(made, report, what);
    harm();
    const open = () => openCache(report.path, realDisk);
    t.throws(open, { instanceOf: DataCacheDamagedError, message }, what);
    t.false(realDisk.exists(report.path), what);
    await prepare(options, tables);
    open().close();
  }
});

test("a missing cache is named in the error", (t) => {
  t.throws(() => openCache("absent.cache", realDisk), {
    instanceOf: DataCacheDamagedError,
    message: /The data cache absent\.cache is damaged: it is not there/,
  });
});

/** The real disk, until write number `writes` fails. */
function failingDisk(writes: number): Disk {
  let left = writes;
  return {
    ...realDisk,
    open(path, mode) {
      const file = realDisk.open(path, mode);
      return {
        ...file,
        write(bytes, offset) {
          if (left-- <= 0) throw new Error("no space left");
          file.write(bytes, offset);
        },
      };
    },
  };
}

test("a disk that fails at any write leaves no half cache behind", async (t) => {
  const directory = startDirectory(t);
  const cache = join(directory, "cache");
  const options = checkOptions(dataOptions, synthetic({ samples: 70, batchSize: 1, cache }));
  let writes = 0;
  for (; ; writes++) {
    try {
      await prepareCache(options, tables, failingDisk(writes));
      break;
    } catch (error) {
      t.true(error instanceof StoreFailedError);
      t.regex(String(error), /Cannot write .*: no space left/);
      t.deepEqual(realDisk.list(cache), []);
    }
  }
  t.is(writes, 1 + 3, "the blocks together, table, meta, header");
  t.is(realDisk.list(cache).length, 1);
});

test("a crash before the rename leaves no file under the cache's name", async (t) => {
  const { cache, options, report } = await startCache(t);
  realDisk.rename(report.path, `${report.path}.building-1-0-0`);
  t.deepEqual(await prepare(options, tables), report);
  t.is(realDisk.list(cache).length, 2);
});

test("progress ends at the total, and never decreases", async (t) => {
  const directory = startDirectory(t);
  const text = `y,a\n${"1,x\n0,y\nbad\n".repeat(100_000)}`;
  const path = writeText(directory, { name: "a.csv", text });
  const cache = join(directory, "cache");
  const rest = { label: "y", categorical: ["a"], batchSize: 1, rejectedMax: 1, cache };
  const section = csv([path, path], rest);
  const fractions: number[] = [];
  let last = {};
  const options = checkOptions(dataOptions, section);
  await prepareCache(options, [{ name: "a", rows: 9 }], realDisk, (progress) => {
    fractions.push(progress.fraction);
    last = progress;
  });
  t.deepEqual(last, { samples: 400_000, quarantined: 200_000, fraction: 1 });
  t.true(fractions.length > 4);
  t.deepEqual(
    fractions,
    [...fractions].sort((a, b) => a - b),
  );
});

const userTables = [{ name: "user", rows: 50 }];

function cacheIn(cache: string, disk: Disk = realDisk) {
  const options = dataOptions.parse(synthetic({ samples: 50_000, batchSize: 10, cache }));
  return prepareCache(options, userTables, disk);
}

test("a file in the place of the cache directory ends the preparation", async (t) => {
  const path = join(startDirectory(t), "file");
  writeFileSync(path, "");
  const error = await t.throwsAsync(cacheIn(path), { instanceOf: DiskRefusedError });
  t.is(error.recovery, "stop");
  const why = "a file is in the place of a directory; name another directory with `data.cache`";
  t.is(error.message, `Cannot make the data cache in ${path}: ${why}`);
});

test("a full disk is an error that says how much the cache needs, and no file is left", async (t) => {
  const directory = startDirectory(t);
  const roomBytes = 1_000_000;
  const full: Disk = {
    ...realDisk,
    open(path, mode) {
      const file = realDisk.open(path, mode);
      const write = (bytes: Uint8Array, offset: number) => {
        if (offset + bytes.length <= roomBytes) return file.write(bytes, offset);
        throw Object.assign(new Error("ENOSPC: no space left"), {
          code: "ENOSPC",
          syscall: "write",
        });
      };
      return { ...file, write };
    },
  };
  const error = await t.throwsAsync(cacheIn(directory, full), { instanceOf: DiskRefusedError });
  t.regex(
    error.message,
    /^Cannot write the data cache in .*: the disk is full after \d+ MB, of about \d+ MB that it needs; make room, or name another directory with `data\.cache`$/,
  );
  t.deepEqual(readdirSync(directory), []);
});

test("a local file that changes while its cache is made is refused, and leaves no cache", async (t) => {
  const home = startDirectory(t);
  const rows = (price: number) => `label,price\n${`1,${price}\n0,${price}\n`.repeat(50)}`;
  const paths = ["a.csv", "b.csv"].map((name) => writeText(home, { name, text: rows(1) }));
  const data = { label: "label", dense: ["price"], categorical: [], batchSize: 8 };
  const options = checkOptions(dataOptions, csv(paths, { ...data, cache: join(home, "cache") }));
  for (const name of ["a.csv", "b.csv"]) {
    const changing = prepareCache(options, [], realDisk, () => {
      writeText(home, { name, text: rows(2) });
      utimesSync(join(home, name), 1, 1); // A copy that keeps the time of another version.
    });
    const message = new RegExp(`${name} has changed while it was read`);
    await t.throwsAsync(changing, { instanceOf: InputUnusableError, message });
    t.deepEqual(readdirSync(options.cache), []);
    writeText(home, { name, text: rows(1) });
  }
  t.is((await prepareCache(options, [], realDisk)).samples, 200);
});
