// Data from text files: lines, Criteo and CSV.

import { join } from "node:path";
import { gzipSync } from "node:zlib";
import test from "ava";
import { murmurHash3 } from "../../src/data/murmur-hash.ts";
import { criteo, csv } from "../../src/data/sources.ts";
import { labelReader } from "../../src/data/text/labels.ts";
import { decimal } from "../../src/data/text/line-decoder.ts";
import { lineBytesMax, readLines, unreadable } from "../../src/data/text/text-lines.ts";
import { InputUnusableError, InvalidOptionError } from "../../src/errors/errors.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { sameValues } from "../helpers/same-values.ts";
import { openCached, prepare, readPlain, startDirectory, writeText } from "./data-files.ts";

const bytesOf = (text: string) => Buffer.from(text, "utf8").toString("latin1");
const hashed = (text: string, feature: number, rows: number) =>
  1 + (murmurHash3(bytesOf(text), feature) % (rows - 1));

function criteoLine(change: Record<number, string> = {}): string {
  const fields = ["1", ...Array.from({ length: 13 }, (_, i) => String(i))];
  for (let i = 0; i < 26; i++) fields.push(`abc${i}`);
  for (const [index, value] of Object.entries(change)) fields[Number(index)] = value;
  return fields.join("\t");
}

test("lines have their numbers, whatever their line ending", async (t) => {
  const directory = startDirectory(t);
  const text = "\ufeffone\r\n\r\ntwo\nthree";
  const path = writeText(directory, { name: "a.txt", text });
  const seen: [number, string | undefined][] = [];
  for await (const { firstLine, lines } of readLines(path)) {
    for (const [index, line] of lines.entries()) seen.push([firstLine + index, line]);
  }
  t.deepEqual(seen, [
    [1, "one"],
    [2, ""],
    [3, "two"],
    [4, "three"],
  ]);
});

test("another compression, or wide characters, are refused with the remedy", async (t) => {
  const directory = startDirectory(t);
  const linesOf = async (name: string, bytes: Buffer) => {
    const path = writeText(directory, { name, text: bytes });
    for await (const _ of readLines(path));
  };
  const hex = (text: string) => Buffer.from(text, "hex");
  const utf16 = Buffer.from("label,user\n1,2\n", "utf16le");
  const wider =
    /Cannot read the data file .*: it is text in UTF-32, or in UTF-16 without a byte order mark: convert it to UTF-8$/;
  const packed = (name: string) =>
    new RegExp(
      `it is packed with ${name}, and text is read plain or packed with gzip or zstd: pack it so$`,
    );
  // The first bytes that bzip2, xz, lz4 and zip write for such a file.
  const files: [string, Buffer, RegExp][] = [
    ["a.csv.bz2", hex("425a6839314159265359"), packed("bzip2")],
    ["a.csv.xz", hex("fd377a585a000004e6d6b446"), packed("xz")],
    ["a.csv.lz4", hex("04224d186440a7"), packed("lz4")],
    ["a.zip", hex("504b030414000000"), packed("zip")],
    ["twice.gz", gzipSync(gzipSync("a,b\n1,2\n")), packed("gzip")],
    ["of32.csv", hex("fffe00006c000000610000000a000000"), wider],
    ["plain.csv", utf16, wider],
    ["packed.csv.gz", gzipSync(utf16), wider],
  ];
  for (const [name, bytes, message] of files) {
    await t.throwsAsync(linesOf(name, bytes), { instanceOf: InputUnusableError, message }, name);
  }
  await t.notThrowsAsync(linesOf("short", Buffer.from("a\n")));
  await t.notThrowsAsync(linesOf("latin.csv", Buffer.from("B\u00e9,Zh\n", "latin1")));
});

test("text that only JavaScript reads as a number is not a number", (t) => {
  // As in DuckDB and pandas.
  for (const text of ["0x10", " 0X1f", "0b11", "0o17", "", " ", "1_000", "Infinity", "NaN"]) {
    t.is(decimal(text), undefined, text);
  }
  t.deepEqual(["010", "0", " -0.5e1 ", "+7", ".5", "5."].map(decimal), [10, 0, -5, 7, 0.5, 5]);
});

