// Arrow files without a cache, in partitions, and with damage that a job allows: as for Parquet.

import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { openIndex } from "../../../src/data/arrow/messages.ts";
import { holdAt } from "../../../src/data/cache/pieces.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { contentsOf, haveSameSamples } from "../../../src/data/contents.ts";
import { tableFilesOf } from "../../../src/data/files.ts";
import { openSamples } from "../../../src/data/open-samples.ts";
import { openRanges } from "../../../src/data/tables/byte-ranges.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { sameValues } from "../../helpers/same-values.ts";
import { readPlain, startDirectory } from "../data-files.ts";
import { clicksAs, clickTables as tables } from "../parquet/click-columns.ts";
import { fixtures } from "./arrow-files.ts";

/** Writes two partitions, one as an Arrow file, one as a stream. */
function partitions(t: ExecutionContext): { readonly home: string; readonly paths: string[] } {
  const home = startDirectory(t);
  for (const [day, name] of [
    ["2026-11-01", "clicks.arrow"],
    ["2026-11-02", "clicks.arrows"],
  ] as const) {
    mkdirSync(join(home, "clicks", `date=${day}`), { recursive: true });
    copyFileSync(join(fixtures, name), join(home, "clicks", `date=${day}`, name));
  }
  return { home, paths: tableFilesOf([join(home, "clicks")]) };
}

async function open(options: ReturnType<typeof clicksAs>) {
  const report = await prepareCache(options, tables, realDisk);
  return { report, dataset: await openSamples(report.path, realDisk, { options, tables }) };
}

const placesFrom = (first: number, count: number) =>
  Array.from({ length: count }, (_, i) => first + i);

test("samples without a cache equal those of the cache, piece by piece", async (t) => {
  const { home, paths } = partitions(t);
  t.is(paths.length, 2);
  const cached = await open(clicksAs("arrow", { paths, cache: home }));
  const streamed = await open(clicksAs("arrow", { paths, cache: home, streamed: true }));
  const [then, now] = [cached, streamed].map(({ report }) => contentsOf(report));
  t.true(then !== undefined && now !== undefined && haveSameSamples(then, now));
  const { samples, pieces } = streamed.dataset;
  t.is(pieces?.length, 7); // Three record batches per file.
  for (let first = 0; first < samples; first += 50) {
    const count = Math.min(50, samples - first);
    await holdAt(streamed.dataset, first, count);
    const places = placesFrom(first, count);
    sameValues(t, readPlain(streamed.dataset, places), readPlain(cached.dataset, places));
  }
  cached.dataset.close();
  streamed.dataset.close();
});

test("a file that changed since its index was made gives one error", async (t) => {
  const { home, paths } = partitions(t);
  const options = clicksAs("arrow", { paths, cache: home, streamed: true });
  const { dataset } = await open(options);
  t.teardown(() => dataset.close());
  const [path = ""] = paths;
  writeFileSync(path, readFileSync(join(fixtures, "clicks.arrows")));
  await t.throwsAsync(async () => holdAt(dataset, 0, 50), {
    instanceOf: InputUnusableError,
    message:
      /^The Arrow file .*clicks\.arrow has changed since its index was made: it has \d+ bytes/,
  });
});

test("only the rows of wanted partitions are samples", async (t) => {
  const { home, paths } = partitions(t);
  const where = [{ column: "date", equals: "2026-11-02" }];
  const [some, all] = [
    await prepareCache(clicksAs("arrow", { paths, where, cache: home }), tables, realDisk),
    await prepareCache(clicksAs("arrow", { paths, cache: home }), tables, realDisk),
  ];
  t.is(2 * some.samples, all.samples);
});

test("damaged record batches may be left out, but one beyond the limit ends the run", async (t) => {
  const { home, paths } = partitions(t);
  const path = paths[1] ?? "";
  const file = await openRanges(path);
  const { block } = (await openIndex(file)).batches[1] ?? { block: undefined };
  await file.close();
  if (block === undefined) throw new Error("a record batch");
  const bytes = readFileSync(path);
  const body = block.start + block.metadataBytes;
  bytes.fill(0xee, body, body + block.bodyBytes);
  writeFileSync(path, bytes);
  const prepare = (rest: object) => {
    const options = clicksAs("arrow", { paths, cache: home, rejectedMax: 0.9, ...rest });
    return prepareCache(options, tables, realDisk);
  };
  const place = /clicks\.arrows, record batch 1, column `\w+`: a buffer/;
  await t.throwsAsync(prepare({}), { instanceOf: InputUnusableError, message: place });
  const { quarantine } = await prepare({ damagedMax: 1 });
  t.like(
    quarantine.kept.find(({ reason }) => reason.includes("expected a record batch")),
    { line: 151, recordBatch: 1, file: path },
  );
  writeFileSync(paths[0] ?? "", "no Arrow at all");
  await t.throwsAsync(prepare({ damagedMax: 1 }), {
    instanceOf: InputUnusableError,
    message:
      /^Expected at most 1 damaged record batches and files \(`damagedMax`\), and found another one/,
  });
});
