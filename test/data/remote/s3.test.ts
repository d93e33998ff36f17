// Parquet files in an object store: they have the samples of the same files on a disk, whatever
// faults the store has; how prefixes and patterns expand; and errors that retries cannot fix.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { holdAt } from "../../../src/data/cache/pieces.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { contentsOf } from "../../../src/data/contents.ts";
import { openSamples } from "../../../src/data/open-samples.ts";
import type { DataOptions } from "../../../src/data/options.ts";
import { s3FilesOf } from "../../../src/data/remote/s3-list.ts";
import { s3Request } from "../../../src/data/remote/s3-requests.ts";
import { openWebFile } from "../../../src/data/remote/web-ranges.ts";
import { parquet } from "../../../src/data/sources.ts";
import { InputUnusableError, StoreFailedError } from "../../../src/errors/errors.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { withFiles } from "../../../src/job/job-files.ts";
import { usualStoreLimits } from "../../../src/objects/rules.ts";
import { s3Parts, urlOf } from "../../../src/objects/s3-address.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { sameValues } from "../../helpers/same-values.ts";
import { readPlain, startDirectory } from "../data-files.ts";
import { fixtures } from "../parquet/parquet-files.ts";
import { asks, type ObjectStore, startObjectStore } from "./object-store.ts";
import { quick } from "./places.ts";

const fast = { ...usualStoreLimits, backoffMs: 1 };
const clicks = readFileSync(join(fixtures, "clicks.parquet"));
const days = [
  "date=2026-11-01/a.parquet",
  "date=2026-11-01/b c+d.parquet",
  "date=2026-11-02/a.parquet",
];
/** Files that writers leave beside their data. */
const besides = ["_SUCCESS", "date=2026-11-02/.a.parquet.crc"];
const tables = [{ name: "colour", rows: 100 }];

async function startDays(t: ExecutionContext): Promise<{ store: ObjectStore; home: string }> {
  const store = await startObjectStore(t);
  const home = startDirectory(t);
  for (const key of [...days, ...besides]) {
    await store.put("clicks", `log/${key}`, clicks);
    mkdirSync(dirname(join(home, "log", key)), { recursive: true });
    writeFileSync(join(home, "log", key), clicks);
  }
  asks(t, store);
  return { store, home };
}

const dataOf = (path: string, cache: string, rest: object = {}): DataOptions =>
  parquet(path, {
    ...{ label: "label", dense: ["age"], categorical: ["colour"], batchSize: 8 },
    ...{ positive: [1, 2], rejectedMax: 0.5, cache, ...rest },
  });

/** Data options with resolved file names, as a run has them. */
async function optionsOf(path: string, cache: string, rest: object = {}) {
  const model = { kind: "lr" as const, tables: [{ name: "colour", rows: 100, dim: 1 }] };
  const { data } = await withFiles(resolveJob({ model, data: dataOf(path, cache, rest) }));
  return data;
}

test.serial("a prefix of a store gives the same samples as the directory on a disk", async (t) => {
  const { store, home } = await startDays(t);
  const where = [{ column: "date", in: ["2026-11-01", "2026-11-02"] }];
  const onDisk = await optionsOf(`${join(home, "log")}/`, home, { where });
  const local = await prepareCache(onDisk, tables, realDisk);
  const options = await optionsOf("s3://clicks/log/", home, { where });
  t.deepEqual(
    "paths" in options && options.paths,
    days.map((key) => `s3://clicks/log/${key}`),
  );
  store.faults.push("none", "503", "cut", "none", "cut", "503", "503");
  const remote = await prepareCache(options, tables, realDisk);
  t.is(remote.digest, local.digest);
  t.deepEqual(store.faults, []);
  // Without a cache, row groups are requested from the store.
  const streamed = await optionsOf("s3://clicks/log/", home, { where, streamed: true });
  const index = await prepareCache(streamed, tables, realDisk);
  const { path } = index;
  t.is(contentsOf(index).text, contentsOf(local).text);
  const dataset = await openSamples(path, realDisk, { options: streamed, tables });
  const whole = await openSamples(local.path, realDisk, { options: onDisk, tables });
  const some = Array.from({ length: 50 }, (_, i) => 100 + i);
  await holdAt(dataset, 100, 50);
  sameValues(t, readPlain(dataset, some), readPlain(whole, some));
  dataset.close();
  whole.close();
});

/**
 * A store that lists like ListObjects version 1, three keys a page: it has no continuation tokens.
 */
