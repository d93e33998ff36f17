// `osiris cache` as a command: it lists the caches of a trained job, and removes them.

import { readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { startDirectory } from "../data/data-files.ts";
import { runCli } from "../helpers/processes/cli.ts";
import { lastJson } from "../helpers/processes/start-cli.ts";

const job = {
  model: {
    kind: "dlrm",
    dense: 1,
    tables: [{ name: "c", rows: 9, dim: 4 }],
    bottom: [4],
    top: [1],
  },
  data: {
    kind: "csv",
    paths: ["data.csv"],
    label: "y",
    dense: ["d"],
    categorical: ["c"],
    batchSize: 8,
    cache: "cache",
  },
};

test.serial("caches are listed with their sources, and removed only with --yes", async (t) => {
  const directory = startDirectory(t);
  const run = (...args: string[]) => runCli(args, directory);
  const lines = Array.from({ length: 64 }, (_, i) => `${i % 2},${i},v${i % 5}`);
  writeFileSync(join(directory, "data.csv"), `y,d,c\n${lines.join("\n")}\n`);
  const caches = join(directory, "cache");
  const data = { ...job.data, paths: [join(directory, "data.csv")], cache: caches };
  const spec = resolveJob({ ...job, data } as JobOptions);
  await prepareCache(spec.data, spec.model.tables, realDisk);
  const listed = await run("cache", "ls", "--directory", "cache");
  t.regex(listed.stdout, /^1 cache in cache, .*\n +NAME +SAMPLES +BYTES +USED +SOURCE\n/);
  t.regex(listed.stdout, /csv-[0-9a-f]{24} +64 +[\d.]+ \w+ +in use +.*data\.csv\n$/);
  const busy = await run("cache", "rm", "--all", "--yes", "--directory", "cache");
  t.regex(busy.stdout, /^kept cache\/csv-.*: a run has just used it\n0 files, 0 B\n$/);
  const [name = ""] = readdirSync(caches);
  utimesSync(join(caches, name), 1, 1);
  const dry = await run("cache", "rm", name.slice(0, 8), "--directory", "cache");
  t.regex(dry.stdout, /^would remove cache\/csv-.*\n1 file, .*; `--yes` removes them\n$/);
  t.deepEqual(readdirSync(caches), [name]);
  const old = await run(
    "cache",
    "rm",
    "--older-than",
    "30d",
    "--yes",
    "--directory",
    "cache",
    "--json",
  );
  t.like(lastJson(old), { report: "cache.rm", dryRun: false, inUse: [] });
  t.deepEqual(readdirSync(caches), []);
  const none = await run("cache", "rm", "--directory", "cache");
  t.is(none.code, 2);
  t.regex(
    none.stderr,
    /^osiris: Expected what to remove: names of caches, `--older-than` or `--all`/,
  );
  const wrong = await run("cache", "rm", "--older-than", "soon");
  t.is(wrong.code, 2);
  t.regex(wrong.stderr, /Expected a time, as in 30m, 12h, 30d or 2w/);
});
