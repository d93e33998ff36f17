// The top-k all-reduce in whole runs: the same bits and residuals on any devices and after any
// kill; partial recovery keeps the residuals of the devices that live.

import test from "ava";
import type { JobOptions } from "../../../index.ts";
import { residualsOfPart } from "../../../src/training/checkpoint/part-names.ts";
import { openExistingStore } from "../../../storage/checkpoints/store/open-store.ts";
import { verifyCheckpoints } from "../../../storage/checkpoints/verify-checkpoints.ts";
import { only, runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";

function jobOf(place: EitherCluster, overrides: Partial<JobOptions> = {}): JobOptions {
  return place.job({ mode: "bounded", exchange: { topk: { share: 0.05 } }, ...overrides });
}

/** The residuals of the newest checkpoint, slice by slice: their files have one for each device. */
function residualsIn({ checkpoint }: JobOptions): Map<number, string> {
  const store = openExistingStore(checkpoint?.directory ?? "");
  const [newest] = store.list().manifests;
  const residuals = new Map<number, string>();
  for (const { name } of newest?.parts ?? []) {
    const run = residualsOfPart(name);
    if (newest === undefined || run === undefined) continue;
    const bytes = Uint8Array.from(store.readWholePart(newest, name));
    const words = new Uint32Array(bytes.buffer);
    let at = 3 + run.count;
    for (let i = 0; i < run.count; i++) {
      const end = at + (words[3 + i] ?? 0);
      residuals.set(run.first + i, words.subarray(at, end).join());
      at = end;
    }
  }
  return residuals;
}

test.serial(
  "top-k: the same digest and residuals on any devices, and after any kill",
  async (t) => {
    await using alone = await startCluster(1);
    const calmJob = jobOf(alone);
    const { result: calm } = await runJob(alone, calmJob);
    const residuals = residualsIn(calmJob);
    t.deepEqual([...residuals.keys()], [0, 1, 2, 3, 4, 5, 6, 7]);
    t.is(new Set(residuals.values()).size, 8);
    await using place = await startCluster(3);
    place.threads.plan([
      { actor: "device:1", generation: 1, step: 37, point: 5, effect: "exit" },
      { actor: "device:0", generation: 2, step: 30, point: 3, effect: "exit" },
    ]);
    const job = jobOf(place);
    const { result } = await runJob(place, job);
    t.is(result.generation, 3);
    t.is(result.digest, calm.digest);
    const own = residualsIn(job);
    for (const [slice, values] of residuals) t.is(own.get(slice), values, `slice ${slice}`);
  },
);

test.serial("a partial recovery keeps the residuals of the surviving devices", async (t) => {
  await using place = await startCluster(1, { minDevices: 3 });
  place.threads.plan([{ actor: "device:0", generation: 1, step: 25, point: 3, effect: "exit" }]);
  await place.join(2);
  const job = jobOf(place, { checkpoint: { everySteps: 20, keep: 100, partial: {} } });
  const { events } = await runJob(place, job);
  const [recovery] = only(events, "run.partial");
  const directory = job.checkpoint?.directory ?? "";
  const { manifests } = openExistingStore(directory).list();
  const slicesAt = (cut: number | undefined) => {
    const parts = manifests.find((one) => one.cut === cut)?.parts ?? [];
    return parts.reduce((sum, { name }) => sum + (residualsOfPart(name)?.count ?? 0), 0);
  };
  t.deepEqual(recovery?.devices, [0]);
  t.is(slicesAt(20), 8);
  t.is(slicesAt(recovery?.step), 6, "the lost device's residuals begin at 0");
  t.is(slicesAt(40), 8);
  t.true((await verifyCheckpoints(directory)).isIntact);
});
