// Parquet files on a web server: they have the samples of the same files on a disk, whatever faults
// the server has; and errors that retries cannot fix name the address.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { holdAt } from "../../../src/data/cache/pieces.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { filesOf, tableFilesOf } from "../../../src/data/files.ts";
import { openSamples } from "../../../src/data/open-samples.ts";
import { dataOptions } from "../../../src/data/options.ts";
import { openWebFile } from "../../../src/data/remote/web-ranges.ts";
import { parquet } from "../../../src/data/sources.ts";
import { InputUnusableError, StoreFailedError } from "../../../src/errors/errors.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { sameValues } from "../../helpers/same-values.ts";
import { readPlain, startDirectory } from "../data-files.ts";
import { fixtures } from "../parquet/parquet-files.ts";
import { quick } from "./places.ts";
import { startWebServer, type WebFault } from "./web-server.ts";

const clicks = readFileSync(join(fixtures, "clicks.parquet"));

const tables = [{ name: "colour", rows: 100 }];

function optionsOf(path: string, cache: string, rest: object = {}) {
  const columns = { label: "label", dense: ["age"], categorical: ["colour"], batchSize: 8 };
  const where = [{ column: "date", equals: "2026-11-01" }];
  const inPartition = path.startsWith("http") ? { where } : {};
  const all = { ...columns, positive: [1, 2], rejectedMax: 0.5, cache, ...inPartition, ...rest };
  return checkOptions(dataOptions, parquet(path, all));
}

test("samples equal those of the file on a disk, whatever faults the server has", async (t) => {
  const home = startDirectory(t);
  const local = await prepareCache(
    optionsOf(join(fixtures, "clicks.parquet"), home),
    tables,
    realDisk,
  );
  const web = await startWebServer(t);
  const at = web.put("date=2026-11-01/clicks.parquet", clicks);
  web.faults.push("none", "503", "cut", "none", "short", "elsewhere", "none", "none");
  const signed = `${at}?signature=secret`;
  const remote = await prepareCache(optionsOf(signed, home), tables, realDisk);
  t.is(remote.digest, local.digest);
  t.is(remote.samples, local.samples);
  t.true(web.ranges.every((range) => /^\d+-\d+$/.test(range)));
  t.deepEqual(web.faults, []);
  t.deepEqual(remote.sources?.[0]?.path, at, "the recorded path has no signature");
  // The signature does not count: the file's cache is reused.
  const again = await prepareCache(optionsOf(`${at}?signature=other`, home), tables, realDisk);
  t.is(again.path, remote.path);
  // Without a cache, the server is read again.
  const options = optionsOf(at, home, { streamed: true });
  const { path } = await prepareCache(options, tables, realDisk);
  const dataset = await openSamples(path, realDisk, { options, tables });
  await holdAt(dataset, 100, 50);
  const some = Array.from({ length: 50 }, (_, i) => 100 + i);
  const whole = await openSamples(local.path, realDisk, {
    options: optionsOf("any", home),
    tables,
  });
  sameValues(t, readPlain(dataset, some), readPlain(whole, some));
  dataset.close();
  whole.close();
});

