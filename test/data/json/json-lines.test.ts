// JSON Lines: a file gives the same samples as a CSV file with the same rows, and an error names
// the line and its fault.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import test, { type ExecutionContext } from "ava";
import { readKeys } from "../../../src/data/cache/cache-facts.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { lookAtFiles } from "../../../src/data/file-samples.ts";
import { dataOptions } from "../../../src/data/options.ts";
import { createRecordEncoder } from "../../../src/data/records.ts";
import type { KeyColumn } from "../../../src/data/split-keys.ts";
import {
  beforeWeight,
  betweenIds,
  jsonFields,
  withMembers,
} from "../../../src/data/text/json-lines.ts";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../data-files.ts";
import { clicks, writeLines } from "./click-lines.ts";

const both = {
  batchSize: 32,
  rejectedMax: 0.5,
  labelAsFeature: true,
  label: ["label", "bought"],
  weight: "weight",
  group: "user",
  dense: ["age", { column: "price", log: true, missing: "mean" }, { column: "shop", missing: 0 }],
};

const plain = [
  "item",
  "colour",
  { column: "session", ids: "integer" },
  "digest",
  { column: "user", missing: "reject" },
  { column: "mixed", separator: "|" },
  { column: "bought", table: "again" },
];

const listsOf = (how: (kind: "plain" | "weighted") => object) => [
  { column: "tags", ...how("plain") },
  { column: "words", ...how("plain") },
  { column: "scored", ...how("weighted") },
];

const tables = ["item", "colour", "session", "digest", "user", "mixed", "again"]
  .concat("tags", "words", "scored")
  .map((name) => ({ name, rows: 1000, ...(name === "session" ? { idBits: 64 as const } : {}) }));

const keys: Readonly<Record<string, KeyColumn | undefined>> = {
  none: undefined,
  "a time": { kind: "time", column: "when" },
  "the hash of a text": { kind: "hash", column: "colour", salt: 4 },
};

const csv = {
  kind: "csv",
  paths: [clicks],
  ...both,
  categorical: [
    ...plain,
    ...listsOf((kind) => ({
      separator: "|",
      ...(kind === "weighted" ? { weightSeparator: ":" } : {}),
    })),
  ],
};

function jsonOf(path: string): object {
  return {
    ...{ kind: "jsonl", paths: [path], ...both },
    categorical: [...plain, ...listsOf((list) => ({ list }))],
  };
}

for (const [name, key] of Object.entries(keys)) {
  test(`CSV and JSON Lines have the same samples; key: ${name}`, async (t) => {
    const cache = startDirectory(t);
    const [one, other] = await Promise.all(
      [csv, jsonOf(writeLines(cache))].map((options) => {
        const data = checkOptions(dataOptions, { ...options, cache });
        return prepareCache(data, tables, realDisk, undefined, key);
      }),
    );
    if (one === undefined || other === undefined) throw new Error("two caches");
    t.true(one.samples > 200 && one.quarantine.count > 5);
    t.deepEqual([other.samples, other.digest], [one.samples, one.digest]);
    t.deepEqual([other.means, other.statistics], [one.means, one.statistics]);
    t.deepEqual(
      other.quarantine.kept.map(({ line }) => line),
      one.quarantine.kept.map(({ line }) => line - 1),
    );
    if (key === undefined) return;
    t.deepEqual(readKeys(other.path, realDisk), readKeys(one.path, realDisk));
  });
}

/** The reasons that a dry run gives for the bad lines of a file with these lines. */
async function reasonsOf(t: ExecutionContext, lines: readonly string[]): Promise<string[]> {
  const path = join(startDirectory(t), "some.jsonl");
  writeFileSync(path, gzipSync(lines.join("\n")));
  const categorical = ["a", { column: "b", list: "plain" }, { column: "c", list: "weighted" }];
  const options = { kind: "jsonl", paths: [path], label: "y", dense: ["d"], categorical };
  const data = checkOptions(dataOptions, { ...options, batchSize: 2 });
  if (data.kind !== "jsonl") throw new Error("JSON Lines");
  const shapes = ["a", "b", "c"].map((name) => ({ name, rows: 100 }));
  const { rejected, problems, samples } = await lookAtFiles(data, shapes, 1000);
  t.deepEqual(problems, []);
  t.is(samples + rejected.count, lines.filter((line) => line !== "").length);
  return rejected.reasons.map(({ kind, got }) => `${kind}, got ${got}`);
}

