// Runs whose samples are made by preprocessing workers: the model is that of readers that make them
// themselves, whoever makes which split, and whatever dies.

import test from "ava";
import { type RunEvent, throwIn } from "../../../index.ts";
import { only, runJob, startTestCluster } from "../../helpers/clusters/clusters.ts";
import { jobOnDays, streamedOutcome, writeDays } from "../../helpers/clusters/days.ts";

const preprocessing = { workersMin: 2, workersMax: 2 };

test.serial("workers make the splits: the model is that of the readers alone", async (t) => {
  const home = writeDays(t);
  const calm = await streamedOutcome(1, home, { streamed: true });
  for (const devices of [1, 3]) {
    const served = await streamedOutcome(devices, home, { streamed: true }, { preprocessing });
    t.deepEqual(served, calm, `${devices} devices`);
  }
});

test.serial("workers, the master, readers and devices may end at any time", async (t) => {
  const home = writeDays(t);
  const calm = await streamedOutcome(1, home, { streamed: true });
  await using place = await startTestCluster(2);
  const job = jobOnDays(place, home, { streamed: true }, { preprocessing, readers: 2 });
  const { result, events } = await runJob(place, job, async (event: RunEvent, { run }) => {
    if (event.type === "run.started") place.threads.kill("worker:0");
    if (event.type !== "run.checkpointed") return;
    if (event.step === 10) place.threads.kill("worker:1");
    if (event.step === 20) {
      const scope = { run, generation: event.generation };
      await throwIn(place.cluster, { role: "master", index: 0, scope }, "for a test");
    }
    if (event.step === 30) place.threads.kill("reader:1");
    if (event.step === 40) place.threads.kill("device:1");
    if (event.step === 50) place.threads.kill("worker:0");
  });
  t.deepEqual({ digest: result.digest, history: result.history }, calm);
  const offenders = only(events, "run.incident").map(({ offender }) => offender);
  t.true(offenders.includes("master:0"), offenders.join());
});
