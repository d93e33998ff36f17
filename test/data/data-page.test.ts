// Statements of docs/data.md that no other test covers.

import { dirname, join } from "node:path";
import test from "ava";
import { murmurHash3 } from "../../src/data/murmur-hash.ts";
import { csv } from "../../src/data/sources.ts";
import { listTree, textOf } from "../helpers/tree.ts";
import { openCached, prepare, readPlain, startDirectory, writeText } from "./data-files.ts";

const page = textOf("docs/data.md");

test("the error quoted in docs/data.md is the one that such a file gets", async (t) => {
  const directory = startDirectory(t);
  const lines = Array.from(
    { length: 10_000 },
    (_, i) => `${i % 2 === 1 && i < 9980 ? 2 : i % 4 === 0 ? 1 : 0},7`,
  );
  const path = writeText(directory, { name: "clicks.csv", text: `y,x\n${lines.join("\n")}\n` });
  const cache = join(directory, "cache");
  const error = await t.throwsAsync(
    prepare(csv(path, { label: "y", dense: ["x"], batchSize: 1, cache }), []),
  );
  const shown = (error?.message ?? "").replaceAll(`${dirname(path)}/`, "");
  const [, block = ""] = /```\n(Expected at most[^`]*(?:`[^`]+`[^`]*)*?)\n```/.exec(page) ?? [];
  t.is(block.replaceAll("\n", " "), shown);
});

test("docs/data.md and docs/jobs.md list every warning about data", (t) => {
  // Without other threads and the watch of links, whose warnings are about links and clocks.
  const rooms = /^(src\/data|actors\/threads\/(data|preprocessing)|actors\/run\/state)\/.*\.ts$/;
  const codes = listTree()
    .filter((path) => rooms.test(path) && !path.endsWith("/link-watch.ts"))
    .flatMap((path) => {
      return [...textOf(path).matchAll(/(?:code: |oneClass = )"([A-Z_]{8,})"/g)].map(
        ([, code = ""]) => code,
      );
    });
  const listed = `${page}${textOf("docs/jobs.md")}`;
  t.true(codes.length >= 5, `${codes}`);
  t.deepEqual(
    codes.filter((code) => !listed.includes(`\`${code}\``)),
    [],
  );
});

test("text is hashed as docs/data.md says, capitals and spaces included", async (t) => {
  const directory = startDirectory(t);
  const texts = ["Red", "red", " red"];
  const path = writeText(directory, {
    name: "a.csv",
    text: `y,first,color\n${texts.map((text) => `1,x,${text}`).join("\n")}\n`,
  });
  const cache = join(directory, "cache");
  const options = { label: "y", categorical: ["first", "color"], batchSize: 1, cache };
  const tables = ["first", "color"].map((name) => ({ name, rows: 1000 }));
  const dataset = openCached(t, (await prepare(csv(path, options), tables)).path);
  const rows = readPlain(dataset).map(({ bags }) => bags[1]?.[0]);
  t.deepEqual(
    rows,
    texts.map((text) => 1 + (murmurHash3(text, 1) % 999)),
  );
  t.is(new Set(rows).size, 3);
});

test("a quoted line break belongs to its field; files may differ in header order", async (t) => {
  const directory = startDirectory(t);
  const first = writeText(directory, { name: "a", text: '\ufeffy,x\r\n1,"5"\r\n\r\n0,"6\n7"\n' });
  const second = writeText(directory, { name: "b", text: "x,y\n8,0", gzip: true });
  const cache = join(directory, "cache");
  const options = { label: "y", dense: ["x"], batchSize: 1, rejectedMax: 1, cache };
  const report = await prepare(csv([first, second], options), []);
  const dataset = openCached(t, report.path);
  t.deepEqual(
    readPlain(dataset).map(({ label, dense }) => [label, dense[0]]),
    [
      [1, 5],
      [0, 8],
    ],
  );
  t.deepEqual(
    report.quarantine.kept.map(({ line, reason }) => [line, reason]),
    [[4, "expected `x` to be a number, got `6\n7`"]],
  );
});