async function startOldStore(t: ExecutionContext, keys: readonly string[], takesMarkers: boolean) {
  const server = createServer((incoming, outgoing) => {
    const { searchParams: parameters } = new URL(incoming.url ?? "", "http://store");
    const marker = takesMarkers ? (parameters.get("marker") ?? "") : "";
    const left = keys.filter((key) => key > marker);
    const page = left
      .slice(0, 3)
      .map((key) => `<Contents><Key>${encodeURIComponent(key)}</Key></Contents>`);
    const isCut = `<IsTruncated>${left.length > 3}</IsTruncated>`;
    const list = `<EncodingType>url</EncodingType>${isCut}${page.join("")}`;
    outgoing.end(`<ListBucketResult>${list}</ListBucketResult>`);
  });
  await new Promise<void>((resume) => server.listen(0, "127.0.0.1", resume));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  asks(t, { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

test.serial(
  "a store without continuation tokens is paged by the last key, or refused",
  async (t) => {
    const keys = ["n/a b", "n/c+d", "n/e", "n/f", "n/g", "n/h", "n/i"];
    await startOldStore(t, keys, true);
    t.deepEqual(
      await s3FilesOf(["s3://clicks/n/"], fast),
      keys.map((key) => `s3://clicks/${key}`),
    );
    await startOldStore(t, keys, false);
    await t.throwsAsync(s3FilesOf(["s3://clicks/n/"], fast), {
      instanceOf: InputUnusableError,
      message: /the store cuts the list of objects off, and sends no token for the rest/,
    });
  },
);

test.serial("patterns match within a segment; a path of one object is not listed", async (t) => {
  const { store } = await startDays(t);
  const listed = async (path: string) =>
    (await s3FilesOf([path], fast)).map((one) => one.replace("s3://clicks/log/", ""));
  t.deepEqual(await listed("s3://clicks/log/date=2026-11-0?/a.parquet"), [days[0], days[2]]);
  t.deepEqual(await listed("s3://clicks/log/date=*-01"), days.slice(0, 2));
  t.deepEqual(await listed("s3://clicks/log/date=*-01/"), days.slice(0, 2));
  t.deepEqual(await listed("s3://clicks/*/*/*c+d*"), [days[1]]);
  t.deepEqual(await listed("s3://clicks/"), days);
  // A path of one object causes no request.
  store.asked.length = 0;
  t.deepEqual(await s3FilesOf(["s3://clicks/log/x.parquet", "a.parquet"]), [
    "s3://clicks/log/x.parquet",
    "a.parquet",
  ]);
  t.deepEqual(store.asked, []);
});

test.serial("lists are read page by page, and each page is retried until complete", async (t) => {
  const store = await startObjectStore(t);
  asks(t, store);
  // The store lists 20 keys a page.
  const keys = Array.from({ length: 30 }, (_, i) => `n/${i}`);
  await Promise.all(keys.map((key) => store.put("other.bucket", key, clicks.subarray(0, 9))));
  store.asked.length = 0;
  store.faults.push("none", "cut", "503");
  const many = await s3FilesOf(["s3://other.bucket/n/"], fast);
  t.deepEqual(many, keys.map((key) => `s3://other.bucket/${key}`).sort());
  t.is(store.asked.length, 4, "two pages and two retries");
});

test.serial("an error that retries cannot fix is one sentence without a secret", async (t) => {
  const { store, home } = await startDays(t);
  const refused = async (path: string, message: RegExp) => {
    const error = await t.throwsAsync(
      optionsOf(path, home).then((of) => prepareCache(of, tables, realDisk)),
      {
        instanceOf: InputUnusableError,
        message,
      },
    );
    t.notRegex(error?.message ?? "", /not-the-secret|Signature=|127\.0\.0\.1/);
  };
  await refused(
    "s3://nowhere/log/",
    /s3:\/\/nowhere: the store says 404 NoSuchBucket; check the name of the bucket/,
  );
  await refused(
    "s3://clicks/none/",
    /^Cannot read the data: no object matches s3:\/\/clicks\/none\/$/,
  );
  await refused(
    "s3://clicks/log",
    /s3:\/\/clicks\/log: the store says 404 NoSuchKey; .*end the address with `\/`$/,
  );
  await refused(
    "s3://",
    /^Cannot use the object store: s3:\/\/ names no bucket; write s3:\/\/bucket\/key$/,
  );
  asks(t, store, "not-the-secret");
  await refused(
    "s3://clicks/log/",
    /the store says 403 SignatureDoesNotMatch; check the credentials and their permissions/,
  );
});

test.serial(
  "an unresponsive store fails by name; an object that changes is reported",
  async (t) => {
    const { store } = await startDays(t);
    const address = `s3://clicks/log/${days[0]}`;
    store.faults.push("slow", "slow", "slow");
    const error = await t.throwsAsync(openWebFile(address, { ...quick, deadlineMs: 200 }), {
      instanceOf: StoreFailedError,
    });
    t.regex(error?.message ?? "", /s3:\/\/clicks\/log\/date=2026-11-01\/a\.parquet/);
    const file = await openWebFile(address, quick);
    t.deepEqual(Buffer.from(await file.read(10, 200)), clicks.subarray(10, 200));
    await store.put("clicks", `log/${days[0]}`, Buffer.concat([clicks, clicks]));
    await t.throwsAsync(file.read(10, 200), {
      instanceOf: InputUnusableError,
      message: /a\.parquet has changed while it was read/,
    });
  },
);

test("bucket names follow the rules of S3, so that no signed request goes to another host", async (t) => {
  // https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
  for (const bucket of ["abc", "my.bucket-1", "2130706433", "a".repeat(63)]) {
    t.is(s3Parts(`s3://${bucket}/k`).bucket, bucket);
  }
  const hosts = [
    "2130706433:8443#",
    "evil.org?",
    "user@evil.org",
    "a\\evil.org",
    "..",
    "a..b",
    ".ab",
  ];
  for (const bucket of [...hosts, "ab", "a".repeat(64), "Upper", "a_b", "ab-", "%2e%2e"]) {
    await t.throwsAsync(s3Request(`s3://${bucket}/key.csv`, {}), {
      instanceOf: InputUnusableError,
      message: /names no bucket/,
    });
  }
  for (const key of ["../admin/key", "a/../../b", "./x", "a/.."]) {
    t.throws(() => s3Parts(`s3://bucket/${key}`), { message: /another object/ }, key);
  }
  t.is(s3Parts("s3://bucket/a..b/.hidden").key, "a..b/.hidden");
  for (const endpoint of ["host:80", "127.0.0.1:80", "ftp://host", "http://"]) {
    const site = { endpoint, region: "eu" };
    t.throws(() => urlOf(site, "bucket", "k"), { message: /AWS_ENDPOINT_URL is no URL/ }, endpoint);
  }
  const redirecting = { endpoint: undefined, region: "evil.org/" };
  t.throws(() => urlOf(redirecting, "bucket", "k"), { message: /AWS_REGION names no region/ });
});