test("a label beyond 2^53 is positive if all its digits are those of the job", (t) => {
  const read = labelReader("9007199254740993");
  t.deepEqual(
    ["9007199254740993", "9007199254740993.0", "9007199254740992", "1", "9.007199254740993e15"].map(
      read,
    ),
    [1, 1, 0, 0, 1],
  );
  t.deepEqual(["1.0", "1.000000000000000", "01", "2", "1e0"].map(labelReader(1)), [1, 1, 1, 0, 1]);
});

test("a file larger than a chunk gives the same lines, plain and gzip", async (t) => {
  const directory = startDirectory(t);
  const expected = Array.from({ length: 60_000 }, (_, i) => `line ${i} ${"x".repeat(i % 37)}`);
  for (const gzip of [false, true]) {
    const path = writeText(directory, { name: "a.bin", text: `${expected.join("\n")}\n`, gzip });
    const lines: (string | undefined)[] = [];
    for await (const chunk of readLines(path)) {
      t.is(chunk.firstLine, lines.length + 1);
      lines.push(...chunk.lines);
    }
    t.true(lines.length === expected.length && lines.every((line, i) => line === expected[i]));
  }
});

test("a Criteo line becomes logarithms and hashed rows; missing fields are 0", async (t) => {
  const directory = startDirectory(t);
  const text = `${criteoLine({ 1: "-3", 2: "", 14: "", 15: "68fd1e64" })}\n`;
  const path = writeText(directory, { name: "a.tsv", text });
  const options = criteo.tsv(path, { batchSize: 1, cache: join(directory, "cache") });
  const report = await prepare(options, criteo.tables({ dim: 4, rows: 500 }));
  const dataset = openCached(t, report.path);
  const [sample] = readPlain(dataset);
  t.is(sample?.label, 1);
  const dense = [0, 0, ...Array.from({ length: 11 }, (_, i) => Math.fround(Math.log(3 + i)))];
  for (const [i, value] of dense.entries()) {
    t.true(Math.abs((sample?.dense[i] ?? NaN) - value) < 1e-6, `I${i + 1}`);
  }
  t.deepEqual(sample?.bags[0], [0]);
  t.deepEqual(sample?.bags[1], [hashed("68fd1e64", 1, 500)]);
  t.deepEqual(sample?.bags[25], [hashed("abc25", 25, 500)]);
});

test("a CSV column feeds the table of its name, in the order of the tables", async (t) => {
  const directory = startDirectory(t);
  const text = [
    "genre,extra,user,price,label,age",
    "rock|jazz|,?,Zoë,3.5,1,20",
    '"a,b",?,"say ""hi""",,0,-1e1',
    "",
    ",?,,2,1,0",
  ].join("\n");
  const path = writeText(directory, { name: "a.csv", text, gzip: true });
  const options = csv(path, {
    label: "label",
    dense: ["age", { column: "price", log: true }],
    categorical: [{ column: "genre", table: "genres", separator: "|" }, "user"],
    batchSize: 1,
    cache: join(directory, "cache"),
  });
  const tables = [
    { name: "user", rows: 100 },
    { name: "genres", rows: 50 },
  ];
  const report = await prepare(options, tables);
  t.like(report, { samples: 3, positives: 2, dense: 2, features: 2, idsMax: [1, 2] });
  t.is(report.quarantine.count, 0);
  const dataset = openCached(t, report.path);
  sameValues(t, readPlain(dataset), [
    {
      label: 1,
      dense: [20, Math.fround(Math.log1p(3.5))],
      bags: [[hashed("Zoë", 0, 100)], [hashed("rock", 1, 50), hashed("jazz", 1, 50)]],
    },
    {
      label: 0,
      dense: [-10, 0],
      bags: [[hashed('say "hi"', 0, 100)], [hashed("a,b", 1, 50)]],
    },
    { label: 1, dense: [0, Math.fround(Math.log1p(2))], bags: [[0], []] },
  ]);
});

