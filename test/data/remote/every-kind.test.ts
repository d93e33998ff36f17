// Data of every kind on web servers and object stores: they have the samples of the same files on a
// disk; and how text is read where the server or the file misbehaves.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import test from "ava";
import { holdAt } from "../../../src/data/cache/pieces.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { contentsOf } from "../../../src/data/contents.ts";
import { isTable } from "../../../src/data/data-kinds.ts";
import { lookAtFiles } from "../../../src/data/file-samples.ts";
import { openSamples } from "../../../src/data/open-samples.ts";
import { dataOptions, type ResolvedDataOptions } from "../../../src/data/options.ts";
import { openWebFile, type WebFile } from "../../../src/data/remote/web-ranges.ts";
import { streamOf } from "../../../src/data/remote/web-stream.ts";
import { criteo, csv } from "../../../src/data/sources.ts";
import { readByteLines } from "../../../src/data/text/text-lines.ts";
import { InputUnusableError, StoreFailedError } from "../../../src/errors/errors.ts";
import { namedFiles } from "../../../src/job/job-files.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { packOf } from "../../../storage/disk/packing.ts";
import { sameValues } from "../../helpers/same-values.ts";
import { someOrAll } from "../../helpers/thinned.ts";
import { until } from "../../helpers/until.ts";
import { fixtures as arrowFixtures } from "../arrow/arrow-files.ts";
import { readPlain, startDirectory } from "../data-files.ts";
import { writeLines } from "../json/click-lines.ts";
import { clicksAs, clickTables } from "../parquet/click-columns.ts";
import { fixtures } from "../parquet/parquet-files.ts";
import { quick, startPlace, transports } from "./places.ts";
import { startWebServer } from "./web-server.ts";

const criteoTables = criteo.tables({ dim: 4, rows: 100 });
const criteoLines = Array.from({ length: 300 }, (_, line) => {
  const fields = Array.from({ length: 39 }, (_, i) =>
    ((line * 7 + i * 13) % 31).toString(i < 13 ? 10 : 16),
  );
  return [line % 3 === 0 ? 1 : 0, ...fields].join("\t");
});

/** For each kind, the bytes of a file and the data section that reads such files. */
async function kindsIn(
  home: string,
): Promise<Record<string, readonly [Buffer, (rest: object) => object]>> {
  const packZstd = await packOf(".zst");
  const text = readFileSync(join(fixtures, "clicks.csv"));
  const lines = readFileSync(writeLines(home));
  const tsv = Buffer.from(criteoLines.join("\n"));
  const ofArrow = (name: string) => readFileSync(join(arrowFixtures, name));
  const ofCriteo = (rest: object) => criteo.tsv([], { batchSize: 32, rejectedMax: 0.9, ...rest });
  return {
    csv: [text, (rest) => clicksAs("csv", rest)],
    "csv.gz": [gzipSync(text), (rest) => clicksAs("csv", rest)],
    jsonl: [lines, (rest) => clicksAs("jsonl", rest)],
    "jsonl.gz": [gzipSync(lines), (rest) => clicksAs("jsonl", rest)],
    "jsonl.zst": [Buffer.from(packZstd(lines)), (rest) => clicksAs("jsonl", rest)],
    tsv: [tsv, ofCriteo],
    "tsv.gz": [gzipSync(tsv), ofCriteo],
    arrow: [ofArrow("clicks.arrow"), (rest) => clicksAs("arrow", rest)],
    arrows: [ofArrow("clicks.arrows"), (rest) => clicksAs("arrow", rest)],
    parquet: [readFileSync(join(fixtures, "clicks.parquet")), (rest) => clicksAs("parquet", rest)],
  };
}

/** Kinds tested over each transport on every change; `npm run test:all` tests all kinds. */
const usual = {
  http: ["csv", "jsonl.zst", "tsv.gz", "arrow"],
  s3: ["csv.gz", "arrows", "parquet"],
};

/** The findings of a run and of the doctor about the data. */
async function foundIn(data: ResolvedDataOptions) {
  const tables = data.kind === "criteo-tsv" ? criteoTables : clickTables;
  const report = await prepareCache(data, tables, realDisk);
  if (data.kind === "synthetic") throw new TypeError("files");
  const look = await lookAtFiles(data, tables, 500);
  const { samples, digest, text } = contentsOf(report);
  const { files, bytes, labels, problems, rejected } = look;
  const { positives, range: labelRange } = labels;
  const looked = { files, bytes, positives, labelRange, problems, rejected: rejected.count };
  return { report, data, tables, found: { samples, digest, text, looked } };
}

