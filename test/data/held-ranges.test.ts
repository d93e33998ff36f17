// Ranges of samples that a reader holds: prefetched in large reads, each byte once, each block
// checked.

import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import test, { type ExecutionContext } from "ava";
import { tableOf } from "../../src/data/cache/block-table.ts";
import { blockSamples, headerBytes } from "../../src/data/cache/cache-format.ts";
import { openCache } from "../../src/data/cache/cache-reader.ts";
import { HeldRanges } from "../../src/data/cache/held-ranges.ts";
import { evenSplits, SplitOrder, splitSamplesOf } from "../../src/data/sample-order.ts";
import { synthetic } from "../../src/data/sources.ts";
import { splitDataset } from "../../src/data/split.ts";
import { DataCacheDamagedError, StoreFailedError } from "../../src/errors/errors.ts";
import { sliceBoundsOf } from "../../src/kernels/contract/slices.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { sameValues } from "../helpers/same-values.ts";
import { batchFor, openCached, prepare, readPlain, startDirectory } from "./data-files.ts";

const tables = Array.from({ length: 26 }, (_, i) => ({ name: `t${i}`, rows: 50 }));

function startCache(t: ExecutionContext, samples = 1000) {
  const cache = join(startDirectory(t), "cache");
  return prepare(synthetic({ samples, batchSize: 64, dense: 13, cache }), tables);
}

/** A disk that records all reads of its files, and fails them with `told.code`. */
function startDisk() {
  const reads: { bytes: number; offset: number }[] = [];
  const told = { code: "" };
  const disk: Disk = {
    ...realDisk,
    open(path, mode) {
      const file = realDisk.open(path, mode);
      return {
        ...file,
        async readLater(bytes, offset) {
          reads.push({ bytes: bytes.length, offset });
          if (told.code !== "") throw Object.assign(new Error(told.code), { code: told.code });
          return file.readLater(bytes, offset);
        },
      };
    },
  };
  return { disk, reads, told };
}

const range = (first: number, end: number) => ({ first, end });
const indicesOf = (first: number, end: number) =>
  Array.from({ length: end - first }, (_, i) => first + i);

test("samples of held ranges are the same, and each range takes one read", async (t) => {
  const report = await startCache(t);
  const { disk, reads } = startDisk();
  const whole = openCached(t, report.path);
  const streamed = openCache(report.path, disk, 0);
  t.teardown(() => streamed.close());
  const all = readPlain(whole);
  await streamed.hold([range(40, 100)], [range(500, 1000)]);
  sameValues(t, readPlain(streamed, indicesOf(40, 100)), all.slice(40, 100));
  await streamed.hold([range(500, 1000)], [range(0, 40)]);
  sameValues(t, readPlain(streamed, indicesOf(500, 1000)), all.slice(500));
  await streamed.hold([range(0, 40), range(0, 40)], []);
  sameValues(t, readPlain(streamed, indicesOf(0, 40)), all.slice(0, 40));
  t.is(reads.length, 3);
  const file = reads.reduce((sum, { bytes }) => sum + bytes, 0);
  t.is(streamed.bytesRead.file, file, "no further block was read");
  // Blocks that lie partly in a range are read with it.
  const blocks = 4 - 1 + (32 - 15) + 2;
  const blockBytes = 4 * (blockSamples + 1 + blockSamples * (1 + 13 + 13 + 26));
  t.true(file <= blocks * blockBytes && file > (blocks - 1) * blockBytes);
  // A sample outside the held ranges is read with its block.
  sameValues(t, readPlain(streamed, [300]), [all[300]] as typeof all);
  t.true(streamed.bytesRead.file > file);
});

test("memory is bounded by the ranges held now and next, however large the data", async (t) => {
  const [splits, blocksOfSplit, wordsOfBlock] = [500, 8, 1000];
  const words = new Int32Array(wordsOfBlock);
  const block = [words.length, crc32(new Uint8Array(words.buffer))];
  const entries = Uint32Array.from(
    Array(splits * blocksOfSplit)
      .fill(block)
      .flat(),
  );
  const table = tableOf(entries);
  const memory = new Set<ArrayBufferLike>();
  let bytesRead = 0;
  const held = new HeldRanges(
    {
      path: "made",
      async read(bytes) {
        memory.add(bytes.buffer);
        bytesRead += bytes.fill(0).length;
        return bytes.length;
      },
      bytesRead,
      close() {},
    },
    table,
  );
  const samplesOfSplit = blocksOfSplit * blockSamples;
  const splitAt = (at: number) => range(at * samplesOfSplit, (at + 1) * samplesOfSplit);
  for (let at = 0; at + 3 < splits; at++) {
    await held.hold([splitAt(at), splitAt(at + 1)], [splitAt(at + 2), splitAt(at + 3)]);
    const place = { words, at: 0 };
    t.true(held.find(place, at * blocksOfSplit + blocksOfSplit - 1));
  }
  const bytes = [...memory].reduce((sum, { byteLength }) => sum + byteLength, 0);
  const splitBytes = 4 * wordsOfBlock * blocksOfSplit;
  t.is(bytesRead, splits * splitBytes, "every split was read once");
  t.true(bytes <= 5 * splitBytes, `${bytes} bytes for 4 splits of ${splitBytes}`);
});

