// 64-bit ids from text, records and the generator to the cache and back, exactly.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { openCache } from "../../src/data/cache/cache-reader.ts";
import { dataOptions } from "../../src/data/options.ts";
import { createRecordEncoder, type RecordValue } from "../../src/data/records.ts";
import { csv, synthetic } from "../../src/data/sources.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { edges, halvesOf } from "../helpers/batches/wide-ids.ts";
import { openCached, prepare, readPlain, startDirectory, writeText } from "./data-files.ts";

const tables = [
  { name: "day", rows: 40 },
  { name: "user", rows: 9, idBits: 64 as const },
  { name: "items", rows: 8, idBits: 64 as const },
];

function sectionOf(path: string, cache: string, offset = 0) {
  return csv(path, {
    label: "y",
    categorical: [
      { column: "day", ids: "integer" },
      { column: "user", ids: "integer", offset },
      { column: "items", ids: "integer", separator: "|" },
    ],
    batchSize: 4,
    rejectedMax: 1,
    cache,
  });
}

function startText(t: ExecutionContext, lines: readonly string[]) {
  const directory = startDirectory(t);
  const path = writeText(directory, {
    name: "a.csv",
    text: ["y,day,user,items", ...lines].join("\n"),
  });
  return { path, cache: join(directory, "cache") };
}

test("every digit of a 64-bit id is in the cache, in memory and on disk", async (t) => {
  const lines = edges.map((id, i) => `${i % 2},${i},${id},${edges.slice(0, i % 4).join("|")}`);
  const { path, cache } = startText(t, lines);
  const report = await prepare(sectionOf(path, cache), tables);
  t.like(report, { samples: edges.length, wide: [false, true, true], idsMax: [1, 1, 3] });
  const expected = edges.map((id, i) => [[i], [id], edges.slice(0, i % 4)]);
  for (const memoryBytesMax of [undefined, 100]) {
    const dataset = openCache(report.path, realDisk, memoryBytesMax);
    t.teardown(() => dataset.close());
    t.deepEqual(
      readPlain(dataset).map(({ bags }) => bags),
      expected,
    );
    const some = [7, 2, 2, 11];
    t.deepEqual(
      readPlain(dataset, some).map(({ bags }) => bags),
      some.map((index) => expected[index] ?? []),
    );
  }
});

test("the offset of 64-bit ids is subtracted exactly, and an overflow is a bad line", async (t) => {
  const { path, cache } = startText(t, [
    "1,0,9223372036854775817,",
    "0,1,9223372036854775818,",
    "1,2,-9223372036854775799,+7",
    "1,3,-9223372036854775798,",
    "0,4,1e3,",
    "0,5,18446744073709551616,",
    "0,6,,007",
  ]);
  const report = await prepare(sectionOf(path, cache, 10), tables);
  const dataset = openCached(t, report.path);
  t.deepEqual(
    readPlain(dataset).map(({ bags }) => bags.slice(1)),
    [
      [[2n ** 63n - 1n], []],
      [[-(2n ** 63n)], []],
      [[], [7n]],
    ],
  );
  const range = "-9223372036854775798..9223372036854775817";
  t.deepEqual(
    report.quarantine.kept.map(({ line, reason }) => `${line}: ${reason}`),
    [
      `3: expected \`user\` to lie in ${range}, got \`9223372036854775818\``,
      `4: expected \`user\` to lie in ${range}, got \`-9223372036854775799\``,
      "6: expected `user` to be an integer, got `1e3`",
      `7: expected \`user\` to lie in ${range}, got \`18446744073709551616\``,
    ],
  );
});

test("a cache without 64-bit ids has the same digest in every version", async (t) => {
  const directory = startDirectory(t);
  const path = writeText(directory, { name: "a.csv", text: "y,a,b\n1,3,0\n0,,2\n1,1,1\n" });
  const categorical = ["a", "b"].map((column) => ({ column, ids: "integer" as const }));
  const digestOf = async (idBits: 32 | 64) => {
    const cache = join(directory, `${idBits}`);
    const options = csv(path, { label: "y", categorical, batchSize: 1, cache });
    const shapes = ["a", "b"].map((name) => ({ name, rows: 5, idBits }));
    return (await prepare(options, shapes)).digest;
  };
  t.is(await digestOf(32), "019b8f40c5db5c28e866242bdbe93e3727dfd3d4df036dcf42ebce0d6f8a12dd");
  t.not(await digestOf(64), await digestOf(32));
});

