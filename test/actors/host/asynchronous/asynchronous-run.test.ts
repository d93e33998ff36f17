// A whole run of asynchronous training: the same queue, coordinators and checkpoints as synchronous
// training has, over trainers and parameter servers that are killed one by one.

import test, { type ExecutionContext } from "ava";
import { connect, listCheckpoints, loadModel, verifyRun } from "../../../../index.ts";
import type { JobOptions } from "../../../../internal.ts";
import { openKernels } from "../../../../src/kernels/index.ts";
import {
  inEpochs,
  only,
  runJob,
  type Story,
  startTestCluster,
  type TestCluster,
} from "../../../helpers/clusters/clusters.ts";
import { shared } from "../../../helpers/clusters/one-for-many.ts";
import { startServer } from "../../../helpers/models/served.ts";
import { startHost } from "../../../helpers/processes/host-processes.ts";

const onCluster = shared(() => startTestCluster(2));
/** Samples that the small job trains in an epoch: 2,700 of 3,000. */
const samples = 2700;

function asyncJob(place: TestCluster, overrides: Partial<JobOptions> = {}): JobOptions {
  const async = { threads: 2, servers: 2 };
  return place.job({ mode: "async", async, sharding: "auto", ...overrides });
}

/** Steps between two checkpoints. */
const everySteps = 240;

/**
 * Kills the threads one by one, each after a checkpoint that was taken once the thread killed
 * before had been replaced: all threads have saved parts of it. A thread is killed some steps after
 * the checkpoint, so that it has updated rows, and before the next one, which it would be saving.
 */
function killEach(t: ExecutionContext, { threads }: TestCluster, names: readonly string[]) {
  const left = [...names];
  let isMended = true;
  let saved: number | undefined;
  return (event: Story["events"][number]) => {
    if (event.type === "run.incident") isMended = event.end?.how === "mended";
    if (event.type === "run.checkpointed" && isMended) saved = event.step;
    if (event.type !== "run.progress" || saved === undefined) return;
    const since = event.step - saved;
    if (since < everySteps / 10 || since > everySteps * 0.8) return;
    for (const name of left.splice(0, 1)) t.true(threads.kill(name), name);
    [isMended, saved] = [false, undefined];
  };
}

const roles = [
  { killed: "trainer:1-0", actor: "device:1", what: "trainer", from: "center" },
  { killed: "sparse:1", actor: "sparse:1", what: "rows", from: "checkpoint" },
  { killed: "dense:0", actor: "dense:0", what: "center", from: "trainers" },
] as const;

