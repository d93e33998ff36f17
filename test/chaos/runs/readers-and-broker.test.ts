// Failures of parts other than devices: readers, the preparation, the data cache, the broker. The
// model is the same.

import { readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "ava";
import {
  compareWithReference,
  killAt,
  type RunEvent,
  type ThreadFault,
} from "../../../internal.ts";
import { idsRoom } from "../../../src/data/ids-room.ts";
import { only, runJob } from "../../helpers/clusters/clusters.ts";
import { calmRun, equalsCalm, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { isTestAll, someOrAll } from "../../helpers/thinned.ts";

const holdAt = (step: number, pauseMs: number): ThreadFault => ({
  actor: "device:0",
  generation: 1,
  step,
  point: 2,
  effect: "pause",
  pauseMs,
});

function onlyFile(directory: string): string {
  const [name = "none"] = readdirSync(directory);
  return join(directory, name);
}

function flipBit(path: string, offset: number): void {
  const bytes = readFileSync(path);
  bytes[offset] = (bytes[offset] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}

test.serial("a reader's thread may end at any time: another thread continues", async (t) => {
  await using place = await startCluster();
  place.threads.plan([holdAt(4, 200), holdAt(25, 200)]);
  const kills: boolean[] = [];
  const { result } = await runJob(place, place.job({ readers: 2 }), (event: RunEvent) => {
    if (event.type === "run.started") kills.push(place.threads.kill("reader:0"));
    if (event.type !== "run.checkpointed") return;
    if (event.step === 10) kills.push(place.threads.kill("reader:1"));
    if (event.step === 20) kills.push(place.threads.kill("reader:0"));
  });
  t.true(kills.filter((killed) => killed).length >= 2);
  await equalsCalm(t, result);
  t.is(result.generation, 1);
});

test.serial("a reader's thread may end at each of its stores and waits", async (t) => {
  await using place = await startCluster();
  for (const point of someOrAll("points of a reader", [0, 3], [0, 1, 2, 3])) {
    const fault = { actor: "reader:0", generation: 1, step: 12, point, effect: "exit" } as const;
    place.threads.plan([fault]);
    const { result } = await runJob(place, place.job());
    t.is(result.digest, (await calmRun()).digest);
    t.is(result.generation, 1);
  }
});

test.serial("the preparation's thread may end: the data is prepared again", async (t) => {
  await using place = await startCluster();
  let killed = false;
  const look = () => {
    killed = place.threads.kill("prepare");
    if (!killed) setImmediate(look);
  };
  look();
  const { result, events } = await runJob(place, place.job());
  t.true(killed);
  t.is(result.digest, (await calmRun()).digest);
  t.is(result.generation, 2);
  t.is(only(events, "run.incident")[0]?.error.code, "PEER_LOST");
});

for (const [what, harm, reason] of [
  ["damaged", (path: string) => flipBit(path, 64 + 40), "a reader found damage in it"],
  ["deleted", (path: string) => rmSync(path), undefined],
] as const) {
  test.serial(
    `a data cache may be ${what} in mid-run: it is made again, and the model is the same`,
    async (t) => {
      await using place = await startCluster();
      const job = place.job();
      place.threads.plan([holdAt(13, 300)]);
      const { result, events } = await runJob(place, job, (event: RunEvent) => {
        if (event.type !== "run.checkpointed" || event.step !== 10) return;
        harm(onlyFile(job.data.cache ?? ""));
        place.threads.kill("reader:0"); // The next reader opens the file.
      });
      await equalsCalm(t, result);
      t.is(result.generation, 2);
      const codes = only(events, "run.incident").map(({ error }) => error.code);
      t.deepEqual(codes, ["PEER_LOST", "DATA_CACHE_DAMAGED"]);
      const [remade, ...others] = only(events, "run.cache");
      t.is(others.length, 0);
      t.is(remade?.path, reason && onlyFile(job.data.cache ?? ""));
      t.true(remade?.reason.includes(reason ?? "") !== false, remade?.reason);
    },
  );
}

/**
 * Runs a job on 3,000 lines of text: after step 10 its cache is damaged, and `harm` damages the
 * text file.
 */
async function damageWithText(harm: (path: string) => void): Promise<RunEvent[]> {
  await using place = await startCluster();
  const { directory } = place.job().checkpoint ?? {};
  const path = join(dirname(directory ?? ""), "clicks.csv");
  const lines = Array.from({ length: 3000 }, (_, i) => `${i % 2},${i % 11},v${i % 7}`);
  writeFileSync(path, `y,d,a\n${lines.join("\n")}\n`);
  const tables = [{ name: "a", rows: 200, dim: 8 }];
  const model = { kind: "dlrm", dense: 1, tables, bottom: [8], top: [1] } as const;
  const { cache } = place.job().data;
  const columns = { label: "y", dense: ["d"], categorical: ["a"], batchSize: 64 };
  const data = { kind: "csv", paths: [path], ...columns, cache } as const;
  const job = { ...place.job(), model, data };
  place.threads.plan([holdAt(13, 300)]);
  const run = await place.cluster.submit(job);
  const events: RunEvent[] = [];
  for await (const event of run.events()) {
    events.push(event);
    if (event.type !== "run.checkpointed" || event.step !== 10) continue;
    flipBit(onlyFile(cache ?? ""), 64 + 40);
    harm(path);
    place.threads.kill("reader:0");
  }
  return events;
}

test.serial(
  "a damaged data cache fails the run if its source is gone or has changed",
  async (t) => {
    const gone = (await damageWithText((path) => rmSync(path))).at(-1);
    if (gone?.type !== "run.failed") return t.fail(gone?.type);
    t.is(gone.error.code, "INPUT_UNUSABLE");
    t.regex(gone.error.message, /^Cannot read the data file .*clicks\.csv: ENOENT/);
    const other = (path: string) => writeFileSync(path, `y,d,a\n${"1,2,b\n0,3,c\n".repeat(1500)}`);
    const changed = (await damageWithText(other)).at(-1);
    if (changed?.type !== "run.failed") return t.fail(changed?.type);
    t.log(changed.error.message);
    t.is(changed.error.code, "DATA_CHANGED");
    const touched = await damageWithText((path) => utimesSync(path, 1, 1));
    t.is(touched.at(-1)?.type, "run.finished", "the same text with another time");
  },
);

test.serial(
  "batches of long lists, longer than the room for them, give the same model though a reader dies",
  async (t) => {
    await using place = await startCluster();
    const { directory } = place.job().checkpoint ?? {};
    const path = join(dirname(directory ?? ""), "lists.csv");
    const [batchSize, batches, most] = [64, 10, 40];
    // All long lists meet in the last batches of the file.
    const lengthOf = (line: number) => (line < (batches - 1) * batchSize ? 1 : most);
    const lists = Array.from({ length: batches * batchSize }, (_, line) =>
      Array.from({ length: lengthOf(line) }, (_, i) => (7 * line + 5 * i) % 90),
    );
    const mean = lists.flat().length / lists.length;
    t.true(idsRoom(batchSize / 2, { mean, most }) < (batchSize / 2) * most, "the batch overflows");
    const lines = lists.map((list, line) => `${line % 2},${line % 11},${list.join("|")}`);
    writeFileSync(path, `y,d,tags\n${lines.join("\n")}\n`);
    const tables = [{ name: "tags", rows: 90, dim: 8, dedup: true }];
    const model = { kind: "dlrm", dense: 1, tables, bottom: [8], top: [1] } as const;
    const { cache } = place.job().data;
    const categorical = [{ column: "tags", ids: "integer", separator: "|" }] as const;
    const columns = { label: "y", dense: ["d"], categorical, batchSize, cache };
    const order = { shuffle: false, passes: 2 };
    const data = { kind: "csv", paths: [path], ...columns, ...order } as const;
    const evaluation = { everySteps: 10, fraction: 0.1 };
    const job = (devices: number) => ({ ...place.job(), model, data, evaluation, devices });
    const { result: alone } = await runJob(place, job(1));
    for (const point of someOrAll("points of a reader of long lists", [0, 2, 4], [0, 1, 2, 3, 4])) {
      const fault = { actor: "reader:0", generation: 1, step: 8, point, effect: "exit" } as const;
      place.threads.plan([fault]);
      const { result } = await runJob(place, job(2));
      t.is(result.digest, alone.digest, `${point}`);
      t.deepEqual(result.history, alone.history);
    }
  },
);

test.serial("the broker may die in mid-run: it restarts, and the run continues", async (t) => {
  await using place = await startCluster();
  place.threads.plan([holdAt(25, 400)]);
  let killedAtMs = 0;
  const waits: number[] = [];
  const { result, run, events } = await runJob(place, place.job(), async (event) => {
    if (killedAtMs > 0) waits.push(performance.now() - killedAtMs);
    if (event.type !== "run.checkpointed" || event.step !== 20) return;
    killedAtMs = performance.now();
    await place.cutBroker();
  });
  t.log(`the next event came after ${waits[0]?.toFixed(0)} ms`);
  await equalsCalm(t, result);
  t.true(!isTestAll || place.incidents.some(({ offender }) => offender === "broker"));
  // The follower missed no event, though the broker lost its messages.
  t.deepEqual(
    events.map(({ seq }) => seq),
    events.map((_, i) => i),
  );
  t.is((await run.status()).status, "finished");
  t.deepEqual(only(events, "run.incident"), []);
});

test.serial(
  "the chaos oracle compares a run that lost a device at a step with its reference run",
  async (t) => {
    await using place = await startCluster();
    place.threads.plan([holdAt(25, 400)]);
    const job = place.job();
    const run = await place.cluster.submit(job);
    const killedAt = await killAt(run, "device:1", { step: 20, threads: place.threads });
    // Progress of finished steps may be reported before the checkpoint of step 20 is committed.
    t.true(killedAt !== undefined && killedAt >= 20 && killedAt <= 25, `${killedAt}`);
    const verdict = await compareWithReference(run, job, { devices: 1 });
    t.true(verdict.equal, `${verdict.digest} ${verdict.referenceDigest}`);
    t.is(verdict.incidents.length, 1);
    t.is(verdict.incidents[0]?.offender, "device:1");
    t.is(verdict.recoverySeconds.length, 1);
    t.true(verdict.reference.generation === 1 && verdict.result.generation === 2);
  },
);
