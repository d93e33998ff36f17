// The whole process is killed, as by the system or a power failure; another process resumes the
// run.

import { fork } from "node:child_process";
import type { JobOptions, RunEvent } from "../../../index.ts";
import { calmResult, only, runJob, startTestCluster } from "../../helpers/clusters/clusters.ts";
import { equalsCalm } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";

/** Runs the job in a separate process, and kills it once step `step` is saved. */
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
  "a killed process's job resumes in another process from its last checkpoint",
  async (t) => {
    await using place = await startTestCluster();
    const job = place.job();
    await trainAndKill(job, 10);
    await trainAndKill(job, 30);
    const { result, events } = await runJob(place, job);
    await equalsCalm(t, result, calmResult());
    t.is(result.generation, 3);
    t.true((only(events, "run.started")[0]?.fromStep ?? 0) >= 30);
  },
);