onCluster.test(
  "a cancelled asynchronous run goes on where it ended, replaces killed threads, trains every " +
    "sample once an epoch, and its checkpoint is a model",
  async (t, place) => {
    const cuts = { checkpoint: { everySteps }, evaluation: { everySteps: 100_000 } };
    const job = asyncJob(place, { ...cuts, stepDeadlineMs: 60_000 });
    const begun = await runJob(place, inEpochs(job, 200), async ({ type }, run) => {
      if (type !== "run.progress") return;
      await t.throwsAsync(run.timelines(), { message: /"bounded" for a trace of steps, which/ });
      await run.cancel();
    });
    const { step } = begun.result;
    const [progress] = only(begun.events, "run.progress");
    t.true((progress?.secondsLeft ?? 0) > 0);
    t.true((progress?.pushLag?.batches ?? -1) >= 0 && (progress?.pushLag?.batches ?? 5) <= 4);
    t.is(begun.result.status, "cancelled");
    t.true(step > 0 && step < 43 * 200);
    t.is(listCheckpoints(begun.result.directory).checkpoints[0]?.cut, step);
    t.deepEqual(only(begun.events, "run.incident"), []);
    t.regex(
      only(begun.events, "run.started")[0]?.notice ?? "",
      /no run can be repeated bit by bit/,
    );

    const epochs = Math.ceil(step / 43) + 32;
    const names = roles.map(({ killed }) => killed);
    const { result, events } = await runJob(
      place,
      inEpochs(job, epochs),
      killEach(t, place, names),
    );
    t.is(result.status, "finished");
    t.is(result.step, 43 * epochs);
    const started = only(events, "run.started");
    t.deepEqual(
      started.map(({ fromStep }) => fromStep),
      [step],
      "the other threads trained on",
    );
    const lost = only(events, "run.lost");
    t.is(lost.length, roles.length);
    for (const [at, { actor, what, from }] of roles.entries()) {
      t.like(lost[at], { actor, what, from });
      t.is(only(events, "run.incident")[at]?.end?.how, "mended");
    }
    const { restarts, updates, samples: trained = 0 } = result.asynchronous ?? {};
    t.deepEqual(restarts, { trainer: 1, rows: 1, center: 1 });
    t.is(
      updates,
      lost.reduce((sum, one) => sum + one.updates, 0),
    );
    t.true((lost[1]?.updates ?? 0) > 0, "rows were updated since the cut");
    t.is(trained, epochs * samples, "the next thread trains batches in work");
    t.true(result.warnings.some(({ code }) => code === "NOT_REPRODUCIBLE"));

    // The checkpoint, read by the code of synchronous training, has the model that was evaluated.
    const model = await loadModel(result.directory);
    const { logLoss, auc } = await model.evaluate();
    t.true(Math.abs(logLoss - (result.logLoss ?? 0)) < 1e-5, `${logLoss}, ${result.logLoss}`);
    t.true(Math.abs(auc - (result.auc ?? 0)) < 1e-5, `${auc}, ${result.auc}`);
    const { set } = openKernels("auto");
    t.deepEqual(started[0]?.sets, [set]);
    t.like(listCheckpoints(result.directory).checkpoints[0], { mode: "async", sets: [set] });
    await t.throwsAsync(verifyRun(result.directory), {
      code: "NOT_REPLAYABLE",
      message: /trainers and servers kept no common order of updates \(mode: "async"\)/,
    });
  },
);

test.serial(
  "trainers on two hosts share servers of both, a host is lost, a client follows the job, and " +
    "its model is served",
  async (t) => {
    await using place = await startTestCluster(1);
    const lost = await startHost(t, place.cluster, { devices: 1 });
    const { url: nats, token } = place.cluster;
    await using client = await connect({ nats, ...(token !== undefined && { token }) });
    // Rows and a trainer are lost with the host: the whole run goes back to the last checkpoint.
    const epochs = 20; // Some seconds: the host is lost before the run is over.
    const cuts = { checkpoint: { everySteps: 40 }, evaluation: { everySteps: 1000 } };
    const job = inEpochs(asyncJob(place, { ...cuts, async: { threads: 1 } }), epochs);
    let isKilled = false;
    const { result, events } = await runJob({ cluster: client }, job, ({ type }) => {
      if (type !== "run.checkpointed" || isKilled) return;
      isKilled = true;
      lost.kill("SIGKILL");
    });
    t.is(result.status, "finished");
    const hosts = only(events, "run.started").map((one) => one.hosts.length);
    t.is(hosts[0], 2);
    t.is(hosts.at(-1), 1);
    t.is(result.asynchronous?.samples, epochs * samples, "samples since the checkpoint count once");
    await using model = await loadModel(result.directory);
    const { logLoss } = await model.evaluate();
    t.true(Math.abs(logLoss - (result.logLoss ?? 0)) < 1e-5, `${logLoss}, ${result.logLoss}`);
    const records = [{ I1: 0.1, I2: 0.2, I3: 0.3, I4: 0.4, a: 1, b: 2, c: 3 }];
    const { post } = await startServer(t, { models: { ctr: { path: result.directory } } });
    const { body } = await post("/v1/models/ctr:predict", { records });
    t.deepEqual(body.predictions, [...(await model.predict(records))]);
  },
);