for (const transport of transports) {
  test.serial(`data of every kind over ${transport} equal those on a disk`, async (t) => {
    const place = await startPlace(t, transport);
    const home = startDirectory(t);
    const all = Object.entries(await kindsIn(home));
    const some = all.filter(([kind]) => usual[transport].includes(kind));
    for (const [kind, [bytes, dataOf]] of someOrAll(`kinds of data over ${transport}`, some, all)) {
      const directory = join(home, kind);
      mkdirSync(directory);
      for (const name of [`a.${kind}`, `b.${kind}`]) {
        writeFileSync(join(directory, name), bytes);
        await place.put(`${kind}/${name}`, bytes);
      }
      const open = async (rest: object) =>
        foundIn(await namedFiles(checkOptions(dataOptions, dataOf({ cache: home, ...rest }))));
      const local = await open({ paths: [directory] });
      t.true(local.found.samples > 300, kind);
      const paths = place.allOf(kind);
      const remote = await open({ paths });
      t.deepEqual(remote.found, local.found, kind);
      t.notDeepEqual(remote.report.path, local.report.path);
      if (!isTable(local.data)) continue;
      // Without a cache, pieces are requested from the server.
      const streamed = await open({ paths, streamed: true });
      const { digest } = streamed.found; // An index is encoded differently.
      t.deepEqual(streamed.found, { ...local.found, digest }, kind);
      const [own, whole] = [streamed, local].map(({ report, data: options, tables }) =>
        openSamples(report.path, realDisk, { options, tables }),
      );
      const [dataset, expected] = [await own, await whole];
      if (dataset === undefined || expected === undefined) throw new TypeError("two datasets");
      const indices = Array.from({ length: 50 }, (_, i) => 150 + i);
      await holdAt(dataset, 150, 50);
      sameValues(t, readPlain(dataset, indices), readPlain(expected, indices), kind);
      dataset.close();
      expected.close();
    }
  });

  test.serial(`faults of text over ${transport}: transient ones change nothing`, async (t) => {
    const place = await startPlace(t, transport);
    const home = startDirectory(t);
    const lines = Array.from({ length: 60_000 }, (_, i) => `${i % 2},u${i % 97},${i % 1009}`);
    const text = Buffer.from(`label,user,age\n${lines.join("\n")}\n`);
    writeFileSync(join(home, "a.csv"), text);
    const address = await place.put("a.csv", text);
    const dataOf = (path: string, cache = home) => {
      const columns = { label: "label", dense: ["age"], categorical: ["user"] };
      return checkOptions(dataOptions, csv(path, { ...columns, batchSize: 32, cache }));
    };
    const tables = [{ name: "user", rows: 100 }];
    const local = await prepareCache(dataOf(join(home, "a.csv")), tables, realDisk);
    place.faults.push("none", "none", "503", "cut", "short", "none", "cut", "cut");
    const remote = await prepareCache(dataOf(address), tables, realDisk);
    t.deepEqual([remote.digest, place.faults], [local.digest, []]);

    const failing = async (faults: typeof place.faults, message: RegExp, rest: object = {}) => {
      place.faults.push("none", "none", ...faults);
      const work = readAll(await openWebFile(address, { ...quick, ...rest }));
      const error = await t.throwsAsync(work, { instanceOf: StoreFailedError, message });
      t.regex(error.message, /^Cannot read .*a\.csv: /);
      t.notRegex(error.message, /secret/);
      place.faults.length = 0;
    };
    const always = Array.from({ length: 40 });
    await failing(always.fill("503") as [], /says 503.*, the last of 3 times$/);
    await failing(always.fill("short") as [], /the server sent \d+ bytes of \d+, the last of 3/);
    const slow = { deadlineMs: 200 };
    await failing(always.fill("slow") as [], /no answer within 200 ms, the last of 3/, slow);

    // Another file replaces it: before it is read, and during the read.
    const changed = { instanceOf: InputUnusableError, message: /a\.csv has changed while it was / };
    const { size, tag, ...file } = await openWebFile(address, quick);
    const late = readByteLines(address, { known: { bytes: size, version: `${tag}-` } });
    await t.throwsAsync(late.next(), changed);
    const sizes = { windowBytesMin: 4000, windowBytesMax: 8000, chunkBytes: 1000 };
    const { content } = streamOf({ size, tag, ...file }, sizes);
    await content.next();
    await place.put("a.csv", Buffer.from(`${text}1,u1,1\n`));
    await t.throwsAsync(readRest(content), changed);
    // A refused file leaves no cache.
    place.faults.push("none", "none");
    const cache = join(home, "other");
    const packed = await place.put("b.csv", gzipSync(text).subarray(0, 5000));
    const refused = { instanceOf: InputUnusableError, message: /b\.csv: unexpected end of file$/ };
    await t.throwsAsync(prepareCache(dataOf(packed, cache), tables, realDisk), refused);
    t.deepEqual(readdirSync(cache), []);
  });
}

