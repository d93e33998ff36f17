// Runs in the split order: neither failures in the midst of a split nor the number of devices
// change a bit of the model.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import type { RunEvent, RunResult, ThreadFault } from "../../../internal.ts";
import { only, runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { calmRun, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { startVirtualCluster } from "../../helpers/clusters/virtual-clusters.ts";
import { isTestAll } from "../../helpers/thinned.ts";

const split = (place: EitherCluster, rest = {}) => {
  const job = place.job(rest);
  return { ...job, data: { ...job.data, order: "split" as const, epochs: 2 } };
};

/** Pauses device 0 before a step, so that a test can inject a fault there. */
const holdAt = (step: number): ThreadFault => ({
  actor: "device:0",
  generation: 1,
  step,
  point: 2,
  effect: "pause",
  pauseMs: 300,
});

async function undisturbed(devices: number): Promise<RunResult> {
  // In virtual time, a read of the cache takes 2 ms.
  const readMsOf = (actor: string) => (actor.startsWith("reader:") ? 2 : 0);
  await using place = isTestAll
    ? await startCluster(devices)
    : startVirtualCluster(devices, { readMsOf });
  return (await runJob(place, split(place))).result;
}

let onTwo: Promise<RunResult> | undefined;

/** The result of the undisturbed job on two devices. */
function calm(): Promise<RunResult> {
  onTwo ??= undisturbed(2);
  return onTwo;
}

test.serial(
  "in the split order the model is the same on 1 to 3 devices, and not that of global order",
  async (t) => {
    const result = await calm();
    // Splits of 32 training samples, between which evaluation samples lie, overlap 2 or 3 blocks.
    const { overRead = 0, waitMs = 0 } = result.times?.splits ?? {};
    t.true(overRead > 1.2 && overRead < 3.2, `${overRead}`);
    t.true(waitMs > 0, "a reader waits for its splits");
    for (const devices of [1, 3]) t.is((await undisturbed(devices)).digest, result.digest);
    t.not(result.digest, (await calmRun(2)).digest);
  },
);

test.serial("readers and devices may end in mid-split: same model", async (t) => {
  const expected = await calm();
  await using place = await startCluster();
  place.threads.plan([holdAt(4), holdAt(25)]);
  const { result } = await runJob(place, split(place, { readers: 2 }), (event: RunEvent) => {
    if (event.type === "run.started") place.threads.kill("reader:1");
    if (event.type !== "run.checkpointed") return;
    if (event.step === 10) place.threads.kill("reader:0");
    if (event.step === 40) place.threads.kill("device:1");
  });
  t.is(result.digest, expected.digest);
  t.deepEqual(result.history, expected.history);
  t.is(result.generation, 2, "only the lost device costs a generation");
});

test.serial("a cache block that is damaged in mid-split is made again: same model", async (t) => {
  const expected = await calm();
  await using place = await startCluster();
  const job = split(place);
  place.threads.plan([holdAt(13)]);
  const { result, events } = await runJob(place, job, (event: RunEvent) => {
    if (event.type !== "run.checkpointed" || event.step !== 10) return;
    const [name = "none"] = readdirSync(job.data.cache ?? "");
    const path = join(job.data.cache ?? "", name);
    const bytes = readFileSync(path);
    for (let at = 64; at < bytes.length - 10_000; at += 500) bytes[at] = (bytes[at] ?? 0) ^ 1;
    writeFileSync(path, bytes);
    place.threads.kill("reader:0");
  });
  t.is(result.digest, expected.digest);
  const codes = only(events, "run.incident").map(({ error }) => error.code);
  t.true(codes.includes("DATA_CACHE_DAMAGED"), codes.join());
});