test("integer ids are rows minus the offset; each of several files has a header", async (t) => {
  const directory = startDirectory(t);
  const first = writeText(directory, { name: "a.csv", text: "y;item\n1;957\n0;1000 1001\n0;\n" });
  const second = writeText(directory, { name: "b.csv", text: "item;y\n958;1\n" });
  const item = { column: "item", ids: "integer" as const, offset: 957, separator: " " };
  const options = csv([first, second], {
    label: "y",
    categorical: [item],
    delimiter: ";",
    batchSize: 1,
    cache: join(directory, "cache"),
  });
  const report = await prepare(options, [{ name: "item", rows: 45 }]);
  const dataset = openCached(t, report.path);
  t.deepEqual(
    readPlain(dataset).map(({ bags }) => bags[0]),
    [[0], [43, 44], [], [1]],
  );
});

test("every kind of bad line is counted with its position, and affects no other line", async (t) => {
  const directory = startDirectory(t);
  const lines = [
    criteoLine(),
    "1\t2",
    criteoLine({ 0: "2" }),
    criteoLine({ 3: "1.5" }),
    criteoLine({ 0: "x".repeat(2 * lineBytesMax) }),
    criteoLine({ 39: '"quotes" are text' }),
    criteoLine({ 13: "99999999999999999999" }),
  ];
  const path = writeText(directory, { name: "a.tsv", text: lines.join("\n") });
  const tables = criteo.tables({ dim: 4 });
  const cache = join(directory, "cache");
  const options = { batchSize: 1, cache, rejectedMax: 1 };
  const report = await prepare(criteo.tsv(path, options), tables);
  t.is(report.samples, 2);
  t.like(report.quarantine, {
    count: 5,
    kept: [
      { file: path, line: 2, reason: "expected 40 fields, got 2" },
      { file: path, line: 3, reason: "expected the label to be 0 or 1, got `2`" },
      { file: path, line: 4, reason: "expected `I3` to be an integer, got `1.5`" },
      { file: path, line: 5, reason: `longer than ${lineBytesMax} bytes` },
      {
        file: path,
        line: 7,
        reason: "expected `I13` to be an integer, got `99999999999999999999`",
      },
    ],
  });
  const few = await prepare(criteo.tsv(path, { ...options, quarantineMax: 2 }), tables);
  t.is(few.quarantine.count, 5);
  t.is(few.quarantine.kept.length, 2);
  t.is(few.digest, report.digest);
});

test("errors of a CSV line name the columns of bad fields", async (t) => {
  const directory = startDirectory(t);
  const rows = [
    "1,2,5",
    "1,abc,5",
    "0,1,6",
    "0,1,-1",
    "0,1,1e0",
    '0,"1,5',
    "0,Infinity,5",
    "0, ,5",
  ];
  const path = writeText(directory, { name: "a.csv", text: `y,price,item\n${rows.join("\n")}\n` });
  const options = csv(path, {
    label: "y",
    dense: ["price"],
    categorical: [{ column: "item", ids: "integer", offset: 1 }],
    batchSize: 1,
    rejectedMax: 1,
    cache: join(directory, "cache"),
  });
  const report = await prepare(options, [{ name: "item", rows: 5 }]);
  t.is(report.samples, 1);
  t.deepEqual(
    report.quarantine.kept.map(({ line, reason }) => `${line}: ${reason}`),
    [
      "3: expected `price` to be a number, got `abc`",
      "4: expected `item` to lie in 1..5, got `6`",
      "5: expected `item` to lie in 1..5, got `-1`",
      "6: expected `item` to be an integer, got `1e0`",
      "7: a quoted field is not closed, or has text around its quotes",
      "8: expected `price` to be a number, got `Infinity`",
      "9: expected `price` to be a number, got ` `",
    ],
  );
});

