// CSV with line breaks inside quoted fields, and with unclosed quotes.

import { join } from "node:path";
import test from "ava";
import { parse } from "csv-parse/sync";
import { murmurHash3 } from "../../../src/data/murmur-hash.ts";
import { csv } from "../../../src/data/sources.ts";
import { splitLine } from "../../../src/data/text/line-decoder.ts";
import { lineBytesMax, readLines } from "../../../src/data/text/text-lines.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { openCached, prepare, readPlain, startDirectory, writeText } from "../data-files.ts";

const hashed = (text: string, feature: number, rows: number) =>
  1 + (murmurHash3(text, feature) % (rows - 1));

/** A field in the form of RFC 4180 (2, rules 5 to 7). */
const quoted = (field: string) =>
  /[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;

test("a quoted field may hold line breaks, also across chunks, as in RFC 4180", async (t) => {
  const directory = startDirectory(t);
  const pieces = ["", "a", "b c", "\n", "\r\n", '"', ",", "x".repeat(300), "\n\n"];
  const random = new RandomStream(15, 1);
  const field = () =>
    Array.from({ length: random.below(4) }, () => pieces[random.below(pieces.length)]).join("");
  // Each field begins with a letter, so that no record is blank or ends in a carriage return.
  const records = Array.from({ length: 12_000 }, () =>
    Array.from({ length: 3 }, () => `f${field()}${random.below(2) === 0 ? "" : "e"}`),
  );
  for (const [gzip, end] of [
    [false, "\n"],
    [true, "\r\n"],
  ] as const) {
    const lines = records.map((record) => record.map(quoted).join(","));
    const path = writeText(directory, { name: "a.csv", text: lines.join(end), gzip });
    const found: (readonly string[] | string)[] = [];
    let line = 1;
    for await (const chunk of readLines(path, ",")) {
      t.is(chunk.firstLine, found.length + 1);
      for (const [i, text = ""] of chunk.lines.entries()) {
        if (chunk.lineOf(i) !== line) t.is(chunk.lineOf(i), line, text);
        line += text.split("\n").length;
        found.push(splitLine(text, ",", true));
      }
    }
    t.is(found.length, records.length);
    const wrong = found.findIndex((fields, i) => String(fields) !== String(records[i]));
    t.is(wrong, -1, JSON.stringify([found[wrong], records[wrong]]));
  }
});

test("a line is split as csv-parse splits it, or refused where csv-parse refuses it", (t) => {
  const random = new RandomStream(16, 1);
  const pieces = ["a", '"', '""', ",", " ", "é", "\n"];
  let [good, bad] = [0, 0];
  for (let round = 0; round < 20_000; round++) {
    const drawn = Array.from({ length: 1 + random.below(9) }, () => {
      const piece = pieces[random.below(pieces.length)] ?? "";
      return random.below(3) === 0 ? quoted(piece) : piece;
    });
    const line = drawn.join("");
    // A line break outside of quotes ends the record.
    if (!line.includes('"') || endsBefore(line)) continue;
    let wanted: string[] | undefined;
    try {
      [wanted] = parse(line, { relax_column_count: true, record_delimiter: "\n" }) as string[][];
    } catch {
      wanted = undefined; // The line is refused.
    }
    const fields = splitLine(line, ",", true);
    if (typeof fields === "string") bad++;
    else good++;
    const found = typeof fields === "string" ? undefined : fields;
    const isSame = JSON.stringify(found) === JSON.stringify(wanted);
    if (!isSame) t.deepEqual(found, wanted, JSON.stringify(line));
  }
  t.true(good > 1000 && bad > 1000, `${good} good, ${bad} bad`);
});

/** Whether a line break lies outside of quotes, so that readers would give several lines. */
function endsBefore(line: string): boolean {
  return line.split('"').some((part, i) => i % 2 === 0 && part.includes("\n"));
}

test("an unclosed quote costs its own line only; a quote within a field is text", async (t) => {
  const directory = startDirectory(t);
  const long = `"${"x".repeat(lineBytesMax)}`;
  // As in Python's csv module, only a quote at the beginning opens a field.
  for (const [text, expected] of [
    ['a,"b\nc,d\ne,f', ['a,"b', "c,d", "e,f"]],
    ['a,"b\nc,"d"\ne,f', ['a,"b', 'c,"d"', "e,f"]],
    ['a,5" disk\nc,d', ['a,5" disk', "c,d"]],
    ['a,"b\nc"x,d\n', ['a,"b', 'c"x,d']],
    ['"a\nb",c\n"d ""e""\n",f', ['"a\nb",c', '"d ""e""\n",f']],
    ['a,"\n"', ['a,"\n"']],
    [`${long}\nc,d\n`, [undefined, "c,d"]],
  ] as const) {
    const path = writeText(directory, { name: "a.csv", text });
    const lines: (string | undefined)[] = [];
    for await (const chunk of readLines(path, ",")) lines.push(...chunk.lines);
    t.deepEqual(lines, [...expected], text.slice(0, 40));
  }
});

test("ids and bad lines of CSV with quoted line breaks are those of its records", async (t) => {
  const directory = startDirectory(t);
  const text = 'label,title,price\n1,"two\nlines",3\n0,plain,4\nx,"a\n\nb",5\n0,,oops\n1,plain,6\n';
  const path = writeText(directory, { name: "a.csv", text });
  const columns = { label: "label", dense: ["price"], categorical: ["title"] };
  const options = csv(path, {
    ...columns,
    batchSize: 1,
    rejectedMax: 1,
    cache: join(directory, "c"),
  });
  const report = await prepare(options, [{ name: "title", rows: 1000 }]);
  t.deepEqual(
    report.quarantine.kept.map(({ line }) => line),
    [5, 8],
  );
  const dataset = openCached(t, report.path);
  const seed = 0;
  const [first, second, third] = readPlain(dataset);
  t.deepEqual(
    [first?.bags[0], second?.bags[0]],
    [[hashed("two\nlines", seed, 1000)], [hashed("plain", seed, 1000)]],
  );
  t.is(third?.label, 1);
});
