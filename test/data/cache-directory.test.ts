// The cache directory: the next run removes files of killed writers, caches in use stay, and a size
// limit removes the least recently used caches.

import { spawnSync } from "node:child_process";
import { readdirSync, utimesSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import test, { type ExecutionContext } from "ava";
import { buildingNameOf } from "../../src/data/cache/cache-directory.ts";
import { listCaches, removeCaches } from "../../src/data/cache/list-caches.ts";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { dataOptions } from "../../src/data/options.ts";
import { csv, synthetic } from "../../src/data/sources.ts";
import { InputUnusableError, InvalidOptionError } from "../../src/errors/errors.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { isWriterGone, thisWriter } from "../../src/ports/disk-writer.ts";
import { startNode } from "../helpers/processes/start-cli.ts";
import { prepare, startDirectory, writeText } from "./data-files.ts";

const tables = [{ name: "a", rows: 50 }];
const hourMs = 3_600_000;

function generated(cache: string, samples: number, cacheBytesMax?: number) {
  return prepare(synthetic({ samples, batchSize: 8, dense: 3, cache, cacheBytesMax }), tables);
}

/** Sets the file's times back, as if it was unused for `ms`. */
function age(path: string, ms: number): void {
  const then = new Date(Date.now() - ms);
  utimesSync(path, then, then);
}

/** The module of writer names, for import by another process. */
const writers = new URL("../../src/ports/disk-writer.js", import.meta.url).href;
const tellWriter = `import { thisWriter } from "${writers}"; console.log(thisWriter());`;
const asModule = ["--input-type=module", "-e"];

test("writers of this process, a dead process and another machine are told apart", (t) => {
  t.false(isWriterGone(thisWriter()));
  const dead = spawnSync(process.execPath, [...asModule, tellWriter], { encoding: "utf8" });
  t.regex(dead.stdout, /^[0-9a-f]{8}-\d+-\d+-0\n$/);
  t.true(isWriterGone(dead.stdout.trim()), "the writer's process has ended");
  t.false(isWriterGone(`00000000${dead.stdout.trim().slice(8)}`), "of another machine");
  t.false(isWriterGone("1234-0"), "a name by version 0.0 counts as alive");
  const [machine, pid, start = "", thread] = thisWriter().split("-");
  const earlier = [machine, pid, Number(start) - 1, thread].join("-");
  t.is(isWriterGone(earlier), start !== "0", "an earlier process had the same id");
});

test("files of a killed writer go with the next run, files of live writers stay", async (t) => {
  const cache = join(startDirectory(t), "cache");
  const { path } = await generated(cache, 40);
  const dead = spawnSync(process.execPath, [...asModule, tellWriter], { encoding: "utf8" });
  const program = `${tellWriter} setInterval(() => {}, 1000);`;
  const other = startNode([...asModule, program], process.cwd());
  t.teardown(() => other.kill("SIGKILL"));
  const alive = await other.line(() => true);
  const leave = (writer: string) => {
    const name = buildingNameOf(join(cache, "csv-0.cache"), writer, 0);
    writeFileSync(name, "half");
    return name;
  };
  const [killed, busy, elsewhere, former] = [
    dead.stdout.trim(),
    alive,
    "00000000-7-7-0",
    "12-0",
  ].map(leave);
  age(former ?? "", 2 * hourMs);
  await generated(cache, 40);
  t.deepEqual(
    readdirSync(cache).sort(),
    [path, busy, elsewhere].map((one) => basename(one ?? "")).sort(),
  );
  age(elsewhere ?? "", 2 * hourMs);
  other.kill("SIGKILL");
  await other.ended;
  t.is(listCaches(cache, Date.now()).leftovers.length, 2);
  await generated(cache, 40);
  t.deepEqual(readdirSync(cache), [basename(path)]);
  t.truthy(killed);
});

test("a cache is touched while it is built, so that no other run takes it for abandoned", async (t) => {
  const cache = join(startDirectory(t), "cache");
  const touched = new Set<string>();
  const touch = (path: string) => {
    touched.add(path);
    realDisk.touch(path);
  };
  const options = synthetic({ samples: 20_000, batchSize: 8, dense: 3, cache });
  await prepareCache(checkOptions(dataOptions, options), tables, { ...realDisk, touch });
  t.true([...touched].some((path) => path.includes(".building-")));
});

test("a limit removes the least recently used caches, and none in use", async (t) => {
  const cache = join(startDirectory(t), "cache");
  const oldest = await generated(cache, 300);
  const older = await generated(cache, 301);
  const recent = await generated(cache, 302);
  const size = listCaches(cache, Date.now()).caches[0]?.bytes ?? 0;
  age(oldest.path, 3 * hourMs);
  age(older.path, 2 * hourMs);
  const fourth = await generated(cache, 303, 3 * size + 1000);
  const names = () =>
    readdirSync(cache)
      .map((name) => join(cache, name))
      .sort();
  t.deepEqual(names(), [older.path, recent.path, fourth.path].sort());
  await generated(cache, 303, 1);
  t.deepEqual(names(), [recent.path, fourth.path].sort(), "caches in use stay");
  t.deepEqual(await generated(cache, 303), fourth, "the limit does not change a cache's name");
});

test("a cache larger than the limit is refused while it is written, and leaves no file", async (t) => {
  const cache = join(startDirectory(t), "cache");
  const { path } = await generated(cache, 40);
  const small = { instanceOf: InvalidOptionError, message: /has more than 5000 bytes: give it / };
  await t.throwsAsync(generated(cache, 20_000, 5000), small);
  // A compressed file of 12 kB would become a cache of megabytes: it is refused long before.
  const packed = join(cache, "a.csv.gz");
  writeFileSync(packed, gzipSync(`y,a\n${"1,x\n".repeat(2_000_000)}`));
  const columns = { label: "y", categorical: ["a"], batchSize: 1, cache };
  const ofText = csv(packed, { ...columns, cacheBytesMax: 100_000 });
  await t.throwsAsync(prepare(ofText, tables), { message: /has more than 100000 bytes/ });
  t.deepEqual(readdirSync(cache).sort(), ["a.csv.gz", basename(path)].sort());
});

async function startSources(t: ExecutionContext) {
  const directory = startDirectory(t);
  const cache = join(directory, "cache");
  const path = writeText(directory, { name: "a.csv", text: "y,a\n1,x\n0,z\n" });
  const options = csv(path, { label: "y", categorical: ["a"], batchSize: 1, cache });
  return { cache, path, report: await prepare(options, tables) };
}

test("the list of caches names sources, and which of them have changed or are gone", async (t) => {
  const { cache, path, report } = await startSources(t);
  const states = () => listCaches(cache, Date.now()).caches.map(({ sources }) => sources[0]?.state);
  const [record] = listCaches(cache, Date.now()).caches;
  t.like(record, { path: report.path, samples: 2, isInUse: true });
  t.is(record?.sources[0]?.path, path);
  t.deepEqual(states(), ["same"]);
  utimesSync(path, 1, 1);
  t.deepEqual(states(), ["changed"]);
  realDisk.remove(path);
  t.deepEqual(states(), ["gone"]);
  t.is(listCaches(cache, Date.now() + hourMs).caches[0]?.isInUse, false);
  writeFileSync(report.path, "damaged");
  t.is(listCaches(cache, Date.now()).caches[0]?.damage, "it does not start as one");
  t.throws(() => listCaches(report.path, 0), {
    instanceOf: InputUnusableError,
    message: /^Expected .*\.cache to be a directory of data caches: ENOTDIR/,
  });
  t.deepEqual(listCaches(join(cache, "none"), 0), {
    directory: join(cache, "none"),
    caches: [],
    leftovers: [],
    fileIndexes: { count: 0, bytes: 0 },
    ranges: { count: 0, bytes: 0 },
  });
});

test("caches are removed by name, by age or all; one in use never is", async (t) => {
  const cache = join(startDirectory(t), "cache");
  const paths: string[] = [];
  for (const samples of [40, 41, 42]) paths.push((await generated(cache, samples)).path);
  const [first = "", second = "", third = ""] = paths;
  age(first, 2 * hourMs);
  age(second, hourMs);
  const remove = (choice: Parameters<typeof removeCaches>[1]) => {
    const nowMs = Date.now();
    const { removed, inUse } = removeCaches(listCaches(cache, nowMs), choice, nowMs);
    return [removed, inUse].map((files) => files.map((file) => file.path));
  };
  t.deepEqual(remove({ all: true, dryRun: true }), [[second, first], [third]]);
  t.is(readdirSync(cache).length, 3);
  t.deepEqual(remove({ unusedMs: 1.5 * hourMs }), [[first], []]);
  t.deepEqual(remove({ names: [basename(third).slice(0, -10)] }), [[], [third]]);
  t.throws(() => remove({ names: ["synthetic"] }), {
    instanceOf: InvalidOptionError,
    message: /Expected the name of one cache, `synthetic` begins those of synthetic-/,
  });
  t.throws(() => remove({ names: ["csv"] }), {
    message: /There is no cache `csv` in .*: `osiris cache ls`/,
  });
  t.throws(() => remove({}), { message: /Expected what to remove: names/ });
  t.deepEqual(remove({ all: true }), [[second], [third]]);
  t.deepEqual(readdirSync(cache), [basename(third)]);
});
