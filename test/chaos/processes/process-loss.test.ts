// The whole process is killed, as the system or a power cut does it; another process goes on.

import { fork } from "node:child_process";
import type { JobOptions, RunEvent } from "../../../index.ts";
import { calmResult, only, runJob, startTestCluster } from "../../helpers/clusters/clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";

/** Runs the job in a separate process, killed once step `step` is saved. */
async function trainAndKill(job: JobOptions, step: number): Promise<void> {
  const doomed = fork(new URL("../../helpers/processes/doomed.js", import.meta.url), [
    JSON.stringify(job),
  ]);
  doomed.on("message", (event: RunEvent) => {
    if (event.type === "run.checkpointed" && event.step >= step) doomed.kill("SIGKILL");
  });
  await new Promise<void>((resolve) => doomed.once("exit", () => resolve()));
}

testIf(testAll).serial(
  "a process may be killed: another goes on from its last checkpoint",
  async (t) => {
    await using place = await startTestCluster();
    const calm = await calmResult();
    const job = place.job();
    await trainAndKill(job, 10);
    await trainAndKill(job, 30);
    const { result, events } = await runJob(place, job);
    t.is(result.digest, calm.digest);
    t.deepEqual(result.history, calm.history);
    t.is(result.generation, 3);
    t.true((only(events, "run.started")[0]?.fromStep ?? 0) >= 30);
  },
);
