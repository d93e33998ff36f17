// Law 3: after any failure of device threads, the model equals that of the reference run.

import test from "ava";
import type { ThreadFault } from "../../../internal.ts";
import { only, runJob, smallSteps } from "../../helpers/clusters/clusters.ts";
import { calmRun, equalsCalm, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { someOrAll, thinned } from "../../helpers/thinned.ts";

const exit = (actor: string, generation: number, step: number, point = 5): ThreadFault => ({
  actor,
  generation,
  step,
  point,
  effect: "exit",
});

test.serial(
  "P4, P6: a device's thread may end at any step: same model, same history",
  async (t) => {
    await using place = await startCluster();
    const calm = await calmRun();
    t.is(calm.step, smallSteps);
    t.is(calm.generation, 1);
    // Before the first checkpoint, after a cut, between two cuts, in a cut (30), and in the last
    // step.
    const all = [0, 3, 10, 14, 29, 30, 42];
    const steps = someOrAll("steps in which a device ends", [0, 14, 30, 42], all);
    place.threads.plan(steps.map((step, i) => exit(`device:${i % 2}`, i + 1, step)));
    const { result, events } = await runJob(place, place.job());
    t.is(result.digest, calm.digest);
    t.deepEqual(result.history, calm.history);
    t.is(result.generation, steps.length + 1);
    const incidents = only(events, "run.incident");
    t.deepEqual(
      incidents.map(({ offender, error }) => `${offender} ${error.name} ${error.code}`),
      steps.map((_, i) => `device:${i % 2} PeerLostError PEER_LOST`),
    );
    // Each generation starts from the last cut, or from the cut before if the last was not
    // committed yet.
    const cuts = [0, ...steps.map((step) => 10 * Math.floor((step === 30 ? 29 : step) / 10))];
    const begun = only(events, "run.started").map(({ fromStep }) => fromStep);
    t.is(begun.length, cuts.length);
    t.true(
      begun.every((step, i) => [0, 10].includes((cuts[i] ?? 0) - step)),
      `${begun}`,
    );
    const recovered = only(events, "run.recovered");
    t.is(recovered.at(-1)?.generation, result.generation);
    t.log("recovery, s:", recovered.map(({ seconds }) => seconds.toFixed(2)).join(" "));
  },
);

// With batches in flight, a step has fewer points: its input dist ran in the step before.
for (const [depth, count] of [
  [1, 23],
  [3, 18],
] as const) {
  test.serial(
    `a device's thread may end at every store and every wait of a step: depth ${depth}`,
    async (t) => {
      await using place = await startCluster();
      const job = () => place.job({ evaluation: { everySteps: 40 }, pipeline: { depth } });
      const { result: calm } = await runJob(place, job());
      // The points of step 12, on one device or the other; the next generation is undamaged.
      const points = thinned(
        `points of a step at which a device ends, at depth ${depth}`,
        Array.from({ length: count }, (_, point) => point),
        9,
      );
      place.threads.plan(points.map((point, i) => exit(`device:${i % 2}`, i + 1, 12, point)));
      const { result, events } = await runJob(place, job());
      t.is(result.digest, calm.digest);
      t.deepEqual(result.history, calm.history);
      t.is(only(events, "run.incident").length, points.length);
    },
  );
}

test.serial("a device's thread may end while it evaluates, or while it saves", async (t) => {
  await using place = await startCluster();
  place.threads.plan([
    exit("device:0", 1, 15, 3),
    exit("device:1", 2, 15, 20),
    { actor: "device:1", generation: 3, command: "save" },
    { actor: "device:0", generation: 4, command: "save" },
    { actor: "device:1", generation: 5, command: "evaluate" },
    { actor: "device:0", generation: 6, command: "run" },
  ]);
  const { result, events } = await runJob(place, place.job());
  await equalsCalm(t, result);
  t.deepEqual(
    only(events, "run.incident").map(({ offender }) => offender),
    ["device:0", "device:1", "device:1", "device:0", "device:1", "device:0"],
  );
});

test.serial("all devices at once may end, repeatedly: same model, same history", async (t) => {
  await using place = await startCluster();
  place.threads.plan([
    exit("device:0", 1, 25),
    exit("device:1", 1, 25),
    exit("device:0", 2, 20, 0),
    exit("device:1", 2, 20, 0),
  ]);
  const { result } = await runJob(place, place.job(), (event) => {
    if (event.type !== "run.checkpointed" || event.step !== 40) return;
    for (const actor of place.threads.running()) place.threads.kill(actor);
  });
  await equalsCalm(t, result);
  t.true(result.generation >= 3);
});

test.serial(
  "P1: if one of three devices stands still, the wait graph names it, not its neighbours",
  async (t) => {
    await using place = await startCluster(3);
    const job = () => place.job({ stepDeadlineMs: 1500 });
    place.threads.plan([
      { actor: "device:1", generation: 1, step: 17, point: 4, effect: "stall" },
      // A thread may be slow within its deadline.
      { actor: "device:0", generation: 2, step: 22, point: 7, effect: "pause", pauseMs: 150 },
    ]);
    const { result, events } = await runJob(place, job());
    t.is(result.digest, (await calmRun()).digest);
    const incidents = only(events, "run.incident");
    t.is(incidents.length, 1);
    const [incident] = incidents;
    t.like(incident, {
      offender: "device:1",
      context: "device.run to step 20",
      step: 17,
      incident: 1,
    });
    t.is(incident?.error.code, "STEP_TIMEOUT");
    t.regex(incident?.noticedBy ?? "", /^device:[02]$/);
    const waits = incident?.waits ?? [];
    t.true(
      waits.some(
        ({ waiter, awaited, step }) => waiter !== awaited && awaited === "device:1" && step === 17,
      ),
    );
    t.false(waits.some(({ waiter }) => waiter === "device:1"));
    // The incident has one record, with its actions and its outcome.
    const [record, ...others] = result.incidents;
    t.is(others.length, 0);
    const [, next] = only(events, "run.started");
    const step = next?.fromStep;
    t.like(record?.end, { how: "restored", generation: 2, step });
    const did = record?.actions.map((action) => `${action.by} ${action.did}`) ?? [];
    t.deepEqual(did, [
      `job:${result.run} ended generation 1 on all hosts`,
      `job:${result.run} restarts the run after 50 ms`,
      `job:${result.run} allocated the devices: 3 of host:0`,
      `job:${result.run} claimed generation 2, from step ${step}`,
    ]);
    const after = record?.actions.map(({ afterMs }) => afterMs) ?? [];
    t.deepEqual(
      after,
      [...after].sort((a, b) => a - b),
    );
    t.like(only(events, "run.recovered")[0], { incidents: [{ incident: 1, end: record?.end }] });
  },
);

test.serial("the coordinator notices a hanging device that no other waits for", async (t) => {
  await using place = await startCluster(1);
  const job = () => place.job({ stepDeadlineMs: 800 });
  place.threads.plan([{ actor: "device:0", generation: 1, step: 17, point: 1, effect: "stall" }]);
  const { result, events } = await runJob(place, job());
  t.is(result.digest, (await calmRun()).digest);
  const [incident] = only(events, "run.incident");
  t.is(incident?.error.code, "STEP_TIMEOUT");
  t.like(incident, { offender: "device:0", noticedBy: "coordinator:0" });
});
