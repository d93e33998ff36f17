// Checkpoints are written while the devices train: after any kill between a cut and its commit, the
// run continues from the last commit to the same model, and a slow disk does not stop training.

import test from "ava";
import type { RunEvent } from "../../../index.ts";
import { verifyCheckpoints } from "../../../storage/checkpoints/verify-checkpoints.ts";
import { only, runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import {
  calmRun,
  equalsCalm,
  startCluster,
  startingWith,
  startOnThreads,
} from "../../helpers/clusters/either-clusters.ts";
import { startVirtualCluster } from "../../helpers/clusters/virtual-clusters.ts";
import { syncMs } from "../../helpers/processes/slow-disk-entry.ts";
import { isTestAll, thinned } from "../../helpers/thinned.ts";

test.serial("a writer may die at any point of a checkpoint", async (t) => {
  await using place = await startCluster();
  // Points of the last cut: the run ends once it is written, and makes no step meanwhile.
  const points = thinned(
    "points of a checkpoint at which a writer dies",
    Array.from({ length: 18 }, (_, point) => point),
    6,
  );
  place.threads.plan(
    points.map((point, i) => ({
      actor: `writer:${i % 2}`,
      generation: i + 1,
      step: 43,
      point,
      effect: "exit" as const,
    })),
  );
  const { result, events } = await runJob(place, place.job());
  await equalsCalm(t, result);
  const incidents = only(events, "run.incident");
  t.is(incidents.length, points.length);
  t.true(incidents.every(({ offender }, i) => offender === `writer:${i % 2}`));
  // The steps may end before the cut at 40 is written: then the kill hits cut 40.
  const begun = only(events, "run.started").map(({ fromStep }) => fromStep);
  t.true(
    begun.slice(1).every((step) => step === 30 || step === 40),
    `${begun}`,
  );
});

/** Starts a cluster whose writers have a slow disk. */
async function startSlowly(): Promise<EitherCluster> {
  const isWriter = (actor: string) => actor.startsWith("writer:");
  if (!isTestAll)
    return startVirtualCluster(2, { syncMsOf: (one) => (isWriter(one) ? 2 * syncMs : 0) });
  const slow = new URL("../../helpers/processes/slow-disk-entry.js", import.meta.url);
  return await startOnThreads(2, startingWith(slow, "writer:"));
}

/** Runs a job on that cluster. `on` gets every event, and a function that kills a thread. */
async function runSlowly(on: (event: RunEvent, kill: (actor: string) => void) => void = () => {}) {
  await using place = await startSlowly();
  const { kill } = place.threads;
  return await runJob(place, place.job({ stepDeadlineMs: 30_000 }), (event) => on(event, kill));
}

test.serial(
  "P12: a slow disk does not stop training, but only one checkpoint is written at a time",
  async (t) => {
    const { events, result } = await runSlowly();
    await equalsCalm(t, result);
    const saved = only(events, "run.checkpointed");
    t.deepEqual(
      saved.map(({ step }) => step),
      [10, 20, 30, 40, 43],
    );
    // Each part is synced, and each writer has several.
    const stalls = saved.map(({ stallMs }) => stallMs);
    t.true(Math.max(...stalls) < syncMs, `${stalls}`);
    // On a busy machine ten steps may take as long as the disk, and then a cut does not wait.
    const waits = saved.map(({ waitedMs }) => waitedMs);
    t.true(
      waits.some((waitedMs) => waitedMs > syncMs),
      `back-pressure: ${waits}`,
    );
    // Steps after a cut were done before the cut was on disk.
    const isAhead = ({ step, seq }: { readonly step: number; readonly seq: number }) =>
      only(events, "run.progress").some((one) => one.seq < seq && one.step > step);
    t.true(saved.some(isAhead));
  },
);

test.serial("a death between a cut and its commit costs the cut, and no bit", async (t) => {
  const victims = ["device:1", "writer:0", "reader:0", "writer:1", "device:0"];
  let killed = 0;
  let seen = 0;
  const { events, result } = await runSlowly((event, kill) => {
    if (event.type === "run.checkpointed") seen = event.step;
    const isBetween = event.type === "run.progress" && event.step > seen + 10;
    const victim = victims[killed];
    if (!isBetween || victim === undefined) return;
    killed++;
    kill(victim);
  });
  await equalsCalm(t, result);
  t.true(killed >= 3, `${killed} were killed`);
  t.true(only(events, "run.incident").length >= 2);
});

test.serial(
  "a bounded run may store weights in 8 bits, and restores a model near the original",
  async (t) => {
    const calm = await calmRun();
    await using place = await startCluster();
    place.threads.plan([{ actor: "device:0", generation: 1, step: 35, point: 3, effect: "exit" }]);
    const job = place.job({ mode: "bounded", checkpoint: { bits: 8 } });
    const { result, events } = await runJob(place, job);
    t.is(result.generation, 2);
    t.is(only(events, "run.incident").length, 1);
    t.not(result.digest, calm.digest);
    const [own = 0, other = 0] = [result.logLoss, calm.logLoss];
    t.true(Math.abs(own / other - 1) < 0.01, `${own}, ${other}`);
    const { isIntact, checkpoints } = await verifyCheckpoints(job.checkpoint?.directory ?? "");
    t.true(isIntact, JSON.stringify(checkpoints));
    t.true(checkpoints.length > 0);
    t.true(checkpoints.every(({ digest, storedDigest = digest }) => storedDigest !== digest));
  },
);