test("a file replaced before it is read leaves no cache under its old name", async (t) => {
  const home = startDirectory(t);
  const cache = join(home, "cache");
  const web = await startWebServer(t);
  for (const kind of ["csv", "arrow", "arrows", "parquet"]) {
    const [bytes, dataOf] = (await kindsIn(home))[kind] ?? [];
    if (bytes === undefined || dataOf === undefined) throw new TypeError("a kind");
    const paths = [web.put(`a.${kind}`, bytes)];
    const data = checkOptions(dataOptions, dataOf({ paths, cache }));
    // The cache is opened after the first request to the server, and before the file is read.
    const open: typeof realDisk.open = (...file) => {
      web.put(`a.${kind}`, Buffer.concat([bytes, bytes]));
      return realDisk.open(...file);
    };
    await t.throwsAsync(prepareCache(data, clickTables, { ...realDisk, open }), {
      instanceOf: InputUnusableError,
      message: new RegExp(`a\\.${kind} has changed while it was read`),
    });
    t.deepEqual(readdirSync(cache), []);
  }
});

async function readRest(content: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of content) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

function readAll(file: WebFile): Promise<Buffer> {
  return readRest(streamOf(file).content);
}

test("a stream requests no more than its window, which starts small", async (t) => {
  const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i * i) % 251));
  let [waiting, waitingMax, asked] = [0, 0, 0];
  const file: WebFile = {
    ...{ path: "a", size: bytes.length, tag: "", head: bytes.subarray(0, 2) },
    async read(start, end) {
      asked = Math.max(asked, end);
      waiting += end - start;
      waitingMax = Math.max(waitingMax, waiting);
      await new Promise<void>((resume) => setImmediate(resume));
      waiting -= end - start;
      return bytes.subarray(start, end);
    },
  };
  const sizes = { windowBytesMin: 400, windowBytesMax: 6400, chunkBytes: 150 };
  t.true((await readRest(streamOf(file, sizes).content)).equals(bytes));
  t.true(waitingMax > 3200 && waitingMax <= 6400 + 1600, `${waitingMax} bytes at once`);
  [asked, waiting] = [0, 0];
  const look = streamOf(file, sizes);
  await look.content.next();
  t.true(asked <= 1000, `${asked} bytes for a look`);
  t.is(look.bytesRead, 100);
});

test("a reader that stops early cancels its pending requests", async (t) => {
  const web = await startWebServer(t);
  const address = web.put("a.txt", Buffer.from("line of a file\n".repeat(50_000)));
  web.faults.push("none", "none", "slow", "slow");
  // With this deadline, requests that are not cancelled would outlast the test.
  const patient = { ...quick, deadlineMs: 600_000 };
  for await (const chunk of streamOf(await openWebFile(address, patient)).content) {
    t.is(chunk.length, 0x4_0000);
    await until("two requests", () => web.waiting >= 2);
    break;
  }
  await until("the end of the requests", () => web.waiting === 0);
  const file = await openWebFile(address);
  const late = new AbortController();
  web.fault = "slow";
  const read = file.read(0, 100, late.signal);
  await until("a request", () => web.waiting >= 1);
  late.abort(new Error("nobody waits"));
  await t.throwsAsync(read, { message: "nobody waits" });
  await until("the end of the request", () => web.waiting === 0);
});
