// Ingestion: the rows made from messages, the counts in its report, and the inputs that it refuses.

import { readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { encode } from "@msgpack/msgpack";
import test from "ava";
import { parquetMetadata } from "hyparquet";
import {
  DataRejectedError,
  IngestForeignError,
  InvalidOptionError,
  WindowFullError,
} from "../../../../src/errors/errors.ts";
import { SimulatedClock } from "../../../../src/ports/clock.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { seal } from "../../../../storage/disk/sealed-json.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { featuresIn } from "../../streams/messages.ts";
import { compactWarehouse } from "../../warehouse/compact-warehouse.ts";
import { allFiles } from "../warehouse/tables.ts";
import { hashesOf, ingestInto, rowsOf } from "./ingested.ts";
import { MemoryStreams } from "./streams.ts";

const law = { windowMs: 1000, latenessMs: 100 };
const end = { time: 1_000_000_000 };
const request = (id: string, time: number, more: object = {}) => ({ request: id, time, ...more });
const event = (id: string, time: number, label: unknown = 1, more: object = {}) => {
  return { request: id, time, label, ...more };
};

test("events within the window make the label; others are counted by reason", async (t) => {
  const out = join(startDirectory(t), "table");
  const features = [
    request("in", 5000),
    request("at-the-end", 5000),
    request("after", 5000),
    request("before", 5000),
    request("none", 5000),
    request("in", 5500), // A repetition.
    request("in", 8000), // A new request, as the window of the first is over.
    request("late", 100),
    end,
  ];
  const events = [
    event("before", 4900),
    event("in", 5000),
    event("at-the-end", 6000),
    event("after", 6001),
    event("nobody", 6001),
    event("in", 5800),
    event("in", 8000),
    event("after", 8000),
    { time: 2_000_000_000 },
  ];
  const { counts } = await ingestInto(out, new MemoryStreams(features, events), law);
  const rows = await rowsOf(out);
  t.deepEqual(
    rows.map(({ request: id, sequence, label }) => [id, sequence, label]),
    [
      ["in", 1, 1],
      ["at-the-end", 2, 1],
      ["after", 3, 0],
      ["before", 4, 0],
      ["none", 5, 0],
      ["in", 7, 1],
    ],
  );
  t.deepEqual(counts, {
    ...{ rows: 6, negatives: 3, lateFeatures: 1, repeatedFeatures: 1, lateEvents: 1 },
    ...{ matchedEvents: 3, missedEvents: 1, orphanEvents: 3 },
    ...{ featuresMessages: 9, eventsMessages: 9, badMessages: 0, unknownValues: 0 },
  });
});

test("an event that was counted is not counted again when its stream is read again", async (t) => {
  const home = startDirectory(t);
  const features = [request("a", 100), request("b", 135), request("c", 140), end];
  // When the window of `b` closes, event `y` has been counted. Event `x` is still held: the next
  // process reads both again.
  const events = [event("x", 130), event("y", 112), { time: 200 }, { time: 2_000_000_000 }];
  const options = { windowMs: 10, latenessMs: 20, fileRows: 2 };
  const twice = join(home, "twice");
  const shown = { features: 2, events: 3 };
  await ingestInto(twice, new MemoryStreams(features, events, { shown }), options);
  for (const out of [twice, join(home, "once")]) {
    const { counts } = await ingestInto(out, new MemoryStreams(features, events), options);
    t.is(counts.orphanEvents, 2);
  }
  t.deepEqual(hashesOf(twice), hashesOf(join(home, "once")));
});

test("several events of a request make one label by the configured rule", async (t) => {
  const home = startDirectory(t);
  const events = [
    event("a", 300, 2, { dwell: 1.5 }),
    event("a", 250, 3),
    event("a", 290, true, { dwell: 4 }),
    { time: 2_000_000_000 },
  ];
  const expected = { max: [3, 4], sum: [6, 5.5], first: [3, 4], last: [2, 1.5] } as const;
  for (const [rule, [label, dwell]] of Object.entries(expected)) {
    const out = join(home, rule);
    const source = new MemoryStreams([request("a", 200), end], events);
    await ingestInto(out, source, { ...law, values: ["dwell"], rule: rule as "max" });
    t.like((await rowsOf(out))[0], { label, dwell }, rule);
  }
});

test("values of JSON and MessagePack keep their types, and times may be dates", async (t) => {
  const out = join(startDirectory(t), "table");
  const date = "2024-05-31T23:30:00+02:00";
  const values = { user: "ä", price: 1.5, tags: [1, 2], weights: { x: 0.5 }, id: 2n ** 60n };
  const json = '{"request":1,"time":"2024-05-31T21:30:00.5Z","id":1152921504606846976,"price":1}';
  const features = [
    encode({ request: "1152", time: date, ...values }, { useBigInt64: true }),
    json,
    { request: "x", time: date, isNew: true, id: null },
    { time: "2024-06-02" },
  ];
  await ingestInto(out, new MemoryStreams(features, [{ time: "2024-06-04" }]), {
    ...{ partition: "hour", columns: { price: "DOUBLE" } },
  });
  const [first, second] = await rowsOf(out);
  const time = Date.UTC(2024, 4, 31, 21, 30);
  t.like(first, { request: "1152", time, user: "ä", price: 1.5, tags: [1, 2] });
  t.deepEqual(first?.weights, [{ key: "x", value: 0.5 }]);
  t.like(second, { request: "1", time: time + 500, id: 2 ** 60, price: 1, user: null, tags: null });
  t.true(allFiles(out).includes("date=2024-05-31/hour=21/part-0000000000000001.parquet"));
});

test("weights by id keep their order and their digits, in JSON and in MessagePack", (t) => {
  const json =
    '{"request":1474671338756698595,"time":7,"user":9007199254740993,"w":{"10":0.5,"2":1}}';
  const weights = new Map<bigint | number, number>([
    [10, 0.5],
    [2, 1],
    [2n ** 60n, 2],
  ]);
  const ids = { request: 1474671338756698595n, time: 7, user: 9007199254740993n };
  const map = encode(ids, { useBigInt64: true });
  // A MessagePack map of four members, made by hand: the three of `ids`, then `w`, a map with
  // integer keys, which no JavaScript object can have.
  const own = [...weights].map(([id, weight]) => {
    return [encode(id, { useBigInt64: true }), encode(weight)];
  });
  const packed = Buffer.concat([
    ...[Buffer.of(0x80 + 4), map.subarray(1), encode("w"), Buffer.of(0x80 + own.length)],
    ...own.flat(),
  ]);
  const named = {
    id: "request",
    time: "time",
    timeUnit: "ms" as const,
    label: "label",
    values: [],
  };
  const read = (data: Uint8Array) => {
    const decoded = featuresIn({ data, sequence: 1, storedMs: 1000 }, named);
    return decoded.kind === "message" ? decoded.message : decoded;
  };
  const user = ["user", { form: "value", value: "9007199254740993" }];
  const pairs = [
    ["10", 0.5],
    ["2", 1],
  ];
  const id = "1474671338756698595";
  t.like(read(Buffer.from(json)), { id, features: [user, ["w", { form: "map", pairs }]] });
  const more = [...pairs, ["1152921504606846976", 2]];
  t.like(read(packed), { id, features: [user, ["w", { form: "map", pairs: more }]] });
});

test("times may be numbers in other units", async (t) => {
  const home = startDirectory(t);
  for (const [timeUnit, time] of [
    ["s", 1_717_191_000.25],
    ["us", "1717191000250999"],
  ] as const) {
    const out = join(home, timeUnit);
    const late = timeUnit === "s" ? 1_717_200_000 : "1717200000000000";
    const source = new MemoryStreams([{ request: "a", time }, { time: late }], [{ time: late }]);
    await ingestInto(out, source, { timeUnit });
    t.is((await rowsOf(out))[0]?.time, 1_717_191_000_250, timeUnit);
  }
});

test("a bad message is quarantined with its reason, and the others are unaffected", async (t) => {
  const out = join(startDirectory(t), "table");
  const features = [
    request("a", 100, { price: 1, tags: [1] }),
    "not JSON",
    new Uint8Array([0x81, 0xa1]),
    { time: 100, price: 3 },
    { request: "b", price: 3 },
    request("c", 100, { price: { deep: { er: 1 } } }),
    request("d", 100, { tags: "one" }),
    request("e", Date.UTC(2030, 0, 1)),
    request("f", 150, { price: 2 }),
    end,
  ];
  const events = [event("a", 100, "yes"), event("a", 200), { time: 2_000_000_000 }];
  const source = new MemoryStreams(features, events);
  const report = await ingestInto(out, source, { ...law, rejectedMax: 1, quarantineMax: 7 });
  const { count, kept } = report.quarantine;
  t.is(count, 8);
  t.deepEqual(
    kept.map(({ stream, sequence, reason }) => `${stream} ${sequence}: ${reason}`),
    [
      'events 1: expected `label` of an event to be a number, got `"yes"`',
      "features 2: expected an object of JSON or MessagePack, got `not JSON`",
      "features 3: expected an object of JSON or MessagePack, got `\ufffd\ufffd`",
      "features 4: expected `request` to be text or an integer, got nothing",
      "features 5: expected `time` to be a time from 1970 on, got nothing",
      'features 6: expected `price` to be a value, a list of values, or weights by id, got `{"deep":{"er":1}}`',
      "features 7: expected `tags` to have one value, a list or weights as in earlier messages",
    ],
  );
  t.deepEqual(
    (await rowsOf(out)).map(({ request: id, label }) => [id, label]),
    [
      ["a", 1],
      ["f", 0],
    ],
  );
  const strict = ingestInto(`${out}-strict`, new MemoryStreams(features, events), law);
  await t.throwsAsync(strict, {
    instanceOf: DataRejectedError,
    message:
      /share of at most 0.01 of the messages to be bad \(`rejectedMax`\), got 8 of 13: .*features, message/,
  });
});

test("the first file fixes types; a value that does not fit is bad, a new name is reported", async (t) => {
  const out = join(startDirectory(t), "table");
  const features = [
    request("a", 100, { price: 1 }),
    request("b", 200, { price: 2 }),
    request("c", 300, { price: 2.5 }),
    request("d", 400, { price: 3, colour: "red" }),
    end,
  ];
  const source = () => new MemoryStreams(features, [{ time: 2_000_000_000 }]);
  const options = { ...law, fileRows: 2, rejectedMax: 1 };
  const { quarantine, counts, unknownNames } = await ingestInto(out, source(), options);
  t.is(quarantine.kept[0]?.reason, "expected `price` to be of the type INT64");
  t.is(counts.unknownValues, 1);
  t.deepEqual(unknownNames, ["colour"]);
  t.deepEqual(
    (await rowsOf(out)).map(({ price }) => price),
    [1, 2, 3],
  );
  await ingestInto(`${out}-2`, source(), { ...options, columns: { price: "DOUBLE" } });
  t.is((await rowsOf(`${out}-2`)).length, 4);
});

test("the footer of a file names the messages that it was made from", async (t) => {
  const out = join(startDirectory(t), "table");
  const features = [request("a", 100), request("b", 200), request("c", 300), end];
  const source = new MemoryStreams(features, [event("a", 150), { time: 2_000_000_000 }]);
  await ingestInto(out, source, { ...law, fileRows: 2 });
  const bytes = readFileSync(join(out, "date=1970-01-01/part-0000000000000001.parquet"));
  const { key_value_metadata } = parquetMetadata(new Uint8Array(bytes).buffer);
  const stretch = {
    features: { stream: "features", first: 1, last: 2 },
    events: { stream: "events", last: 2 },
  };
  t.deepEqual(key_value_metadata, [{ key: "osiris.ingest", value: JSON.stringify(stretch) }]);
});

test("a window that exceeds its memory is an error, and no message is lost", async (t) => {
  const out = join(startDirectory(t), "table");
  const features = Array.from({ length: 50 }, (_, i) => request(`r${i}`, 100 + i));
  const source = () => new MemoryStreams([...features, end], [{ time: 2_000_000_000 }]);
  await t.throwsAsync(ingestInto(out, source(), { ...law, stateBytes: 2000, fileRows: 5 }), {
    instanceOf: WindowFullError,
    message: /its limit of 2000 bytes: it has 13 requests and 0 events; raise `stateBytes`/,
  });
  await ingestInto(out, source(), { ...law, fileRows: 5 });
  t.is((await rowsOf(out)).length, 50);
});

test("a directory belongs to its streams and options, and to one process at a time", async (t) => {
  const home = startDirectory(t);
  const out = join(home, "table");
  const source = () => new MemoryStreams([request("a", 100), end], [{ time: 2_000_000_000 }]);
  await ingestInto(out, source(), law);
  const before = hashesOf(out);
  await t.throwsAsync(ingestInto(out, source(), { ...law, windowMs: 7 }), {
    instanceOf: IngestForeignError,
    message: /it was ingested with `windowMs` 1000, not 7; name another directory/,
  });
  const other = join(out, ".ingesting-00000000-1-2-0");
  writeFileSync(other, "");
  await t.throwsAsync(ingestInto(out, source(), law), {
    code: "INPUT_UNUSABLE",
    message: /another process ingests into it, or just did; try again in 60 s/,
  });
  // A process whose lock is not renewed for so long counts as ended, on any machine.
  const longAgo = new Date(realDisk.modifiedMs(other) - 61_000);
  utimesSync(other, longAgo, longAgo);
  await ingestInto(out, source(), law);
  t.deepEqual(hashesOf(out), before);
  // A process that reads renews its lock.
  const clock = new SimulatedClock();
  const locks = () => allFiles(out).filter((name) => name.startsWith(".ingesting-"));
  const saying = new MemoryStreams([request("a", 100), end], [{ time: 2_000_000_000 }], {
    onRead() {
      const [own = ""] = locks();
      utimesSync(join(out, own), longAgo, longAgo);
      clock.advance(10_000);
      t.true(realDisk.modifiedMs(join(out, own)) > longAgo.getTime());
    },
  });
  await ingestInto(out, saying, law, { clock });
  t.deepEqual(locks(), []);
  const taken = new MemoryStreams([request("a", 100), end], [{ time: 2_000_000_000 }], {
    onRead() {
      for (const name of readdirSync(`${out}-2`)) realDisk.remove(join(`${out}-2`, name));
    },
  });
  await t.throwsAsync(ingestInto(`${out}-2`, taken, law), {
    instanceOf: IngestForeignError,
    message: /another process has taken it over/,
  });
  realDisk.makeDirectory(join(home, "taken"));
  writeFileSync(join(home, "taken", "a.csv"), "");
  await t.throwsAsync(ingestInto(join(home, "taken"), source(), law), {
    instanceOf: IngestForeignError,
    message: /it has a\.csv, and no _ingest\.json/,
  });
  // A position file with a valid hash whose paths lead out of the table is damaged.
  const text = readFileSync(join(out, "_ingest.json"), "utf8");
  const { sha256: _, ...position } = JSON.parse(text);
  for (const path of ["../other.parquet", "/etc/passwd", "day/../../x", ""]) {
    const { text: changed } = seal({ ...position, files: [{ path, rows: 1, bytes: 1 }] });
    writeFileSync(join(out, "_ingest.json"), changed);
    await t.throwsAsync(ingestInto(out, source(), law), { message: /_ingest\.json is damaged/ });
  }
  writeFileSync(join(out, "_ingest.json"), seal({ ...position, version: 2 }).text);
  await t.throwsAsync(ingestInto(out, source(), law), {
    code: "INPUT_UNUSABLE",
    message: /Expected version 1 in .*_ingest\.json, got 2; use the Osiris that wrote it/,
  });
  writeFileSync(join(out, "_ingest.json"), "{}");
  await t.throwsAsync(ingestInto(out, source(), law), {
    code: "INPUT_UNUSABLE",
    message: /its _ingest\.json is damaged/,
  });
});

test("a compaction skips the open file, and the ingestion continues", async (t) => {
  const out = join(startDirectory(t), "table");
  const features = Array.from({ length: 50 }, (_, i) => request(`r${i}`, 100 + i));
  const options = { ...law, fileRows: 8 };
  const events = [{ time: 2_000_000_000 }];
  const shown = { features: 30, events: 1 };
  await ingestInto(out, new MemoryStreams(features, events, { shown }), options);
  t.is(allFiles(out).filter((name) => name.endsWith(".open.parquet")).length, 1);
  const { partitions } = await compactWarehouse(out);
  t.is(partitions[0]?.filesBefore, 3);
  await ingestInto(out, new MemoryStreams(features, events), options);
  t.deepEqual(
    (await rowsOf(out)).map(({ sequence }) => sequence),
    Array.from({ length: 50 }, (_, i) => i + 1),
  );
});

test("options are checked before the first message is requested", async (t) => {
  const out = join(startDirectory(t), "table");
  const source = () => new MemoryStreams([], []);
  await t.throwsAsync(ingestInto(out, source(), { events: "features" }), {
    instanceOf: InvalidOptionError,
    message: /Expected `events` to be another stream than `features`/,
  });
  await t.throwsAsync(ingestInto(out, source(), { values: ["label"] }), {
    message: /to be the names of different columns .*got `label`/,
  });
  await t.throwsAsync(ingestInto(out, source(), { columns: { label: "INT64" } }), {
    message: /Expected `columns` to be types of features, and no others/,
  });
  await t.throwsAsync(ingestInto(out, source(), { windowMs: 0 }), { code: "INVALID_OPTION" });
  t.false(realDisk.exists(out));
});
