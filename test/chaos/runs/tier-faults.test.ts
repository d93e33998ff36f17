// Disk faults under a run with tables on that disk: full, slow, damaged, gone. The run continues
// with the bits of a run in memory, or fails with an error that says what to do; the host survives.

import { execFile } from "node:child_process";
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import test from "ava";
import type { JobOptions, RunEvent } from "../../../index.ts";
import { inEpochs, only, runJob, smallModel, smallSteps } from "../../helpers/clusters/clusters.ts";
import { calmRun, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { startVirtualCluster } from "../../helpers/clusters/virtual-clusters.ts";
import { linux, rocksDb, testAll, testIf } from "../../helpers/needs.ts";
import { openFilesIn } from "../../helpers/processes/open-files.ts";

const small = { hbmBytes: 1, ddrBytes: 1 } as const;
const inFile = { ...small, ssd: "file" } as const;
const kinds = ["file", "rocksdb"] as const;
/**
 * RocksDB does its work on other threads, so it cannot run in virtual time: only `npm run test:all`
 * tests it.
 */
const needsOf = (ssd: (typeof kinds)[number]) => (ssd === "file" ? [] : [testAll, rocksDb]);

/** The model of the other tests with cached tables of `rows` rows. */
function modelOf(rows: number, keep: "spill" | "durable" = "spill"): JobOptions["model"] {
  const tables = smallModel.tables ?? [];
  return {
    ...smallModel,
    tables: tables.map((table) => ({ ...table, rows, tier: "cached", keep })),
  };
}

const directoryOf = ({ checkpoint }: JobOptions): string => checkpoint?.directory ?? "";

// A full disk ----

/** Runs a job in a separate process with a limit on file size, which acts as a full disk. */
async function runFull(
  job: JobOptions,
  roomAfterMs: number,
): Promise<{ states: string[]; digest: string; pausedSeconds: number }> {
  const program = fileURLToPath(
    new URL("../../helpers/processes/full-disk-run.js", import.meta.url),
  );
  // Files of rows are sparse, so the limit refuses their last rows.
  const given = JSON.stringify({ job, fileBytes: 1 << 20, roomAfterMs });
  const { stdout } = await promisify(execFile)(process.execPath, [program, given]);
  return JSON.parse(stdout);
}

testIf(linux, testAll).serial(
  "P11: a run waits while the disk is full, even for longer than the step deadline",
  async (t) => {
    await using place = await startCluster(1);
    const model = modelOf(60_000);
    // Long enough to interrupt, without a checkpoint before its end.
    const data = { samples: 40_000 } as JobOptions["data"];
    const long = { data, checkpoint: { everySteps: 100_000 }, stepDeadlineMs: 8000 };
    const job = place.job({ ...long, model, tiers: inFile });
    const { states, digest, pausedSeconds } = await runFull(job, 10_000);
    t.deepEqual(states, ["paused", "serving"]);
    t.true(pausedSeconds > 8, `${pausedSeconds} s`);
    const tables = model.tables?.map((table) => ({ ...table, tier: "memory" }));
    const inMemory = { ...model, tables } as JobOptions["model"];
    const calm = await runJob(place, place.job({ ...long, model: inMemory }));
    t.is(digest, calm.result.digest);
  },
);

test.serial("P11: a run waits while the disk is full, in virtual time", async (t) => {
  const refusalOf = (actor: string, atMs: number) =>
    actor === "tier:0" && atMs < 5000 ? "ENOSPC" : undefined;
  await using place = startVirtualCluster(1, { refusalOf });
  const job = place.job({ model: modelOf(200), stepDeadlineMs: 2000, tiers: inFile });
  const { result, events } = await runJob(place, job);
  t.is(result.digest, (await calmRun()).digest);
  t.deepEqual(
    only(events, "run.tier").map(({ state }) => state),
    ["paused", "serving"],
  );
  t.deepEqual(only(events, "run.incident"), []);
});

test.serial(
  "a full checkpoint disk is reported at once, and cancelling the run ends the wait",
  async (t) => {
    const refusalOf = (actor: string) => (actor === "writer:0" ? "ENOSPC" : undefined);
    await using place = startVirtualCluster(1, { refusalOf });
    const run = await place.cluster.submit(place.job({ checkpoint: { everySteps: 5 } }));
    const events: RunEvent[] = [];
    const following = (async () => {
      for await (const event of run.events()) {
        events.push(event);
        if (event.type === "run.alert") await run.cancel();
      }
    })();
    await t.throwsAsync(() => run.result(), { message: /was cancelled/ });
    await following;
    t.like(only(events, "run.alert"), [{ code: "CHECKPOINT_DISK_FULL" }]);
    t.deepEqual(only(events, "run.incident"), [], "no deadline ended a generation");
  },
);

test.serial("P11: a disk that stays full fails the run, and the error says so", async (t) => {
  const refusalOf = (actor: string) => (actor === "tier:0" ? "ENOSPC" : undefined);
  await using place = startVirtualCluster(1, { refusalOf });
  const job = place.job({ model: modelOf(200), tiers: { ...inFile, diskFullWaitMs: 1000 } });
  const run = await place.cluster.submit(job);
  const states: string[] = [];
  for await (const event of run.events()) {
    if (event.type === "run.tier") states.push(event.state);
    if (event.type === "run.incident") states.push(`${event.offender} ${event.error.code}`);
  }
  t.deepEqual(states, ["paused", "tier:0 TIER_DISK_FULL"]);
  await t.throwsAsync(run.result(), { code: "TIER_DISK_FULL" });
});

// A slow disk ----

test.serial("P11: a slow disk is reported in an event, and changes no bit", async (t) => {
  let reads = 0;
  const readMsOf = (actor: string) => (actor === "tier:0" && ++reads === 20 ? 800 : 0);
  await using place = startVirtualCluster(1, { readMsOf });
  const { result, events } = await runJob(place, place.job({ model: modelOf(200), tiers: inFile }));
  t.is(result.digest, (await calmRun()).digest);
  const [first] = only(events, "run.tier");
  t.like(first, { device: 0, state: "slow" });
  t.regex(first?.message ?? "", /^Tier of device 0: its disk took more than 0.5 s for a request/);
  t.true((result.disk?.slowSeconds ?? 0) > 0);
});

// Damage ----

/**
 * The open files of a run's records, whose names are deleted. Tests of other files run in this
 * process, too, and have open files of their own, which must not be damaged.
 */
function openRecordFiles(directory: string): number[] {
  return openFilesIn(directory)
    .filter(({ path }) => path.endsWith(" (deleted)") && path.includes("/shard-"))
    .map(({ descriptor }) => descriptor);
}

const damages = [
  [
    "flipped bits",
    (file: number, bytes: number) =>
      void writeSync(file, new Uint8Array(bytes).fill(7), 0, bytes, 0),
  ],
  ["a file that is cut short", (file: number) => ftruncateSync(file, 0)],
] as const;

for (const [what, damage] of damages) {
  testIf(linux).serial(
    `P11: file: ${what} under a run cost a restore, and no row is wrong`,
    async (t) => {
      await using place = await startCluster(1);
      const job = place.job({ model: modelOf(200), tiers: { ...small, ssd: "file" } });
      let isDone = false;
      const { result, events } = await runJob(place, job, (event) => {
        if (event.type !== "run.checkpointed" || isDone) return;
        isDone = true;
        for (const descriptor of openRecordFiles(directoryOf(job))) {
          const file = openSync(`/proc/self/fd/${descriptor}`, "r+");
          damage(file, fstatSync(file).size);
          closeSync(file);
        }
      });
      t.is(result.digest, (await calmRun()).digest);
      t.deepEqual(
        only(events, "run.incident").map(({ offender, error }) => [offender, error.code]),
        [["tier:0", "RECORD_CORRUPT"]],
      );
    },
  );
}

testIf(testAll, rocksDb).serial(
  "P11: rocksdb: a corrupt block costs a restore, and no row is wrong",
  async (t) => {
    await using place = await startCluster(1);
    const job = place.job({ model: modelOf(200, "durable"), tiers: { ...small, ssd: "rocksdb" } });
    await runJob(place, inEpochs(job, 1));
    // Opening a database converts its log into SST files; after a few more steps most rows are
    // still there.
    const pause = { effect: "pause", pauseMs: 3000 } as const;
    place.threads.plan([
      { actor: "device:0", generation: 2, step: smallSteps + 5, point: 0, ...pause },
    ]);
    await runJob(place, inEpochs(job, 3), (event, run) => {
      return event.type === "run.started" ? run.cancel() : undefined;
    });
    const tiers = join(directoryOf(job), "tiers");
    const [name = ""] = readdirSync(tiers).filter((one) => one.includes("-kept-"));
    const tables = readdirSync(join(tiers, name, "rocksdb")).filter((one) => one.endsWith(".sst"));
    t.true(tables.length > 0);
    for (const table of tables) {
      const path = join(tiers, name, "rocksdb", table);
      const bytes = readFileSync(path);
      writeFileSync(path, bytes.fill(7, 0, bytes.length >> 1));
    }
    const { result, events } = await runJob(place, inEpochs(job, 3));
    t.is(result.digest, (await calmRun(3)).digest);
    const [found] = only(events, "run.durable");
    const codes = only(events, "run.incident").map(({ error }) => error.code);
    if (found?.reason === undefined) t.deepEqual(codes, ["RECORD_CORRUPT"]);
    else t.deepEqual(codes, [], found.reason);
  },
);

for (const ssd of kinds) {
  testIf(...needsOf(ssd)).serial(
    `${ssd}: a tier directory that is deleted under a run changes no bit`,
    async (t) => {
      await using place = await startCluster(1);
      const job = place.job({ model: modelOf(200, "durable"), tiers: { ...small, ssd } });
      const { result, events } = await runJob(place, job, (event) => {
        if (event.type === "run.checkpointed" && event.step === 20) {
          rmSync(join(directoryOf(job), "tiers"), { recursive: true, force: true });
        }
      });
      t.is(result.status, "finished");
      t.is(result.digest, (await calmRun()).digest);
      // An open file stays readable: only rows that should stay on disk are lost.
      t.deepEqual(only(events, "run.incident"), []);
      const [kept] = only(events, "run.durable").filter(({ action }) => action === "kept");
      t.is(kept?.rows, 0);
      t.regex(kept?.reason ?? "", /^Cannot write .*ENOENT|No such file/);
    },
  );
}
