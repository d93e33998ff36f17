// A tier reports for its device the rows in device memory, in host memory and on disk, with
// consistent numbers; and it writes its dirty rows to the disk on request.

import test from "ava";
import type { JobOptions, TierReport } from "../../../internal.ts";
import { runJob, smallModel } from "../../helpers/clusters/clusters.ts";
import { calmRun, startCluster } from "../../helpers/clusters/either-clusters.ts";

const model: JobOptions["model"] = {
  ...smallModel,
  tables: smallModel.tables?.map((table, i) => ({ ...table, tier: i === 0 ? "memory" : "cached" })),
};

const rest = { actor: "device:0", step: 20, point: 3, effect: "pause", pauseMs: 3000 } as const;

test.serial("a tier reports which rows are where, and flushes them on request", async (t) => {
  await using place = await startCluster(2);
  place.threads.plan([{ ...rest, generation: 1 }]);
  const tiers = { hbmBytes: 3000, ddrBytes: 20_000, prefetch: 1 };
  const reports: TierReport[] = [];
  let flushed = 0;
  let after: TierReport | undefined;
  const cachedRows = new Map<number, number>();
  const refusals: string[] = [];
  const story = await runJob(place, place.job({ model, devices: 2, tiers }), async (event, run) => {
    if (event.type !== "run.progress" || event.step !== 20) return;
    const { processes } = await place.cluster.client.inspect();
    reports.push(...processes.flatMap((one) => one.tiers));
    const [tier] = reports;
    if (tier === undefined) return;
    t.deepEqual(await run.inspectTier(tier.device), tier);
    for (const { actor, device, tier: where } of processes.flatMap((one) => one.shards)) {
      const report = await run.inspectShard(Number(actor.split(":")[1]));
      t.is(report.actor, actor);
      t.is(report.cachedRows === null, where === "memory");
      cachedRows.set(device, (cachedRows.get(device) ?? 0) + (report.cachedRows ?? 0));
    }
    for (const { device } of reports) flushed += await run.flushTier(device);
    after = await run.inspectTier(tier.device);
    const refused = (asked: Promise<unknown>) =>
      asked.catch((error: Error) => refusals.push(error.message));
    await refused(run.inspectTier(7));
    await refused(run.inspectShard(99));
  });
  t.is(story.result.digest, (await calmRun()).digest);
  t.true(reports.length > 0);
  let dirty = 0;
  for (const { actor, device, state, prefetch, tables, requestsMax } of reports) {
    t.is(actor, `tier:${device}`);
    t.is(state, "serving");
    t.is(prefetch, 1);
    t.true(requestsMax >= 2);
    for (const { table, rows, hbm, ddr, ssd } of tables) {
      t.true(table === "b" || table === "c");
      t.true(
        hbm.requested > 0 && hbm.hits > 0 && hbm.hits < hbm.requested,
        `${hbm.hits} ${hbm.requested}`,
      );
      t.is(hbm.hitRate, hbm.hits / hbm.requested);
      t.is(hbm.rows, hbm.requested - hbm.hits - hbm.evicted, "rows: misses without evictions");
      t.true(hbm.rows > 0 && hbm.rows <= Math.min(rows, hbm.slots));
      t.true(ddr !== null && ddr.rows <= ddr.slots && ddr.dirty <= ddr.rows && ddr.rows > 0);
      dirty += ddr?.dirty ?? 0;
      const missed = hbm.requested - hbm.hits;
      t.true(
        (ddr?.requested ?? 0) >= missed,
        "the next tier is asked for each missed row, before a step needs it",
      );
      t.true(ssd.rows <= rows && ssd.written >= ssd.rows);
    }
    t.is(
      cachedRows.get(device),
      tables.reduce((sum, { hbm }) => sum + hbm.rows, 0),
    );
  }
  t.true(flushed > 0);
  t.is(flushed, dirty);
  t.true(after?.tables.every(({ ddr }) => ddr?.dirty === 0));
  t.regex(refusals[0] ?? "", /`device` to be one of the run's devices, 0 to 1, with rows below/);
  t.regex(refusals[1] ?? "", /`shard` to be one of the run's shards, 0 to 2, got `99`/);
});

test.serial("a tier that dies while it flushes costs a restore and no bit", async (t) => {
  await using place = await startCluster(2);
  place.threads.plan([{ ...rest, generation: 1 }]);
  const tiers = { hbmBytes: 3000, ddrBytes: 20_000, prefetch: 1, ssd: "file" } as const;
  const story = await runJob(place, place.job({ model, devices: 2, tiers }), async (event, run) => {
    if (event.type !== "run.progress" || event.step !== 20 || event.generation > 1) return;
    const flush = run.flushTier(1).catch(() => 0);
    place.threads.kill("tier:1");
    await flush;
  });
  t.is(story.result.digest, (await calmRun()).digest);
  t.is(story.result.generation, 2);
});