test("lines that are no rows get distinct reasons", async (t) => {
  const good = '{"y":1,"a":"x","b":[1,"2",null],"c":{"7":0.5},"d":1.5,"more":{"is":"ignored"}}';
  const reasonOf = async (line: string) => (await reasonsOf(t, [good, "", line]))[0];
  t.deepEqual(await reasonsOf(t, [good, '{"y":0}', '{"y":true,"c":[["7",2],[8,-1]]}']), []);
  const object = "expected a JSON object, each name in it once";
  t.is(await reasonOf('{"y":1'), `${object}, got \`{"y":1\``);
  t.is(await reasonOf("[1,2]"), `${object}, got \`[1,2]\``);
  // pyarrow refuses a repeated key, too; JSON.parse takes the second value.
  t.is(await reasonOf('{"y":1,"a":7,"a":8}'), `${object}, got \`{"y":1,"a":7,"a":8}\``);
  t.is(await reasonOf('{"y":1,"c":{"7":1,"7":2}}'), `${object}, got \`{"y":1,"c":{"7":1,"7":2}}\``);
  t.is(
    await reasonOf('{"y":1,"a":0000000000000000001}'),
    `${object}, got \`{"y":1,"a":0000000000000000001}\``,
  );
  t.is(
    await reasonOf('{"Y":1,"A":2}'),
    "expected some of the keys `y`, `d`, `a`, `b`, `c`, got `Y, A`",
  );
  t.is(await reasonOf('{"y":1,"a":["x"]}'), 'expected `a` to be one value, got `["x"]`');
  t.is(await reasonOf('{"y":1,"b":"1|2"}'), 'expected `b` to be a list of ids, got `"1|2"`');
  t.is(await reasonOf('{"y":1,"b":[[1]]}'), "expected `b` to be a list of ids, got `[[1]]`");
  const weighted = "expected `c` to be an object of weights by id, or a list of pairs";
  t.is(await reasonOf('{"y":1,"c":{"7":"much"}}'), `${weighted}, got \`{"7":"much"}\``);
  t.is(await reasonOf('{"y":1,"c":[7]}'), `${weighted}, got \`[7]\``);
  t.is(await reasonOf('{"y":1,"d":"old"}'), "expected `d` to be a number, got `old`");
});

test("integers keep all digits, and weights by id their order, as in text", (t) => {
  const fields = (line: string) =>
    jsonFields(line, { names: ["a", "b", "c"], lists: [undefined, "plain", "weighted"], made: [] });
  const [ids, weight] = [betweenIds, beforeWeight];
  t.deepEqual(
    fields('{"a":1474671338756698595,"b":[-9223372036854775808,7],"c":{"10":0.5,"2":1}}'),
    ["1474671338756698595", `-9223372036854775808${ids}7`, `10${weight}0.5${ids}2${weight}1`],
  );
  t.deepEqual(
    fields('{"a":12345678901234567890123,"c":[[12345678901234567,98765432109876543210]]}'),
    ["12345678901234567890123", "", `12345678901234567${weight}98765432109876543210`],
  );
});

test("a record to predict has the features of its line", async (t) => {
  const directory = startDirectory(t);
  const path = join(directory, "some.jsonl");
  const rows = [
    { y: 1, a: "é", b: [3, 4], d: 2.5 },
    { y: 0, a: null, b: [], d: null },
  ];
  writeFileSync(path, rows.map((row) => JSON.stringify(row)).join("\n"));
  const categorical = ["a", { column: "b", list: "plain", ids: "integer" }];
  const options = { kind: "jsonl", paths: [path], label: "y", dense: ["d"], categorical };
  const data = checkOptions(dataOptions, { ...options, batchSize: 2, cache: directory });
  const shapes = ["a", "b"].map((name) => ({ name, rows: 100 }));
  const { encode } = createRecordEncoder(data, shapes);
  const { lengths, ids, dense } = encode(rows.map(({ y: _, ...record }) => record));
  t.deepEqual([...lengths], [1, 1, 2, 0]);
  t.deepEqual([...ids].slice(1), [0, 3, 4]);
  t.deepEqual([...dense], [2.5, 0]);
  const { samples } = await prepareCache(data, shapes, realDisk);
  t.is(samples, 2);
});

test("scores are appended to each JSON object as members, and its text is kept", (t) => {
  const line = '{"a": 1, "b": "\u00c3\u00a9" } ';
  t.is(
    withMembers(line, ["p", "q"], ["0.5", ""]),
    '{"a": 1, "b": "\u00c3\u00a9","p":0.5,"q":null}',
  );
  t.is(withMembers("{}", ["p"], ["0.5"]), '{"p":0.5}');
  t.is(withMembers("no object", ["p"], [""]), "no object");
});

test("the output of a transform may be no key of a line, weight or group", async (t) => {
  const cache = startDirectory(t);
  const path = join(cache, "made.jsonl");
  writeFileSync(path, '{"y":1,"price":3,"when":7}\n{"y":0,"price":4}\n{"y":1,"price":5}\n');
  const transforms = [{ op: "bucketize", input: "price", output: "when", borders: [1] }];
  const prepare = (rest: object) => {
    const features = { dense: ["price"], categorical: [{ column: "when", ids: "integer" }] };
    const common = { kind: "jsonl", paths: [path], label: "y", batchSize: 8, cache, transforms };
    const options = checkOptions(dataOptions, {
      ...common,
      ...features,
      rejectedMax: 0.5,
      ...rest,
    });
    return prepareCache(options, [{ name: "when", rows: 5 }], realDisk);
  };
  const { quarantine, samples } = await prepare({});
  t.is(samples, 2);
  t.is(
    quarantine.kept[0]?.reason,
    "expected no key `when`, which a transform makes: name the output otherwise, got `7`",
  );
  for (const rest of [{ weight: "when" }, { group: "when" }]) {
    const [option = ""] = Object.keys(rest);
    const error = await t.throwsAsync(prepare(rest), { instanceOf: InvalidOptionError });
    t.true(
      error?.message.startsWith(
        `\`data.${option}\` names \`when\`, which a transform makes: labels, weights, groups, what`,
      ),
      error?.message,
    );
  }
});
