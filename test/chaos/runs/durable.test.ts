// Durable tables on real threads: rows kept on disk beside a checkpoint equal the rows that the
// next generation would read from that checkpoint; otherwise it ignores them.

import {
  cpSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import test from "ava";
import type { JobOptions } from "../../../index.ts";
import { inEpochs, only, runJob, smallModel, smallSteps } from "../../helpers/clusters/clusters.ts";
import { calmRun, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { linux, rocksDb, testAll, testIf } from "../../helpers/needs.ts";
import { thinned } from "../../helpers/thinned.ts";

const tables = smallModel.tables ?? [];
const model: JobOptions["model"] = {
  ...smallModel,
  tables: tables.map((table, i) => ({
    ...table,
    tier: i === 0 ? "memory" : "cached",
    keep: i === 2 ? "durable" : "spill",
  })),
};

/** Caches of one set for each table of 200 rows: most rows are on the disk at any time. */
const small = { hbmBytes: 1, ddrBytes: 1, ssd: "file" } as const;

const directoryOf = ({ checkpoint }: JobOptions): string => checkpoint?.directory ?? "";
const tiersOf = (job: JobOptions): string => join(directoryOf(job), "tiers");

/** RocksDB does its work on other threads, so it cannot run in virtual time. */
const needsOf = (ssd: "file" | "rocksdb") => (ssd === "file" ? [] : [testAll, rocksDb]);

for (const ssd of ["file", "rocksdb"] as const) {
  testIf(...needsOf(ssd)).serial(
    `${ssd}: a resumed run finds its durable rows where it left them`,
    async (t) => {
      await using place = await startCluster(1);
      const job = place.job({ model, tiers: { ...small, ssd } });
      const first = await runJob(place, inEpochs(job, 1));
      t.is(first.result.status, "finished");
      const [kept] = only(first.events, "run.durable");
      t.like(kept, { action: "kept", device: 0, reason: undefined });
      t.true((kept?.rows ?? 0) > 100);
      t.is(allPersisted(job).length, 1);
      const { ssd: _, ...unsaid } = small;
      const leftOut = { ...job, tiers: unsaid };
      const second = await runJob(place, inEpochs(leftOut, 2));
      t.like(only(second.events, "run.durable")[0], { action: "found", rows: kept?.rows });
      t.is(second.result.digest, (await calmRun(2)).digest);
      t.deepEqual(second.result.stores, [ssd], "the store of the rows on disk is used");
      t.is(allPersisted(job).length, 1, "persisted again, under the last stamp");
      const other = ssd === "file" ? "rocksdb" : "file";
      const refused = runJob(place, inEpochs({ ...job, tiers: { ...small, ssd: other } }, 3));
      const error = await t.throwsAsync(refused, { code: "INVALID_OPTION" });
      t.regex(
        error?.message ?? "",
        new RegExp(
          `^Expected \`tiers.ssd\` to be left out, or \`${ssd}\`, whose rows this run has in \\S+, or delete that directory, got \`${other}\``,
        ),
      );
      t.is(allPersisted(job).length, 1, "the refused run removes no rows");
      await place.cluster.close();
      t.deepEqual(readdirSync(tiersOf(job)).length, 1);
    },
  );
}

/** The directories of persisted rows. */
function allPersisted(job: JobOptions): string[] {
  return readdirSync(tiersOf(job))
    .filter((name) => name.includes("-kept-"))
    .map((name) => join(tiersOf(job), name));
}

/** The only directory of persisted rows. */
function atRest(job: JobOptions): string {
  const [path, ...others] = allPersisted(job);
  if (path === undefined || others.length > 0)
    throw new Error("Expected one directory of persisted rows");
  return path;
}

/** Changes every byte of a file. */
function garble(path: string): void {
  writeFileSync(
    path,
    readFileSync(path).map((byte) => byte ^ 0x10),
  );
}

const logOf = (directory: string): string => {
  const folder = join(directory, "rocksdb");
  const log = readdirSync(folder).find((name) => name.endsWith(".log"));
  return join(folder, log ?? "");
};

/** Damage to persisted rows, and its report: why the run ignores the rows, or an incident. */
const damages = [
  [
    "file",
    "a torn stamp",
    /no stamp/,
    (path: string) => truncateSync(join(path, "records.json"), 80),
  ],
  ["file", "a garbled stamp", /no stamp/, (path: string) => garble(join(path, "records.json"))],
  [
    "file",
    "a garbled list of rows",
    /no stamp/,
    (path: string) => garble(join(path, "shard-0.set")),
  ],
  [
    "file",
    "no directory",
    /has no rows under its stamp/,
    (path: string) => rmSync(path, { recursive: true }),
  ],
  ["file", "flipped bits", "RECORD_CORRUPT", (path: string) => garble(join(path, "shard-0.rows"))],
  [
    "file",
    "a file cut short",
    "RECORD_CORRUPT",
    (path: string) => truncateSync(join(path, "shard-0.rows"), 40),
  ],
  [
    "file",
    "a disk that cannot be read",
    "TIER_READ",
    (path: string) => {
      rmSync(join(path, "shard-0.rows"));
      symlinkSync("/proc/self/mem", join(path, "shard-0.rows")); // Reads fail with EIO.
    },
  ],
  ["rocksdb", "a log cut short", /lost its end/, (path: string) => truncateSync(logOf(path), 900)],
  [
    "rocksdb",
    "no database",
    /Cannot read rows/,
    (path: string) => rmSync(join(path, "rocksdb"), { recursive: true }),
  ],
] as const;

for (const [ssd, what, told, damage] of thinned("damages to persisted rows", damages, 4)) {
  const needs = what.includes("read") ? [linux] : [];
  testIf(...needsOf(ssd), ...needs).serial(
    `${ssd}: ${what}: the rows come from the checkpoint`,
    async (t) => {
      await using place = await startCluster(1);
      const job = place.job({ model, tiers: { ...small, ssd } });
      await runJob(place, inEpochs(job, 1));
      damage(atRest(job));
      const { result, events } = await runJob(place, inEpochs(job, 2));
      t.is(result.digest, (await calmRun(2)).digest);
      const found = only(events, "run.durable").filter(({ action }) => action === "found");
      const incidents = only(events, "run.incident");
      if (typeof told === "string") {
        t.true((found[0]?.rows ?? 0) > 0);
        t.deepEqual(
          incidents.map(({ offender, error }) => [offender, error.code]),
          [["tier:0", told]],
        );
      } else {
        t.deepEqual(incidents, []);
        t.is(found[0]?.rows, 0);
        t.regex(found[0]?.reason ?? "", told);
      }
    },
  );
}

test.serial("persisted rows with the stamp of another checkpoint are ignored", async (t) => {
  await using place = await startCluster(1);
  const job = place.job({ model, tiers: small });
  await runJob(place, inEpochs(job, 1));
  const older = join(directoryOf(job), "older");
  cpSync(atRest(job), older, { recursive: true });
  await runJob(place, inEpochs(job, 2));
  const newer = atRest(job);
  rmSync(newer, { recursive: true });
  renameSync(older, newer);
  const { result, events } = await runJob(place, inEpochs(job, 3));
  t.is(result.digest, (await calmRun(3)).digest);
  t.like(only(events, "run.durable")[0], {
    action: "found",
    rows: 0,
    reason: "the persisted rows have the stamp of another checkpoint",
  });
});

testIf(testAll).serial(
  "persisted rows of another placement are ignored, and deleted with the next checkpoint",
  async (t) => {
    await using place = await startCluster(2);
    const job = place.job({ model, devices: 1, tiers: small });
    const cached = tables.map((table) => ({ ...table, tier: "cached", keep: "durable" }) as const);
    const wide = { ...job, model: { ...smallModel, tables: cached }, devices: 2 };
    await runJob(place, inEpochs(job, 1));
    const { result, events } = await runJob(place, inEpochs(wide, 2));
    t.is(result.digest, (await calmRun(2)).digest);
    const found = only(events, "run.durable").filter(({ action }) => action === "found");
    t.log(only(events, "run.incident").map((e) => JSON.stringify(e)));
    t.deepEqual(
      found.map(({ rows }) => rows),
      [0, 0],
    );
    const again = await runJob(place, inEpochs(wide, 3));
    const rows = only(again.events, "run.durable").map((event) => event.rows);
    t.is(rows.length, 4);
    t.true(rows.every((count) => count > 0));
    t.is(allPersisted(job).length, 2);
  },
);

test.serial("after a tier dies, its durable rows are read from the checkpoint", async (t) => {
  await using place = await startCluster(1);
  const job = place.job({ model, tiers: { ...small, prefetch: 0 } });
  await runJob(place, inEpochs(job, 1));
  place.threads.plan([
    { actor: "tier:0", generation: 2, step: smallSteps + 7, point: 0, effect: "exit" },
  ]);
  const { result, events } = await runJob(place, inEpochs(job, 2));
  t.is(result.digest, (await calmRun(2)).digest);
  const found = only(events, "run.durable").filter(({ action }) => action === "found");
  t.deepEqual(
    found.map(({ rows }) => rows > 0),
    [true, false],
  );
});
