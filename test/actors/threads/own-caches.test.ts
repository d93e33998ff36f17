// A host that does not see the first host's caches makes caches of the same names with the same
// samples, or refuses because its files differ.

import { copyFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { parquetWriteBuffer } from "hyparquet-writer";
import { makeCaches } from "../../../actors/threads/data/own-caches.ts";
import { prepareData } from "../../../actors/threads/data/prepare-data.ts";
import { cachesOf } from "../../../actors/threads/data/stream-origins.ts";
import { resolveJob } from "../../../index.ts";
import { readCacheMeta } from "../../../src/data/cache/cache-facts.ts";
import { fileIndexPath } from "../../../src/data/cache/file-tables.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../../data/data-files.ts";

const rows = Array.from({ length: 300 }, (_, i) => `${i % 2},${i / 7},${i % 31}`);

/** The job on a host whose files and caches lie below `home`. */
function jobAt(home: string) {
  const file = (name: string) => join(home, `${name}.csv`);
  const data = {
    ...{ kind: "csv" as const, batchSize: 32, cache: join(home, "cache") },
    ...{ label: "label", dense: ["x"], categorical: ["c"] },
  };
  const evaluation = { data: { ...data, paths: [file("held")] } };
  const model = {
    ...{ kind: "dlrm" as const, dense: 1, tables: [{ name: "c", rows: 50, dim: 4 }] },
    ...{ bottom: [4], top: [1] },
  };
  return resolveJob({ model, data: { ...data, paths: [file("train")] }, evaluation });
}

/** A host with the files, and a further one with copies of them, which were changed later. */
async function startTwo(t: ExecutionContext) {
  const [one, other] = [startDirectory(t), startDirectory(t)];
  for (const [i, name] of ["train.csv", "held.csv"].entries()) {
    writeFileSync(join(one, name), `label,x,c\n${rows.slice(100 * i).join("\n")}\n`);
    copyFileSync(join(one, name), join(other, name));
  }
  const plan = await prepareData(jobAt(one), realDisk, () => {});
  // The paths as the first host names them, relative to each host's own directory.
  const caches = cachesOf(plan).map((own) => ({ ...own, path: own.path.replace(one, other) }));
  const none = () => ({ start() {}, waitOn() {} });
  const make = () => makeCaches({ job: jobAt(other), caches }, realDisk, () => {}, none);
  return { one, other, caches, make };
}

test("a further host makes the same caches as the first host, under the same names", async (t) => {
  const { one, other, caches, make } = await startTwo(t);
  t.deepEqual(
    caches.map(({ part }) => part),
    ["training", "evaluation"],
  );
  await make();
  for (const { path } of caches) {
    const [here, there] = [path, path.replace(other, one)].map((own) => {
      const { sources: _, ...meta } = readCacheMeta(own, realDisk); // Each host's own files.
      return meta;
    });
    t.deepEqual(here, there);
  }
  const again = readFileSync(caches[0]?.path ?? "");
  await make(); // All caches exist.
  t.true(readFileSync(caches[0]?.path ?? "").equals(again));
});

test("a further host makes the early index of the first, and those of all files", async (t) => {
  const homes = [startDirectory(t), startDirectory(t)] as const;
  const jobIn = (home: string) => {
    const paths = ["a", "b"].map((name) => join(home, `${name}.parquet`));
    const model = { kind: "lr" as const, tables: [{ name: "c", rows: 50, dim: 1 }] };
    const rest = { batchSize: 8, cache: join(home, "cache"), streamed: true, startEarly: true };
    const data = { kind: "parquet" as const, paths, label: "label", categorical: ["c"], ...rest };
    return resolveJob({ model, data, evaluation: { split: { kind: "order" } } });
  };
  for (const home of homes) {
    for (const name of ["a", "b"]) {
      const data = [rows.map((_, i) => i % 2), rows.map((_, i) => i % 31)];
      const columnData = ["label", "c"].map((column, i) => {
        return { name: column, data: data[i] ?? [], type: "INT32" as const };
      });
      const bytes = parquetWriteBuffer({ columnData, rowGroupSize: 50 });
      writeFileSync(join(home, `${name}.parquet`), new Uint8Array(bytes));
    }
  }
  const [one, other] = homes;
  const plan = await prepareData(jobIn(one), realDisk, () => {});
  const [found] = cachesOf(plan);
  t.regex(found?.path ?? "", /\.early\.index\.cache$/);
  const path = found?.path.replace(one, other) ?? "";
  const caches = [{ part: "training" as const, path, digest: found?.digest ?? "" }];
  const none = () => ({ start() {}, waitOn() {} });
  await makeCaches({ job: jobIn(other), caches }, realDisk, () => {}, none);
  const { files } = readCacheMeta(path, realDisk);
  t.is(files?.names.length, 2);
  for (const name of files?.names ?? []) t.true(existsSync(fileIndexPath(path, name)));
});

test("a further host with other files is refused, and leaves no cache of them behind", async (t) => {
  const { other, caches, make } = await startTwo(t);
  writeFileSync(join(other, "train.csv"), `label,x,c\n${rows.slice(1).join("\n")}\n`);
  const error = await t.throwsAsync(make(), { code: "INPUT_UNUSABLE" });
  t.regex(error?.message ?? "", /has other samples on this host than on the first host: give all/);
  t.false(existsSync(caches[0]?.path ?? ""));
});