test("an unreadable file is named", async (t) => {
  const directory = startDirectory(t);
  const cache = join(directory, "cache");
  const tables = criteo.tables({ dim: 4 });
  const unusable = (path: string, message: RegExp) =>
    t.throwsAsync(prepare(criteo.tsv(path, { batchSize: 1, cache }), tables), {
      instanceOf: InputUnusableError,
      message,
    });
  await unusable(join(directory, "absent.tsv"), /Cannot read the data file .*absent\.tsv: ENOENT/);
  await unusable(directory, /Cannot read the data file .*: EISDIR/);
  const bad = writeText(directory, { name: "bad.tsv", text: "1\t2\n" });
  await unusable(bad, /bad\.tsv has no good line, and 1 bad ones; .*line 1: expected 40 fields/);
  const whole = writeText(directory, { name: "cut.gz", text: `${criteoLine()}\n`, gzip: true });
  const { readFileSync, writeFileSync } = await import("node:fs");
  writeFileSync(whole, readFileSync(whole).subarray(0, 60));
  await unusable(whole, /Cannot read the data file .*cut\.gz: unexpected end of file/);
  t.deepEqual(realDisk.list(cache), []);
});

test("an empty CSV file, and a missing column, are refused in one sentence", async (t) => {
  const directory = startDirectory(t);
  const cache = join(directory, "cache");
  const empty = writeText(directory, { name: "empty.csv", text: "" });
  const short = writeText(directory, { name: "short.csv", text: "label,user\n1,2\n" });
  const section = (path: string, label: string, column: string) =>
    prepare(csv(path, { label, categorical: [{ column, table: "t" }], batchSize: 1, cache }), [
      { name: "t", rows: 9 },
    ]);
  await t.throwsAsync(section(empty, "label", "user"), {
    instanceOf: InputUnusableError,
    message: /empty\.csv is empty/,
  });
  await t.throwsAsync(section(short, "clicked", "user"), {
    instanceOf: InvalidOptionError,
    message: /`data\.label` names the column `clicked`, .*short\.csv .* it has `label`, `user`$/,
  });
  await t.throwsAsync(section(short, "label", "item"), {
    instanceOf: InvalidOptionError,
    message: /`data\.categorical\[0\]` names the column `item`/,
  });
});

test("tables and columns that do not match are refused before any file is read", async (t) => {
  const refused = (categorical: (string | { column: string; table: string })[], names: string[]) =>
    prepare(
      csv("absent.csv", { label: "y", categorical, batchSize: 1 }),
      names.map((name) => ({ name, rows: 10 })),
    );
  await t.throwsAsync(refused(["user"], ["user", "item"]), {
    instanceOf: InvalidOptionError,
    message: /Table `item` has no column in the data: .*; the columns feed `user`$/,
  });
  await t.throwsAsync(refused(["user", "item"], ["user"]), {
    instanceOf: InvalidOptionError,
    message: /Column `item` has no table `item` in the model: .*; the tables are `user`$/,
  });
  await t.throwsAsync(refused(["a", { column: "b", table: "a" }], ["a"]), {
    instanceOf: InvalidOptionError,
    message: /Two columns feed the table `a`: name another one for `b`/,
  });
  const one = csv("absent.csv", { label: "y", categorical: ["a"], batchSize: 1 });
  await t.throwsAsync(prepare(one, [{ name: "a", rows: 1 }]), {
    instanceOf: InvalidOptionError,
    message: "Expected `model.tables[0].rows` to be at least 2 for hashed ids, got `1` (number)",
  });
});

test("running out of file descriptors is an error that names the limit to raise", (t) => {
  const cause = Object.assign(new Error("EMFILE: too many open files"), { code: "EMFILE" });
  const { message } = unreadable("/data/a.csv", cause);
  t.regex(
    message,
    /^Cannot read the data file \/data\/a\.csv: EMFILE.*raise the limit \(`ulimit -n`\)$/,
  );
});