test("generated ids are the same in 64 bits as in 32", async (t) => {
  const cache = join(startDirectory(t), "cache");
  const options = synthetic({
    samples: 70,
    dense: 1,
    idsPerBag: { min: 0, max: 3 },
    batchSize: 8,
    cache,
  });
  const read = async (idBits: 32 | 64) => {
    const shapes = [
      { name: "a", rows: 50, idBits },
      { name: "b", rows: 9 },
    ];
    const dataset = openCached(t, (await prepare(options, shapes)).path);
    return readPlain(dataset);
  };
  const asNumbers = (await read(64)).map((sample) => {
    return { ...sample, bags: sample.bags.map((bag) => bag.map(Number)) };
  });
  t.deepEqual(asNumbers, await read(32));
});

test("weighted 64-bit ids keep every digit and weight, from text and from records", async (t) => {
  const directory = startDirectory(t);
  const scored = edges.map((id, i) => `${id}:${i / 4 - 1}`);
  const text = `y,users\n1,${scored.join("|")}\n0,${scored[3]}\n`;
  const path = writeText(directory, { name: "a.csv", text });
  const users = { column: "users", ids: "integer" as const, separator: "|", weightSeparator: ":" };
  const cache = join(directory, "cache");
  const options = csv(path, { label: "y", categorical: [users], batchSize: 2, cache });
  const shapes = [{ name: "users", rows: 5, idBits: 64 as const }];
  const dataset = openCached(t, (await prepare(options, shapes)).path);
  const weights = edges.map((_, i) => i / 4 - 1);
  t.deepEqual(
    readPlain(dataset).map(({ bags, weights }) => [bags, weights]),
    [
      [[[...edges]], [weights]],
      [[[edges[3] ?? 0n]], [[-0.25]]],
    ],
  );
  const encoder = createRecordEncoder(checkOptions(dataOptions, options), shapes);
  const batch = encoder.encode([{ users: scored }]);
  const halves = edges.map(halvesOf);
  t.deepEqual(
    [...batch.ids],
    halves.map(([low]) => low),
  );
  t.deepEqual(
    [...(batch.highs ?? [])],
    halves.map(([, high]) => high),
  );
  t.deepEqual([...(batch.weights ?? [])], weights);
});

test("records take 64-bit ids as text, bigint or safe integer, never a rounded one", (t) => {
  const section = checkOptions(dataOptions, sectionOf("absent.csv", "cache"));
  const encoder = createRecordEncoder(section, tables);
  const one = (user: RecordValue, items: RecordValue | RecordValue[]) =>
    encoder.encode([{ day: 3, user, items }]);
  const batch = one(2n ** 63n - 1n, ["-9007199254740993", 5, -(2n ** 63n)]);
  const halves = [2n ** 63n - 1n, -9007199254740993n, 5n, -(2n ** 63n)].map(halvesOf);
  t.deepEqual([...batch.lengths], [1, 1, 3]);
  t.deepEqual([...batch.ids], [3, ...halves.map(([low]) => low)]);
  t.deepEqual(
    [...(batch.highs ?? [])].slice(1),
    halves.map(([, high]) => high),
  );
  const refused = (user: RecordValue, items: RecordValue[], message: RegExp) =>
    t.throws(() => one(user, items), { instanceOf: InvalidOptionError, message });
  const rounded = Number(2n ** 53n);
  refused(rounded, [], /expected `user` to be one id, as text, bigint or a safe integer/);
  refused(1, [rounded], /expected `items` to be a list of ids, as text, bigint or a safe integer/);
  refused(2n ** 63n, [], /expected `user` to lie in -9223372036854775808\.\.9223372036854775807/);
});

test("64-bit ids of hashed text are refused before any file is read", async (t) => {
  const options = csv("absent.csv", { label: "y", categorical: ["user"], batchSize: 1 });
  await t.throwsAsync(prepare(options, tables.slice(1, 2)), {
    instanceOf: InvalidOptionError,
    message:
      'Expected `model.tables[0].idBits` to be 32, as its column does not have `ids: "integer"`, ' +
      "got `64` (number)",
  });
});