test("an error that retries cannot fix names the address", async (t) => {
  const cases: readonly [WebFault, typeof InputUnusableError | typeof StoreFailedError, RegExp][] =
    [
      [
        "404",
        InputUnusableError,
        /Cannot read the data file http.*clicks\.parquet: the server says 404/,
      ],
      ["whole", InputUnusableError, /the server reads no ranges of files \(Range\); name another/],
      [
        "packed",
        InputUnusableError,
        /the server sends it as `Content-Encoding: gzip`, which has no /,
      ],
      ["503", StoreFailedError, /clicks\.parquet.*the server says 503.*the last of 3 times/],
      ["slow", StoreFailedError, /no answer within 150 ms, the last of 3 times/],
      ["short", StoreFailedError, /the server sent 5 bytes of 6, the last of 3 times/],
      ["elsewhere", StoreFailedError, /the server sent bytes 1 to 5 for 0 to 5, the last of 3/],
    ];
  const web = await startWebServer(t);
  const at = web.put("clicks.parquet", clicks);
  for (const [fault, kind, message] of cases) {
    web.fault = fault;
    const signed = `${at.replace("//", "//user:secret@")}?key=secret`;
    const limits = fault === "slow" ? { ...quick, deadlineMs: 150 } : quick;
    const error = await t.throwsAsync(openWebFile(signed, limits), { instanceOf: kind, message });
    t.notRegex(error?.message ?? "", /secret/);
  }
  const gone = await t.throwsAsync(openWebFile("http://127.0.0.1:9/a.parquet", quick));
  t.regex(gone?.message ?? "", /127\.0\.0\.1:9\/a\.parquet.*the last of 3 times/);
  const directory = t.throws(() => tableFilesOf(["https://data.example/clicks/"]));
  t.regex(directory?.message ?? "", /is no file: a web server lists none, name each file/);
  for (const wrong of ["https://", "https://user:secret@a b/c.csv?key=secret"]) {
    const error = t.throws(() => filesOf([wrong]), { instanceOf: InputUnusableError });
    t.regex(error.message, /is no address: write https:\/\/host\/path$/);
    t.notRegex(error.message, /secret/);
    await t.throwsAsync(openWebFile(wrong, quick), { message: /: that is no address; name/ });
  }
});

test("user and password go into a header, once, and into no name", async (t) => {
  const web = await startWebServer(t);
  const at = web.put("a.csv", Buffer.from("label\n1\n")).replace("//", "//us%C3%A9r:p%40ss@");
  const file = await openWebFile(at, quick);
  t.is(file.path, `${web.origin}/a.csv`);
  const pair = Buffer.from("usér:p@ss").toString("base64");
  t.is(web.headers.authorization, `Basic ${pair}`);
});

test("bytes received before a cut are not requested again, and connections are reused", async (t) => {
  const web = await startWebServer(t);
  const file = await openWebFile(web.put("clicks.parquet", clicks), quick);
  web.faults.push("cut", "cut", "none");
  t.deepEqual(Buffer.from(await file.read(1000, 2000)), clicks.subarray(1000, 2000));
  t.deepEqual(web.ranges, ["0-5", "1000-1999", "1500-1999", "1750-1999"]);
  for (let i = 0; i < 20; i++) await file.read(i, 5000 + i);
  // More than one connection: on a busy machine one may idle until it is closed.
  t.true(web.connections < 12, `${web.connections} connections`);
});

test("a file that changes while it is read is named", async (t) => {
  const web = await startWebServer(t);
  const file = await openWebFile(web.put("clicks.parquet", clicks), quick);
  t.is(file.size, clicks.length);
  t.deepEqual(Buffer.from(await file.read(10, 20)), clicks.subarray(10, 20));
  t.is((await file.read(5, 5)).length, 0);
  const message = /clicks\.parquet has changed while it was read: put it back/;
  web.put("clicks.parquet", clicks.subarray(0, 100));
  await t.throwsAsync(file.read(20, 30), { instanceOf: InputUnusableError, message });
  await t.throwsAsync(file.read(200, 300), { instanceOf: InputUnusableError, message });
  // The file changes within a response: bytes of the two files are not mixed.
  web.put("clicks.parquet", clicks);
  web.faults.push("cut");
  const read = file.read(0, clicks.length);
  while (web.ranges.length < 5) await new Promise((resume) => setImmediate(resume));
  web.put("clicks.parquet", Buffer.concat([clicks, clicks]));
  await t.throwsAsync(read, { instanceOf: InputUnusableError, message });
});

test("a file of 0 bytes is empty, whatever else its server says", async (t) => {
  const web = await startWebServer(t);
  const at = web.put("a.csv", new Uint8Array());
  for (const fault of ["none", "whole"] as const) {
    web.fault = fault;
    const file = await openWebFile(at, quick);
    t.deepEqual([file.size, file.head.length, (await file.read(0, 0)).length], [0, 0, 0]);
  }
});
