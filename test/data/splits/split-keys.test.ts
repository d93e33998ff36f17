// Splits by order, time and hash: a function of the data and the options alone, disjoint and
// complete, with all lines of one key in one part.

import { closeSync, openSync, readFileSync, readSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { readKeys } from "../../../src/data/cache/cache-facts.ts";
import type { KeyForm } from "../../../src/data/cache/cache-format.ts";
import { openCache } from "../../../src/data/cache/cache-reader.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import type { SplitSpec } from "../../../src/data/column-options.ts";
import { momentOf } from "../../../src/data/columnar/exact-values.ts";
import { murmurHash3 } from "../../../src/data/murmur-hash.ts";
import { dataOptions } from "../../../src/data/options.ts";
import { csv } from "../../../src/data/sources.ts";
import { planSplit, type SplitShares, splitDataset } from "../../../src/data/split.ts";
import { type KeyColumn, keyColumnOf } from "../../../src/data/split-keys.ts";
import { DataCacheDamagedError, InvalidOptionError } from "../../../src/errors/errors.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { readPlain, startDirectory, writeText } from "../data-files.ts";

const tables = [{ name: "item", rows: 20 }];

/**
 * Writes lines: line i has price i and user i % 23; two lines share a day. `day` is no feature.
 */
function startClicks(t: ExecutionContext, lines = 40, dayOf = (i: number) => `${i >> 1}`) {
  const directory = startDirectory(t);
  const rows = Array.from(
    { length: lines },
    (_, i) => `${i % 2},${i},${i % 5},u${i % 23},${dayOf(i)}`,
  );
  const text = ["clicked,price,item,user,day", ...rows, ""].join("\n");
  const path = writeText(directory, { name: "clicks.csv", text });
  const columns = { label: "clicked", dense: ["price"], categorical: ["item"], batchSize: 4 };
  return checkOptions(dataOptions, csv(path, { ...columns, cache: join(directory, "cache") }));
}

/** The prices, which equal the line positions, of each part. */
async function partsOf(t: ExecutionContext, shares: SplitShares, options = startClicks(t)) {
  const key = keyColumnOf(shares.split);
  const { path, samples } = await prepareCache(options, tables, realDisk, undefined, key);
  const keysOf = () => readKeys(path, realDisk);
  const plan = planSplit(samples, shares, keysOf);
  const parts = [plan.training, plan.evaluation, plan.test].map((part) => {
    if (part === undefined) return [];
    const view = splitDataset(openCache(path, realDisk), { seed: 3, ...part.split }, keysOf);
    t.is(view.samples, part.samples);
    const prices = readPlain(view).map(({ dense }) => dense[0] ?? -1);
    view.close();
    return prices;
  });
  const all = parts.flat().sort((one, other) => one - other);
  t.deepEqual(
    all,
    Array.from({ length: samples }, (_, i) => i),
  );
  return parts;
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
const day = (more: object = {}): SplitSpec => ({ kind: "time", column: "day", ...more });
const user = (salt = 0): SplitSpec => ({ kind: "hash", column: "user", salt });

test("the last lines are held out in file order, the test after the validation", async (t) => {
  const split = { kind: "order" } as const;
  t.deepEqual(await partsOf(t, { fraction: 0.2, testFraction: 0.1, split }), [
    range(0, 28),
    range(28, 36),
    range(36, 40),
  ]);
  t.deepEqual(await partsOf(t, { fraction: 0.25, split }), [range(0, 30), range(30, 40), []]);
});

test("the latest lines are held out, and lines of one time lie in one part", async (t) => {
  // A share that ends within a day moves the whole day to the later part.
  const parts = await partsOf(t, { fraction: 0.2, testFraction: 0.125, split: day() });
  t.deepEqual(parts, [range(0, 26), range(26, 34), range(34, 40)]);
  const backwards = startClicks(t, 40, (i) => `${-(i >> 1)}`);
  const [, validation, test] = await partsOf(
    t,
    { fraction: 0.1, testFraction: 0.1, split: day() },
    backwards,
  );
  t.deepEqual([test, validation], [range(0, 4), range(4, 8)]);
});

test("a value equal to a boundary lies after it; dates without a zone are UTC", async (t) => {
  const numbers = await partsOf(t, { fraction: 0.5, split: day({ from: 15 }) });
  t.deepEqual(numbers, [range(0, 30), range(30, 40), []]);
  const dates = startClicks(t, 40, (i) => new Date(86_400_000 * i).toISOString().slice(0, 10));
  const split = day({ from: "1970-01-11", testFrom: "1970-01-31T02:00:00+02:00" });
  const parts = await partsOf(t, { fraction: 0.5, testFraction: 0.1, split }, dates);
  t.deepEqual(parts, [range(0, 10), range(10, 30), range(30, 40)]);
});

test("the salted hash of a column decides: all lines of a user lie in one part", async (t) => {
  const shares = { fraction: 0.4, testFraction: 0.3 };
  for (const salt of [0, 1, 2]) {
    const [, validation, test] = await partsOf(t, { ...shares, split: user(salt) });
    const partOf = (i: number) => murmurHash3(`u${i % 23}`, salt) / 2 ** 32;
    t.deepEqual(
      validation,
      range(0, 40).filter((i) => partOf(i) < 0.4),
      `salt ${salt}`,
    );
    t.deepEqual(
      test,
      range(0, 40).filter((i) => partOf(i) >= 0.4 && partOf(i) < 0.7),
    );
  }
});

test("a random test part leaves the validation part unchanged", async (t) => {
  const [, alone] = await partsOf(t, { fraction: 0.25 });
  const [train, validation, test] = await partsOf(t, { fraction: 0.25, testFraction: 0.1 });
  t.deepEqual(validation, alone);
  t.deepEqual([train?.length, test?.length], [26, 4]);
});

test("an empty part is refused, with the range of the column", (t) => {
  const planOf =
    (split: SplitSpec, values: number[], form: KeyForm = "number") =>
    () =>
      planSplit(values.length, { fraction: 0.2, testFraction: 0.2, split }, () => {
        return { form, values: Float64Array.from(values) };
      });
  const says = (plan: () => unknown) => t.throws(plan, { instanceOf: InvalidOptionError }).message;
  t.is(
    says(planOf(day(), [5, 5, 5, 5, 5])),
    "Expected `evaluation.split` to leave samples in each part of 5, got 0 for training, 0 for " +
      "validation, 5 for the test; `day` goes from 5 to 5: change the shares, or where the parts begin",
  );
  t.regex(says(planOf(day({ from: 1, testFrom: 9 }), [1, 2, 3])), /got 0 for training, 3 for v/);
  t.regex(says(planOf(day({ from: 2, testFrom: 9 }), [1, 2, 3])), /, 0 for the test; `day` goes/);
  t.regex(says(planOf(user(), [7, 7, 7], "hash")), /, 3 for validation.*; `user` has 1 values: /);
  t.regex(
    says(planOf(day({ from: 2, testFrom: 9 }), [1, 2], "date")),
    /`evaluation\.split\.from` to be an ISO date, as the column `day` has, got `2` \(number\)$/,
  );
});

test("numbers and ISO dates are read alike in every time zone; other text is refused", (t) => {
  const read = (text: string) => momentOf(text)?.value;
  t.is(read("2024-02-29"), Date.UTC(2024, 1, 29));
  t.is(read("2024-03-01T12:30"), Date.UTC(2024, 2, 1, 12, 30));
  t.is(read("2024-03-01 12:30:05.25Z"), Date.UTC(2024, 2, 1, 12, 30, 5, 250));
  t.is(read("2024-03-01T00:30:00+02:00"), Date.UTC(2024, 1, 29, 22, 30));
  t.is(read("2024-03-01T00:30:00-0530"), Date.UTC(2024, 2, 1, 6, 0));
  t.is(read("0099-01-01"), new Date("0099-01-01").getTime());
  t.deepEqual(["17", " 1.5e3", "-2", ".5"].map(read), [17, 1500, -2, 0.5]);
  for (const text of [
    "",
    "2023-02-29",
    "2024-13-01",
    "2024-01-01T24:00",
    "1/2/2024",
    "0x10",
    "1e999",
  ])
    t.is(read(text), undefined, text);
});

test("a line without a readable time, or of the other form, is a bad line", async (t) => {
  const odd: Record<number, string> = { 3: "", 8: "soon", 9: "2024-01-01" };
  const options = startClicks(t, 40, (i) => odd[i] ?? `${i}`);
  const made = { ...options, rejectedMax: 0.5 };
  const key: KeyColumn = { kind: "time", column: "day" };
  const { samples, quarantine } = await prepareCache(made, tables, realDisk, undefined, key);
  t.is(samples, 37);
  t.deepEqual(
    quarantine.kept.map(({ line, reason }) => `${line}: ${reason}`),
    [
      "5: `day`, which splits the data, is missing",
      "10: expected `day`, which splits the data by time, to be a number or an ISO date, got `soon`",
      "11: expected `day` to be a number, as in the first line, got `2024-01-01`",
    ],
  );
});

test("a cache with keys is another file, and its digest depends on the keys", async (t) => {
  const options = startClicks(t);
  const digestOf = async (key?: KeyColumn) =>
    prepareCache(options, tables, realDisk, undefined, key);
  const [plain, byDay, byUser] = [
    await digestOf(),
    await digestOf({ kind: "time", column: "day" }),
    await digestOf({ kind: "hash", column: "user", salt: 0 }),
  ];
  t.is(new Set([plain, byDay, byUser].map(({ path }) => path)).size, 3);
  t.is(new Set([plain, byDay, byUser].map(({ digest }) => digest)).size, 3);
  t.is(plain.keys, undefined);
});

test("damaged keys are found, and the cache set aside", async (t) => {
  const key: KeyColumn = { kind: "time", column: "day" };
  const options = startClicks(t);
  const { path } = await prepareCache(options, tables, realDisk, undefined, key);
  t.deepEqual(
    [...readKeys(path, realDisk).values],
    range(0, 40).map((i) => i >> 1),
  );
  const file = openSync(path, "r+");
  const byte = Buffer.alloc(1);
  readSync(file, byte, 0, 1, statSync(path).size - 3);
  writeSync(file, Uint8Array.of((byte[0] ?? 0) ^ 1), 0, 1, statSync(path).size - 3);
  closeSync(file);
  t.throws(() => readKeys(path, realDisk), {
    instanceOf: DataCacheDamagedError,
    message: /the checksum of its keys differs/,
  });
  const again = await prepareCache(options, tables, realDisk, undefined, key);
  t.is(again.remade, "a reader found damage in it");
  t.is(readFileSync(again.path).length, statSync(path).size);
  t.is(readKeys(path, realDisk).values[39], 19);
});