test("blocks checked when they were made are not checked again, but missing bytes are found", async (t) => {
  const wordsOfBlock = 10;
  const table = tableOf(Uint32Array.of(wordsOfBlock, 1, wordsOfBlock, 1)); // Wrong checksums.
  let missing = 0;
  const read = async (bytes: Uint8Array) => bytes.fill(7).length - missing;
  const place = { words: new Int32Array(0), at: 0 };
  const one = { path: "made", read, bytesRead: 0, close() {} };
  const findIn = async (isChecked: boolean) => {
    const held = new HeldRanges({ ...one, isChecked }, table);
    await held.hold([range(0, 2 * blockSamples)], []);
    return held.find(place, 1);
  };
  t.true(await findIn(true));
  t.deepEqual([place.at, place.words.at(-1)], [wordsOfBlock, 0x0707_0707]);
  await t.throwsAsync(findIn(false), { instanceOf: DataCacheDamagedError });
  missing = 1;
  await t.throwsAsync(findIn(true), { instanceOf: DataCacheDamagedError });
});

test("samples in file order read each block once, however little memory there is", async (t) => {
  const report = await startCache(t);
  const streamed = openCached(t, report.path, 0);
  for (let i = 0; i < 1000; i++) readPlain(streamed, [i]);
  const { file, samples } = streamed.bytesRead;
  t.true(file < 1.03 * samples, `${file} of ${samples}`);
});

test("ranges of a split part hold the samples between its first and last of the whole", async (t) => {
  const report = await startCache(t);
  const { disk, reads } = startDisk();
  const split = { seed: 1, fraction: 0.5, part: "train" } as const;
  const whole = splitDataset(openCache(report.path, realDisk), split);
  const streamed = splitDataset(openCache(report.path, disk, 0), split);
  t.teardown(() => whole.close());
  t.teardown(() => streamed.close());
  await streamed.hold([range(100, 200)], []);
  const { file } = streamed.bytesRead;
  sameValues(t, readPlain(streamed, indicesOf(100, 200)), readPlain(whole, indicesOf(100, 200)));
  t.is(reads.length, 1);
  t.is(streamed.bytesRead.file, file);
});

test("a damaged block of a range is found and named at its use, and the file set aside", async (t) => {
  const report = await startCache(t);
  const offset = headerBytes + 40;
  const byte = readFileSync(report.path)[offset] ?? 0;
  const descriptor = openSync(report.path, "r+");
  writeSync(descriptor, Uint8Array.of(byte ^ 1), 0, 1, offset);
  closeSync(descriptor);
  const streamed = openCached(t, report.path, 0);
  await streamed.hold([range(0, 200)], []);
  t.is(readPlain(streamed, indicesOf(32, 200)).length, 168);
  t.throws(() => readPlain(streamed, [31]), {
    instanceOf: DataCacheDamagedError,
    message: /the checksum of block 0 \(samples 0\.\.31\) differs/,
  });
  t.false(realDisk.exists(report.path));
});

test("a failed read is an error when its samples are needed, and is then repeated", async (t) => {
  const report = await startCache(t);
  const { disk, told } = startDisk();
  const streamed = openCache(report.path, disk, 0);
  t.teardown(() => streamed.close());
  told.code = "EIO";
  await streamed.hold([], [range(0, 64)]);
  told.code = "";
  const error = await t.throwsAsync(streamed.hold([range(0, 64)], []), {
    instanceOf: StoreFailedError,
  });
  t.regex(error.message, /read/);
  await streamed.hold([range(0, 64)], []);
  t.is(readPlain(streamed, indicesOf(0, 64)).length, 64);
});

test("an epoch reads little more than its samples, with 1, 2 and 4 readers", async (t) => {
  const samples = 40_000;
  const report = await startCache(t, samples);
  const slices = 8;
  const [batchSize, seed, epoch] = [512, 2, 1];
  const bytes = 4 * samples * (1 + 13 + 13 + 26);
  const starts = evenSplits(samples, splitSamplesOf({ samples, bytes, slices }));
  const bounds = sliceBoundsOf(slices, batchSize);
  const order = new SplitOrder({ seed, epoch, starts, batchSize, bounds });
  for (const readers of [1, 2, 4]) {
    const sum = { file: 0, samples: 0 };
    for (let reader = 0; reader < readers; reader++) {
      const dataset = openCache(report.path, realDisk, 0);
      for (let first = 0; first < samples; first += batchSize) {
        const count = Math.min(batchSize, samples - first);
        const [from, to] = [reader, reader + 1].map((r) => Math.floor((r * count) / readers));
        const places = (to ?? 0) - (from ?? 0);
        const { now, next } = order.rangesAt(first + (from ?? 0), places);
        await dataset.hold(now, next);
        const indices = new Float64Array(places);
        order.fill(indices, first + (from ?? 0));
        dataset.read(indices, batchFor(dataset, places));
      }
      sum.file += dataset.bytesRead.file;
      sum.samples += dataset.bytesRead.samples;
      dataset.close();
    }
    t.is(sum.samples, bytes, `${readers} readers`);
    // A sample has 53 words, and a block one more word per sample; each slice reads two splits
    // partly.
    const blocksRead = sum.file / ((1 + 1 / 53) * bytes);
    t.true(blocksRead > 1 && blocksRead < 1 + 1 / 64, `${readers} readers: ${blocksRead}`);
  }
});
