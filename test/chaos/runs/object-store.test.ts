// Runs whose checkpoints lie in an object store, with real threads and HTTP: their models equal
// those of runs with a checkpoint directory, also after a lost thread, and commands read them.

import { once } from "node:events";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import test, { type ExecutionContext } from "ava";
import { verifyRun } from "../../../actors/verify/verify-run.ts";
import { loadModel, readRunLog } from "../../../internal.ts";
import { diffCheckpoints } from "../../../storage/checkpoints/diff-checkpoints.ts";
import { listCheckpoints } from "../../../storage/checkpoints/list-checkpoints.ts";
import { planRestore, restoreCheckpoint } from "../../../storage/checkpoints/restore-checkpoint.ts";
import { runHistory } from "../../../storage/checkpoints/run-history.ts";
import { stretchesOf } from "../../../storage/checkpoints/sample-ledger.ts";
import { verifyCheckpoints } from "../../../storage/checkpoints/verify-checkpoints.ts";
import { startDirectory } from "../../data/data-files.ts";
import { only, runJob, smallData, startTestCluster } from "../../helpers/clusters/clusters.ts";
import { calmRun } from "../../helpers/clusters/either-clusters.ts";
import { setEnvironment } from "../../helpers/environment.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { bucketEnvironment } from "../../objects/bucket-server.ts";

/** Starts a bucket's server in a thread of its own, as commands wait for it on this one. */
async function startBucket(t: ExecutionContext): Promise<void> {
  const server = new URL("../../objects/bucket-server-thread.js", import.meta.url);
  const thread = new Worker(server, { workerData: {} });
  t.teardown(() => thread.terminate());
  const [endpoint] = (await once(thread, "message")) as [string];
  setEnvironment(t, bucketEnvironment(endpoint));
}

test.serial(
  "a run in an object store loses a device and a writer, and has the same model",
  async (t) => {
    await startBucket(t);
    const calm = await calmRun();
    const directory = "s3://bucket/runs/one";
    await using place = await startTestCluster();
    place.threads.plan([
      { actor: "device:1", generation: 1, step: 27, point: 5, effect: "exit" },
      { actor: "writer:1", generation: 2, step: 43, point: 3, effect: "exit" },
    ]);
    const job = place.job({ checkpoint: { directory, keep: 20 }, stepDeadlineMs: 20_000 });
    const { result, events } = await runJob(place, job);
    t.is(result.digest, calm.digest);
    t.deepEqual(result.history, calm.history);
    t.is(result.generation, 3);
    t.is(result.directory, directory);
    t.is(only(events, "run.incident").length, 2);
    t.deepEqual(readRunLog(directory).lines, []);

    const { checkpoints, damaged } = listCheckpoints(directory);
    const [last, before] = checkpoints;
    t.deepEqual(damaged, []);
    t.is(last?.digest, calm.digest);
    t.true((await verifyCheckpoints(directory)).isIntact);
    t.deepEqual(
      runHistory(directory).map(({ step }) => step),
      result.history.map(({ step }) => step),
    );
    const stretches = stretchesOf(directory);
    t.is(stretches[0]?.from, 0);
    for (const [i, { from }] of stretches.entries())
      if (i > 0) t.is(from, stretches[i - 1]?.to ?? -1);
    t.deepEqual([...new Set(stretches.map(({ generation }) => generation))], [1, 2, 3]);
    const { tables } = await diffCheckpoints(
      directory,
      before?.manifest ?? "",
      last?.manifest ?? "",
    );
    t.true(tables.some(({ changed }) => changed > 0));
    await using model = await loadModel(directory);
    t.is(model.digest, calm.digest);
    const proof = await verifyRun(directory, { from: before?.manifest, to: last?.manifest });
    t.true(proof.leaves.length > 0 && proof.leaves.every(({ isEqual }) => isEqual));

    t.is(planRestore(directory, before?.manifest ?? "").givenUp.length, 1);
    await restoreCheckpoint(directory, before?.manifest ?? "");
    const { result: again } = await runJob(place, job);
    t.is(again.digest, calm.digest);
    t.is(again.generation, 5);
  },
);

// In `npm test`, warm-start.test.ts begins with checkpoints of directories.
testIf(testAll).serial(
  "a warm start from a directory to an object store, and the reverse, gives one model",
  async (t) => {
    await startBucket(t);
    const home = startDirectory(t);
    await using place = await startTestCluster();
    const short = (directory: string, warmStart?: { from: string }) => {
      const data = { ...smallData, samples: 700 };
      return place.job({ data, checkpoint: { directory }, ...(warmStart && { warmStart }) });
    };
    const digests: string[] = [];
    for (const [from, to] of [
      [join(home, "first"), "s3://bucket/second"],
      ["s3://bucket/first", join(home, "second")],
    ] as const) {
      const { result } = await runJob(place, short(from));
      const second = await runJob(place, short(to, { from }));
      t.is(only(second.events, "run.started")[0]?.fromStep, result.step);
      digests.push(second.result.digest);
    }
    t.is(new Set(digests).size, 1);
  },
);
