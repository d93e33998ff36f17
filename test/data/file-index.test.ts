// The index of a streamed data set: each file is read once, by any thread, after any kill; the
// index has the same facts as a cache of the files; and 100 TB need little memory.

import { readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import test from "ava";
import { parquetWriteBuffer } from "hyparquet-writer";
import { headerBytes } from "../../src/data/cache/cache-format.ts";
import { writeFrame } from "../../src/data/cache/cache-frame.ts";
import { openIndex } from "../../src/data/cache/cache-reader.ts";
import { writeFileIndex } from "../../src/data/cache/file-index-format.ts";
import { listCaches, removeCaches } from "../../src/data/cache/list-caches.ts";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { claimsMemory, FileClaims, orderOfHost } from "../../src/data/file-index/claims.ts";
import {
  type FileSamples,
  fileIndexOf,
  hasIndex,
  indexedData,
} from "../../src/data/file-index/index-file.ts";
import { IndexTotals } from "../../src/data/file-index/index-totals.ts";
import { indexOwn } from "../../src/data/file-index/write-index.ts";
import { openSamples } from "../../src/data/open-samples.ts";
import { factsOf } from "../../src/data/remote/file-facts.ts";
import { SplitOrder } from "../../src/data/sample-order.ts";
import type { KeyColumn } from "../../src/data/split-keys.ts";
import { describeStarts, startsIn } from "../../src/data/split-starts.ts";
import { DataCacheDamagedError, InputUnusableError } from "../../src/errors/errors.ts";
import { sleepTurning } from "../../src/exchange/atomic-cells.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { rounds } from "../helpers/thinned.ts";
import { startDirectory } from "./data-files.ts";
import { optionsOf, startFiles, tables, writeRows } from "./index-files.ts";

const day: KeyColumn = { kind: "time", column: "day" };

for (const key of [undefined, day]) {
  test(`indexes of files have the statistics of one cache; key: ${key?.column}`, async (t) => {
    const { home, paths } = startFiles(t);
    const told = async (rest: object) => {
      const options = optionsOf(paths, join(home, "cache"), rest);
      const report = await prepareCache(options, tables, realDisk, undefined, key);
      const {
        path: _,
        digest: _d,
        isIndex: _i,
        pieces: _p,
        files: _f,
        version: _v,
        ...known
      } = report;
      return { ...known, filesRead: undefined };
    };
    const streamed = await told({});
    t.deepEqual(streamed, await told({ streamed: undefined }));
    t.is(streamed.quarantine.count, 6 * 4);
    t.regex(streamed.warnings?.[0]?.message ?? "", /`told` predicts the label of every line/);
  });
}

test("a kill loses only the files that are being read, and a further file adds only itself", async (t) => {
  const { home, paths } = startFiles(t);
  const cache = join(home, "cache");
  const [five, all] = [optionsOf(paths.slice(0, 5), cache), optionsOf(paths, cache)];
  const killed = prepareCache(five, tables, realDisk, ({ fraction }) => {
    if (fraction > 0.5) throw new RangeError("killed");
  });
  await t.throwsAsync(killed, { instanceOf: RangeError });
  t.is(readdirSync(join(cache, "file-indexes")).length, 3);
  t.deepEqual(readdirSync(cache), ["file-indexes"]);
  t.is((await prepareCache(five, tables, realDisk)).filesRead, 2);
  t.is((await prepareCache(five, tables, realDisk)).filesRead, undefined, "the index is reused");
  const made = await prepareCache(all, tables, realDisk);
  t.is(made.filesRead, 1);
  const atOnce = await prepareCache({ ...all, cache: join(home, "other") }, tables, realDisk);
  t.is(atOnce.filesRead, 6);
  t.deepEqual(readFileSync(made.path), readFileSync(atOnce.path));
  // The indexes depend on the tables.
  const more = [...tables.slice(1), { name: "user", rows: 70 }];
  t.is((await prepareCache(all, more.reverse(), realDisk)).filesRead, 6);
});

test("a file with the same size and a new time is read again, and no other", async (t) => {
  const { home, paths } = startFiles(t, 3);
  const options = optionsOf(paths, join(home, "cache"));
  const before = await prepareCache(options, tables, realDisk);
  const [, second = ""] = paths;
  utimesSync(second, 1, 1);
  const touched = await prepareCache(options, tables, realDisk);
  t.deepEqual([touched.filesRead, touched.digest], [1, before.digest]);
  writeRows(second, 9);
  const after = await prepareCache(options, tables, realDisk);
  t.is(after.filesRead, 1);
  t.not(after.digest, before.digest);
});

test("a damaged index of a file is reported and made again, whichever read finds it", async (t) => {
  const { home, paths } = startFiles(t, 3);
  const options = optionsOf(paths, join(home, "cache"));
  const { path, files, digest } = await prepareCache(options, tables, realDisk);
  const own = join(home, "cache", "file-indexes", files?.names[1] ?? "");
  const flip = (at: number) => {
    const bytes = readFileSync(own);
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    writeFileSync(own, bytes);
  };
  const pieces = 3;
  flip(headerBytes + 32 * pieces + 3); // In the block table: a reader finds it.
  const dataset = await openSamples(path, realDisk, { options, tables });
  await t.notThrowsAsync(dataset.hold([{ first: 0, end: 64 }], []));
  await t.throwsAsync(() => dataset.hold([{ first: 256, end: 320 }], []), {
    instanceOf: DataCacheDamagedError,
    message: /file-indexes.* is damaged: the checksum of its block table differs/,
  });
  dataset.close();
  const again = await prepareCache(options, tables, realDisk);
  t.deepEqual([again.filesRead, again.digest], [1, digest]);
  t.is(again.remade, "a reader found damage in it");
  flip(statSync(own).size - 5); // In its facts: the next index finds it.
  realDisk.remove(path);
  const third = await prepareCache(options, tables, realDisk);
  t.deepEqual([third.filesRead, third.digest], [1, digest]);
  t.regex(third.remade ?? "", /the index of .*f1\.parquet: the checksum of its facts differs/);
});

test("split keys have one form, and rows of a file with another form are bad", async (t) => {
  const { home, paths } = startFiles(t, 2);
  const dates = parquetWriteBuffer({
    columnData: [
      { name: "label", data: [0, 1, 0], type: "INT32" },
      { name: "price", data: [1, 2, 3], type: "DOUBLE" },
      { name: "user", data: ["a", "b", "c"], type: "STRING" },
      { name: "told", data: ["a", "b", "c"], type: "STRING" },
      { name: "day", data: ["2026-01-01", "2026-01-02", "2026-01-03"], type: "STRING" },
    ],
  });
  const last = join(home, "z.parquet");
  writeFileSync(last, new Uint8Array(dates));
  const prepared = (rest: object) =>
    prepareCache(optionsOf([...paths, last], home, rest), tables, realDisk, undefined, day);
  const [streamed, cached] = [await prepared({}), await prepared({ streamed: undefined })];
  t.deepEqual(streamed.quarantine, cached.quarantine);
  t.is(streamed.quarantine.count, 2 * 4 + 3);
});

test("four threads write the same index as one, even if one ends and one hangs", async (t) => {
  const { home, paths } = startFiles(t, 9);
  const prepared = (cache: string, threads: number) => {
    const options = optionsOf(paths, join(home, cache));
    const data = indexedData({ options, tables, key: undefined, disk: realDisk });
    const start = (memory: SharedArrayBuffer) => {
      for (let thread = 2; thread <= threads; thread++) {
        const claims = new FileClaims(memory, thread);
        if (thread === 2)
          claims.take(); // Thread 2 hangs with the first file.
        else {
          const make = async (place: number) => {
            if (thread === 3) throw new RangeError("it ends");
            const facts = await factsOf(paths[place] ?? "");
            return fileIndexOf(data, { place, facts }, claims);
          };
          void indexOwn(claims, make).then(() => thread === 3 && claims.release(3));
        }
      }
    };
    const waitOn = (words: Int32Array, at: number, value: number, ms: number) =>
      sleepTurning(words, at, value, Math.min(ms, 50));
    return prepareCache(options, tables, realDisk, undefined, undefined, { start, waitOn });
  };
  const [one, four] = [await prepared("one", 1), await prepared("four", 4)];
  t.deepEqual(readFileSync(four.path), readFileSync(one.path));
  t.is(one.filesRead, 9);
  t.true((four.filesRead ?? 0) >= 9);
});

test("two hosts share the files, and each file is read once, or twice at the end", async (t) => {
  const { home, paths } = startFiles(t, 9);
  const options = optionsOf(paths, join(home, "cache"));
  const data = indexedData({ options, tables, key: undefined, disk: realDisk });
  const other = new FileClaims(claimsMemory(orderOfHost(9, 1, 2)), 1);
  const ended: Promise<void>[] = [];
  const start = () => {
    const own = indexOwn(other, async (place) => {
      const file = { place, facts: await factsOf(paths[place] ?? "") };
      if (!hasIndex(data, file)) await fileIndexOf(data, file, other);
    });
    ended.push(own);
  };
  const help = { start, waitOn: sleepTurning, hosts: 2 };
  const made = await prepareCache(options, tables, realDisk, undefined, undefined, help);
  await Promise.all(ended);
  const read = (made.filesRead ?? 0) + other.filesRead;
  t.true((made.filesRead ?? 9) < 8 && read <= 9 + 2, `${made.filesRead} of ${read}`);
  const alone = await prepareCache({ ...options, cache: join(home, "one") }, tables, realDisk);
  t.deepEqual(readFileSync(made.path), readFileSync(alone.path));
});

test("removing an index removes the indexes of files that no other index needs", async (t) => {
  const { home, paths } = startFiles(t, 3);
  const cache = join(home, "cache");
  const prepared = (some: readonly string[]) =>
    prepareCache(optionsOf(some, cache), tables, realDisk);
  const [all, two] = [await prepared(paths), await prepared(paths.slice(0, 2))];
  const later = Date.now() + 3_600_000;
  const list = listCaches(cache, later);
  t.is(list.fileIndexes.count, 3);
  const remove = (path: string) => {
    const names = [basename(path, ".cache")];
    return removeCaches(listCaches(cache, later), { names }, later).removed.length;
  };
  t.is(remove(all.path), 2, "the index, and that of its last file");
  t.is((await prepared(paths.slice(0, 2))).filesRead, undefined);
  t.is(remove(two.path), 3);
  t.deepEqual(readdirSync(join(cache, "file-indexes")), []);
});

test("the error names the first bad file in order, whichever thread finds one", async (t) => {
  const { home, paths } = startFiles(t, 5);
  for (const bad of [paths[3], paths[1]]) writeFileSync(bad ?? "", "no Parquet at all");
  const options = optionsOf(paths, join(home, "cache"));
  const claims = new FileClaims(claimsMemory([0, 1, 2, 3, 4]), 1);
  const data = indexedData({ options, tables, key: undefined, disk: realDisk });
  t.is(claims.take(), 0);
  const start = (memory: SharedArrayBuffer) => {
    const own = new FileClaims(memory, 2);
    void indexOwn(own, async (place) => {
      return fileIndexOf(data, { place, facts: await factsOf(paths[place] ?? "") }, own);
    }).then(() => own.release(2));
  };
  const help = { start, waitOn: sleepTurning };
  await t.throwsAsync(prepareCache(options, tables, realDisk, undefined, undefined, help), {
    instanceOf: InputUnusableError,
    message: /f1\.parquet/,
  });
});

test("an index of many terabytes has small messages, and readers hold only pages of its table", (t) => {
  const home = startDirectory(t);
  // Many files of 1 GB, made up: row groups of 128 MB, 300 bytes a sample.
  const count = rounds("files of a long index", 20_000, 100_000);
  const [groups, groupBlocks, wordsOfBlock] = [8, 13_888, 2400];
  const groupSamples = 32 * groupBlocks;
  const samples = groups * groupSamples;
  const table = new Uint32Array(2 * groups * groupBlocks);
  for (let i = 0; i < table.length; i += 2) table[i] = wordsOfBlock;
  const pieces = new Float64Array(4 * groups);
  const words = groupBlocks * wordsOfBlock;
  for (let i = 0; i < groups; i++) {
    pieces.set([i, groupSamples, words, wordsOfBlock], 4 * i);
  }
  const directory = join(home, "file-indexes");
  realDisk.makeDirectory(directory);
  const own = realDisk.open(join(directory, "made.file"), "write");
  writeFileIndex(own, { pieces, table, facts: {}, keys: new Float64Array(0) });
  own.close();
  const ids = new Float64Array([60 * samples, 0]);
  const window = { samples: 65_536, ids: 9, reuse: [] };
  const known: FileSamples = {
    ...{ samples, positives: 9, labelled: [], labelRanges: [], digest: "d" },
    statistics: {
      samples,
      sums: ids,
      idsMax: Uint16Array.of(99, 1),
      distinct: [],
      inRuns: [],
      windows: [window, window],
    },
    about: { leakage: undefined, sums: [], counts: [] },
    bad: { count: 0, kept: [], reasons: [] },
    damage: [],
  };
  const options = optionsOf(["made.parquet"], home);
  const totals = new IndexTotals(options, tables);
  const keys = new Float64Array(0);
  for (let i = 0; i < count; i++) totals.add({ name: "made.file", pieces, samples: known, keys });
  const facts = Array.from({ length: count }, (_, i) => ({
    path: `f${i}`,
    bytes: 1e9,
    version: i,
  }));
  const {
    starts,
    keyValues: _,
    ...meta
  } = totals.finish({ absorb() {}, meta: () => ({}) } as never, facts, false);
  const path = join(home, "made.index.cache");
  const file = realDisk.open(path, "write");
  writeFrame(file, headerBytes, new Uint32Array(starts.buffer, 0, 2 * starts.length), meta);
  file.close();

  const before = memoryNow();
  const dataset = openIndex(path, realDisk, (_meta, blocks) => {
    // Any block of the table can be read, and its page does not stay in memory for long.
    for (let i = 0; i < 3000; i++) {
      const sample = Math.floor((i * 0.618_034 * meta.samples) % meta.samples);
      const block = blocks.blockOf(sample);
      t.true(blocks.firstOf(block) <= sample && sample < blocks.firstOf(block + 1));
      t.is(blocks.wordsOf(block), wordsOfBlock);
    }
    return { path: "made", read: async () => 0, bytesRead: 0, close() {} };
  });
  t.is(dataset.samples, count * samples);
  t.true(dataset.samples > 2 ** 36);
  t.is(dataset.pieces?.length, 1 + count * groups);
  const order = new SplitOrder({
    ...{ seed: 1, epoch: 0, starts, batchSize: 65_536, bounds: [0, 32_768, 65_536] },
  });
  const { now } = order.rangesAt(0, 65_536);
  t.true(now.length > 0);
  t.true(now.every(({ first, end }) => first % 32 === 0 && end - first === groupSamples));
  const used = memoryNow() - before;
  // docs/data.md: 0.5 kB a file, 32 bytes a split, 12 MB of pages and their files.
  const bound = 500 * count + 32 * count * groups + 12e6;
  t.true(used < bound, `${(used / 1e6).toFixed(1)} MB of ${(bound / 1e6).toFixed(1)} MB`);
  t.log(`${(used / 1e6).toFixed(1)} MB for ${dataset.samples.toExponential(2)} samples`);

  const described = describeStarts(starts);
  t.true(JSON.stringify(described).length < 150, "short enough for messages and manifests");
  t.true(dataset.pieces !== undefined && startsIn(described, dataset.pieces) === dataset.pieces);
  t.throws(() => startsIn(described, Float64Array.of(0, 32)), { instanceOf: InputUnusableError });
  dataset.close();
});

/** Bytes of the heap and of buffers, after a collection if the process allows one. */
function memoryNow(): number {
  globalThis.gc?.();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

test("splits are stored packed, or as their number and digest", (t) => {
  const starts = Float64Array.of(0, 64, 128, 192, 2 ** 40, 2 ** 40 + 5);
  const described = describeStarts(starts);
  t.true((described.packed?.length ?? 99) < 30);
  t.deepEqual(startsIn(described, undefined), starts);
  const many = Float64Array.from({ length: 16_386 }, (_, i) => 4096 * i);
  t.is(describeStarts(many).packed, undefined);
  t.true(JSON.stringify(describeStarts(many.subarray(0, -1))).length < 40);
});
