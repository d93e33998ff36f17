// One run on real threads, in which each kind of part is lost once. The other files of this folder
// lose parts in many more ways, in virtual time.

import test from "ava";
import { type JobOptions, readRunLog, type ThreadFault, throwIn } from "../../../internal.ts";
import { only, runJob, smallModel, startTestCluster } from "../../helpers/clusters/clusters.ts";
import { equalsCalm } from "../../helpers/clusters/either-clusters.ts";

const model: JobOptions["model"] = {
  ...smallModel,
  tables: smallModel.tables.map((table, i) => ({ ...table, tier: i === 0 ? "memory" : "cached" })),
};
const tiers = { hbmBytes: 1, ddrBytes: 1, prefetch: 0 } as const;

/** Longer than any wait of this test. */
const pauseMs = 120_000;
const faults: readonly ThreadFault[] = [
  { actor: "device:0", generation: 1, step: 25, point: 2, effect: "pause", pauseMs },
  { actor: "device:1", generation: 2, step: 27, point: 5, effect: "exit" },
  { actor: "tier:0", generation: 3, step: 33, point: 0, effect: "exit" },
  { actor: "writer:1", generation: 4, step: 43, point: 3, effect: "exit" },
  { actor: "device:0", generation: 5, step: 42, point: 1, effect: "stall" },
  { actor: "device:0", generation: 6, step: 42, point: 2, effect: "pause", pauseMs },
];

test.serial(
  "losing a reader, an actor, a device, a tier, a writer and the broker changes no bit",
  async (t) => {
    await using place = await startTestCluster();
    place.threads.plan(faults);
    const job = place.job({ model, tiers, stepDeadlineMs: 10_000 });
    const { result, run, events } = await runJob(place, job, async (event, { run }) => {
      const { generation } = event;
      if (event.type === "run.started" && generation === 1) place.threads.kill("reader:0");
      if (event.type === "run.checkpointed" && event.step === 20 && generation === 1) {
        const scope = { run, generation };
        await throwIn(place.cluster, { role: "coordinator", scope }, "thrown in it");
        place.threads.goOn("device:0");
      }
      if (event.type === "run.started" && generation === 6) {
        await place.cluster.killBroker();
        while (!place.threads.isInjected("device:0")) await new Promise(setImmediate);
        place.threads.goOn("device:0");
      }
    });
    await equalsCalm(t, result);
    t.is(result.generation, 6);
    const incidents = only(events, "run.incident");
    t.deepEqual(
      incidents.map(({ offender, error }) => `${offender} ${error.code}`),
      [
        "reader:0 PEER_LOST",
        `training ${incidents[1]?.error.code}`,
        "device:1 PEER_LOST",
        "tier:0 PEER_LOST",
        "writer:1 PEER_LOST",
        "device:0 STEP_TIMEOUT",
      ],
    );
    t.regex(incidents[1]?.error.message ?? "", /thrown in it/);
    t.true(place.incidents.some(({ offender }) => offender === "broker"));
    // The follower missed no event, though the broker lost its messages.
    t.deepEqual(
      events.map(({ seq }) => seq),
      events.map((_, i) => i),
    );
    t.is((await run.status()).status, "finished");
    // Each failure is a line of the log.
    const { lines } = readRunLog(result.directory);
    const jobLines = lines.filter(({ actor }) => actor === `job:${result.run}`);
    t.is(jobLines.filter(({ message }) => /^restarts the run after/.test(`${message}`)).length, 5);
  },
);
