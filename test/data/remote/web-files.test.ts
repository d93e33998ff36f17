// Parquet files on a web server: the samples of the same files on a disk, whatever the server does
// meanwhile; and what no repeating mends is told with the address.

import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { openSamples } from "../../../src/data/open-samples.ts";
import { dataOptions } from "../../../src/data/options.ts";
import { holdAt } from "../../../src/data/pieces-at.ts";
import { openWebFile } from "../../../src/data/remote/web-ranges.ts";
import { parquet } from "../../../src/data/sources.ts";
import { tableFilesOf } from "../../../src/data/tables/table-files.ts";
import { InputUnusableError, StoreFailedError } from "../../../src/errors/errors.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realClock } from "../../../src/ports/clock.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { readPlain, startDirectory } from "../data-files.ts";
import { fixtures } from "../parquet/parquet-files.ts";

const clicks = readFileSync(join(fixtures, "clicks.parquet"));

type Fault = "none" | "503" | "cut" | "short" | "elsewhere" | "slow" | "404" | "whole" | "changed";

/** A server of one file, which misbehaves by turns. */
async function startServer(t: ExecutionContext, faults: readonly Fault[], bytes = clicks) {
  let [turn, requests] = [0, 0];
  const ranges: string[] = [];
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    requests++;
    const fault = faults[turn++ % faults.length] ?? "none";
    ranges.push(request.headers.range ?? "");
    const [, first = "0", last = "0"] =
      /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
    const end = Math.min(Number(last) + 1, bytes.length);
    const own = bytes.subarray(Number(first), end);
    const etag = fault === "changed" ? '"two"' : '"one"';
    const place = fault === "elsewhere" ? `bytes 1-9/${bytes.length}` : undefined;
    if (fault === "503") return response.writeHead(503, { "retry-after": "0" }).end();
    if (fault === "404") return response.writeHead(404).end();
    if (fault === "whole") return response.writeHead(200, { etag }).end(bytes);
    if (fault === "slow") return void setTimeout(() => response.destroy(), 5000).unref();
    if (fault === "changed" && request.headers["if-match"] === '"one"') {
      return response.writeHead(412).end();
    }
    response.writeHead(206, {
      etag,
      "content-range": place ?? `bytes ${first}-${end - 1}/${bytes.length}`,
      ...(fault === "cut" ? { "content-length": own.length } : {}),
    });
    if (fault === "cut")
      return response.write(own.subarray(0, own.length / 2), () => response.destroy());
    return response.end(fault === "short" ? own.subarray(0, own.length - 1) : own);
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resume) => server.listen(0, "127.0.0.1", resume));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const at = `http://127.0.0.1:${port}/date=2026-11-01/clicks.parquet`;
  return { at, ranges, requests: () => requests };
}

const tables = [{ name: "colour", rows: 100 }];

function optionsOf(path: string, cache: string, rest: object = {}) {
  const columns = { label: "label", dense: ["age"], categorical: ["colour"], batchSize: 8 };
  const where = [{ column: "date", equals: "2026-11-01" }];
  const inPartition = path.startsWith("http") ? { where } : {};
  const all = { ...columns, positive: [1, 2], rejectedMax: 0.5, cache, ...inPartition, ...rest };
  return checkOptions(dataOptions, parquet(path, all));
}

test("the samples are those of the file on a disk, whatever the server does", async (t) => {
  const home = startDirectory(t);
  const local = await prepareCache(
    optionsOf(join(fixtures, "clicks.parquet"), home),
    tables,
    realDisk,
  );
  const faults: Fault[] = ["none", "503", "cut", "none", "short", "elsewhere", "none", "none"];
  const { at, ranges } = await startServer(t, faults);
  const signed = `${at}?signature=secret`;
  const remote = await prepareCache(optionsOf(signed, home), tables, realDisk);
  t.is(remote.digest, local.digest);
  t.is(remote.samples, local.samples);
  t.true(ranges.every((range) => /^bytes=\d+-\d+$/.test(range)));
  t.deepEqual(remote.sources?.[0]?.path, at, "without what signs it");
  // Signed again it is the same file, and its cache is there.
  const again = await prepareCache(optionsOf(`${at}?signature=other`, home), tables, realDisk);
  t.is(again.path, remote.path);
  // Without a cache the server is asked again.
  const options = optionsOf(at, home, { streamed: true });
  const { path } = await prepareCache(options, tables, realDisk);
  const dataset = await openSamples(path, realDisk, { options, tables });
  await holdAt(dataset, 100, 50);
  const some = Array.from({ length: 50 }, (_, i) => 100 + i);
  const whole = await openSamples(local.path, realDisk, {
    options: optionsOf("any", home),
    tables,
  });
  t.deepEqual(readPlain(dataset, some), readPlain(whole, some));
  dataset.close();
  whole.close();
});

const quick = { attemptsMax: 3, deadlineMs: 150, backoffMs: 1, clock: realClock };

test("what repeating does not mend is told with the address", async (t) => {
  const cases: readonly [Fault, typeof InputUnusableError | typeof StoreFailedError, RegExp][] = [
    [
      "404",
      InputUnusableError,
      /Cannot read the data file http.*clicks\.parquet: the server says 404/,
    ],
    ["whole", InputUnusableError, /the server reads no ranges of files \(Range\); name another/],
    ["503", StoreFailedError, /clicks\.parquet.*the server says 503.*the last of 3 times/],
    ["slow", StoreFailedError, /no answer within 150 ms, the last of 3 times/],
    ["short", StoreFailedError, /the server sent 1 bytes of 2, the last of 3 times/],
  ];
  for (const [fault, kind, message] of cases) {
    const { at } = await startServer(t, [fault]);
    const error = await t.throwsAsync(openWebFile(`${at}?key=secret`, quick), { instanceOf: kind });
    t.regex(error?.message ?? "", message);
    t.notRegex(error?.message ?? "", /secret/);
  }
  const gone = await t.throwsAsync(openWebFile("http://127.0.0.1:9/a.parquet", quick));
  t.regex(gone?.message ?? "", /127\.0\.0\.1:9\/a\.parquet.*the last of 3 times/);
  const directory = t.throws(() => tableFilesOf(["https://data.example/clicks/"]));
  t.regex(directory?.message ?? "", /is no file: a web server lists none, name each file/);
});

test("a file that changes while it is read is named", async (t) => {
  const { at } = await startServer(t, ["none", "none", "changed"]);
  const file = await openWebFile(at, quick);
  t.is(file.size, clicks.length);
  t.deepEqual(Buffer.from(await file.read(10, 20)), clicks.subarray(10, 20));
  const error = await t.throwsAsync(file.read(20, 30), { instanceOf: InputUnusableError });
  t.regex(error?.message ?? "", /clicks\.parquet has changed while it was read: put it back/);
  const empty = join(startDirectory(t), "empty");
  writeFileSync(empty, "");
  t.is((await file.read(5, 5)).length, 0);
});
