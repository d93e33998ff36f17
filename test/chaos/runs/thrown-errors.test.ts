// An error thrown inside any actor, in mid-run: the run ends with the reference run's model.

import test from "ava";
import type { Target } from "../../../internal.ts";
import { only, runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { equalsCalm, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";

/**
 * Runs a job, and throws in `target` once step 20 is saved, while a device holds the run at step
 * 25.
 */
async function runAndThrow(
  place: EitherCluster,
  target: Omit<Target, "scope">,
  scope: "run" | "generation" | "cluster",
) {
  const hold = { actor: "device:0", generation: 1, step: 25, point: 2 } as const;
  place.threads.plan([{ ...hold, effect: "pause", pauseMs: 400 }]);
  let thrownAtMs = 0;
  const timing: string[] = [];
  const story = await runJob(place, place.job(), async (event, { run }) => {
    const isStart = event.type === "run.started" && event.generation > 1;
    const isTold = event.type === "run.incident" || event.type === "run.recovered";
    if (isStart || isTold)
      timing.push(`${event.type} after ${(performance.now() - thrownAtMs).toFixed(0)} ms`);
    if (event.type !== "run.checkpointed" || event.step !== 20 || event.generation !== 1) return;
    const scopes = {
      cluster: {},
      run: { scope: { run, generation: 0 } },
      generation: { scope: { run, generation: 1 } },
    };
    thrownAtMs = performance.now();
    await place.throwIn({ ...target, ...scopes[scope] }, `thrown in ${target.role}`);
  });
  return { ...story, timing: timing.join(", ") };
}

/** Actors whose failure ends the generation. `offender`: the name that run.incident reports. */
const participants = [
  { role: "device", index: 1, offender: "device:1" },
  { role: "shard", index: 0, offender: "device:0" },
  { role: "coordinator", index: 0, offender: "training" },
  { role: "checkpoint", index: 0, offender: "checkpoint" },
  { role: "writer", index: 1, offender: "writer:1" },
] as const;

for (const { role, index, offender } of participants) {
  // In `npm test`, seeds of simulated clusters throw in every role (chaos/simulation/scenario.ts).
  const isUsual = role !== "shard" && role !== "checkpoint";
  testIf(...(isUsual ? [] : [testAll])).serial(
    `a ${role} that throws costs one generation, and no bit`,
    async (t) => {
      await using place = await startCluster();
      const thrown = await runAndThrow(place, { role, index }, "generation");
      const { result, events, timing } = thrown;
      await equalsCalm(t, result);
      t.is(result.generation, 2);
      const [incident] = only(events, "run.incident");
      t.is(incident?.offender, offender);
      t.regex(incident?.error.message ?? "", new RegExp(`thrown in ${role}`));
      const [recovered] = only(events, "run.recovered");
      t.is(recovered?.fromStep, 20);
      t.log(timing);
    },
  );
}

test.serial("a reader that throws is replaced, and its generation continues", async (t) => {
  await using place = await startCluster();
  const before = place.threads.started();
  const { result, events } = await runAndThrow(place, { role: "reader" }, "generation");
  await equalsCalm(t, result);
  t.is(result.generation, 1);
  t.deepEqual(
    only(events, "run.incident").map(({ offender, supervisor }) => `${offender} of ${supervisor}`),
    ["reader:0 of host:0"],
  );
  // Preparation, two devices and their writers, a reader, and that reader's replacement.
  t.is(place.threads.started() - before, 7);
});

test.serial("a job supervisor that throws is restarted, and its run continues", async (t) => {
  await using place = await startCluster();
  const { result, events, timing } = await runAndThrow(place, { role: "job" }, "run");
  await equalsCalm(t, result);
  t.is(result.generation, 2);
  const [incident] = only(events, "run.incident");
  t.like(incident, { offender: `job:${result.run}`, supervisor: "queue" });
  t.log(timing);
});

test.serial("a host that throws is lost by its missing heartbeats, and joins again", async (t) => {
  await using place = await startCluster();
  const { result, events, timing } = await runAndThrow(place, { role: "host" }, "cluster");
  await equalsCalm(t, result);
  t.is(result.generation, 2);
  t.is(only(events, "run.incident")[0]?.error.code, "PEER_LOST");
  t.deepEqual(
    place.incidents.map(({ offender }) => offender),
    ["host:0"],
  );
  t.log(timing);
});

test.serial("a run queue that throws restarts, and resumes its run", async (t) => {
  await using place = await startCluster();
  const { result, timing } = await runAndThrow(place, { role: "queue" }, "cluster");
  await equalsCalm(t, result);
  t.is(result.generation, 2);
  t.deepEqual(
    place.incidents.map(({ offender }) => offender),
    ["queue"],
  );
  t.log(timing);
});

test.serial("a job service that throws does not affect a run", async (t) => {
  await using place = await startCluster();
  const { result, run } = await runAndThrow(place, { role: "jobs" }, "cluster");
  await equalsCalm(t, result);
  t.is(result.generation, 1);
  t.is((await run.status()).status, "finished");
  t.deepEqual(
    place.incidents.map(({ offender }) => offender),
    ["jobs"],
  );
});

test.serial("a cluster supervisor that throws restarts its tree with its runs", async (t) => {
  await using place = await startCluster();
  const { result, run, timing } = await runAndThrow(place, { role: "cluster" }, "cluster");
  await equalsCalm(t, result);
  t.is(result.generation, 2);
  t.is((await run.status()).status, "finished");
  t.deepEqual(
    place.incidents.map(({ offender }) => offender),
    ["cluster"],
  );
  t.log(timing);
});

test.serial("without `faultsAllowed`, an injected error is not thrown", async (t) => {
  await using place = await startCluster(2, { faultsAllowed: false });
  const { result } = await runAndThrow(place, { role: "coordinator" }, "generation");
  t.is(result.generation, 1);
});
