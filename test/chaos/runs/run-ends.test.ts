// How runs end: stopped early, cancelled, resumed, refused; a kill in mid-run changes nothing.

import test, { type ExecutionContext } from "ava";
import { type JobOptions, RemoteError, readRunLog } from "../../../index.ts";
import { jobIdentity, resolveJob } from "../../../src/job/job.ts";
import { openExistingStore, openStore } from "../../../storage/checkpoints/store/open-store.ts";
import { only, runJob, smallData, smallSteps } from "../../helpers/clusters/clusters.ts";
import { calmRun, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { isTestAll } from "../../helpers/thinned.ts";

const exitAt = (step: number, generation = 1, actor = "device:1") =>
  ({ actor, generation, step, point: 5, effect: "exit" }) as const;

test.serial("early stopping returns the best checkpoint, even after kills", async (t) => {
  await using place = await startCluster();
  const job = () =>
    place.job({
      data: { ...smallData, epochs: 4 },
      optimizer: { dense: { kind: "adagrad", learningRate: 0.3 } },
      evaluation: { everySteps: 7, earlyStopping: { metric: "auc", patience: 2 } },
    });
  const { result: calm, events } = await runJob(place, job());
  t.is(calm.status, "stopped-early");
  const best = only(events, "run.evaluated").reduce((a, b) =>
    b.metrics.auc > a.metrics.auc ? b : a,
  );
  t.is(calm.step, best.step);
  t.is(calm.auc, best.metrics.auc);
  // One kill in the evaluation of the best cut, and one in the evaluation of the last bad cut.
  const last = calm.history.at(-1)?.step ?? 0;
  place.threads.plan([exitAt(calm.step), exitAt(last, 2)]);
  const { result } = await runJob(place, job());
  t.is(result.generation, 3);
  t.is(result.digest, calm.digest);
  t.is(result.step, calm.step);
  t.deepEqual(result.history, calm.history);
});

test.serial(
  "a run stops at the evaluation that reaches its target, on one device and after a kill",
  async (t) => {
    await using place = await startCluster();
    const usual = { data: { ...smallData, epochs: 2 } };
    const job = (target: number) =>
      place.job({
        ...usual,
        recoveryMs: 1,
        evaluation: { everySteps: 7, earlyStopping: { metric: "logLoss", target } },
      });
    const { result: whole } = await runJob(place, job(0));
    t.is(whole.status, "finished");
    const reached = whole.history.find(
      ({ step, evaluation }) => step > 14 && evaluation !== undefined,
    );
    const target = reached?.evaluation?.logLoss ?? 0;
    const first = whole.history.find(({ evaluation }) => (evaluation?.logLoss ?? 9) <= target);
    place.threads.plan([exitAt((first?.step ?? 0) - 2)]);
    const two = await runJob(place, job(target));
    const one = await runJob(place, { ...job(target), devices: 1 });
    for (const { result } of [one, two]) {
      t.like(result, {
        status: "stopped-early",
        step: first?.step,
        logLoss: first?.evaluation?.logLoss,
      });
      t.is(result.digest, one.result.digest);
    }
    t.is(two.result.generation, 2);
    const alerts = [one, two].map(({ events }) =>
      only(events, "run.alert").map(({ code }) => code),
    );
    t.deepEqual(alerts, [[], ["RECOVERY_SLOW"]]);
  },
);

test.serial("a cancelled run can be resumed, and ends with the same model", async (t) => {
  await using place = await startCluster();
  const job = place.job();
  const hold = { actor: "device:0", generation: 1, step: 25, point: 2 } as const;
  place.threads.plan([{ ...hold, effect: "pause", pauseMs: 300 }]);
  const { result: cancelled } = await runJob(place, job, (event, run) =>
    event.type === "run.checkpointed" && event.step === 20 ? run.cancel() : undefined,
  );
  t.is(cancelled.status, "cancelled");
  t.true(cancelled.step >= 20 && cancelled.step < smallSteps, `${cancelled.step}`);
  const { result, events } = await runJob(place, job);
  t.is(only(events, "run.started")[0]?.fromStep, cancelled.step);
  t.is(result.status, "finished");
  t.is(result.digest, (await calmRun()).digest);
});

test.serial("a run that is cancelled while it waits never starts", async (t) => {
  await using place = await startCluster();
  const first = await place.cluster.submit(place.job());
  const second = await place.cluster.submit(place.job());
  await second.cancel();
  await t.throwsAsync(second.result(), { instanceOf: RemoteError, code: "RUN_CANCELLED" });
  t.is((await second.status()).status, "cancelled");
  t.is((await first.result()).status, "finished");
});

test.serial("a finished run that is submitted again returns the same result", async (t) => {
  await using place = await startCluster();
  const job = place.job();
  const { result: first } = await runJob(place, job);
  const { result, events } = await runJob(place, job);
  t.is(result.digest, first.digest);
  t.deepEqual(result.history, first.history);
  t.is(only(events, "run.started").length, 0);
});

/** The error of a run that must fail. */
async function failureOf(t: ExecutionContext, ended: Promise<unknown>) {
  return await t.throwsAsync(ended, { instanceOf: RemoteError });
}

test.serial("a directory of another job is refused", async (t) => {
  await using place = await startCluster();
  const job = place.job();
  await runJob(place, job);
  const error = await failureOf(t, runJob(place, { ...job, seed: 99 }));
  t.is(error?.code, "CHECKPOINT_FOREIGN");
  t.is(error?.name, "CheckpointForeignError");
});

test.serial("a run that needs too many restores fails with the last cause", async (t) => {
  await using place = await startCluster();
  place.threads.plan([1, 2, 3, 4].map((generation) => exitAt(3, generation)));
  const restarts = { restartsMax: 2, windowMs: 600_000 };
  const job = place.job({ restarts });
  const error = await failureOf(t, runJob(place, job));
  t.is(error?.code, "RESTART_LIMIT");
  t.regex(error?.message ?? "", /Gave up after 2 restarts.*Lost device:1/);
  if (!isTestAll) return; // In virtual time there is no log.
  // Each failure is a line of the log, though all are one incident.
  const { lines } = readRunLog(job.checkpoint?.directory ?? "");
  const tries = lines.filter(({ actor }) => `${actor}`.startsWith("job:"));
  const messages = tries.map(({ message }) => `${message}`.replace(/:.*/, ""));
  t.deepEqual(
    messages.filter((message) => message !== "generation claimed"),
    ["restarts the run after 50 ms", "restarts the run after 100 ms", "ended the run as failed"],
  );
});

test.serial("a loss that is not finite fails the run at once", async (t) => {
  await using place = await startCluster();
  const sgd = { kind: "sgd", learningRate: 1e30 } as const;
  const job = place.job({ optimizer: { dense: sgd, sparse: sgd } });
  const run = await place.cluster.submit(job);
  const error = await failureOf(t, run.result());
  t.is(error?.code, "NON_FINITE_LOSS");
  t.is(error?.name, "NonFiniteLossError");
  const incidents = [];
  for await (const event of run.events()) if (event.type === "run.incident") incidents.push(event);
  t.is(incidents.length, 1);
  t.is(incidents[0]?.generation, 1);
});

test.serial("a checkpoint of other kernels is refused, and the error names them", async (t) => {
  await using place = await startCluster();
  const job: JobOptions = place.job();
  const { result } = await runJob(place, { ...job, arithmetic: "reference" });
  const { result: native } = await runJob(place, place.job());
  if (native.arithmetic === result.arithmetic) {
    t.log("There are only the reference kernels here: nothing to refuse.");
    t.pass();
    return;
  }
  const error = await failureOf(t, runJob(place, job));
  t.is(error?.code, "ARITHMETIC_MISMATCH");
  t.true(error?.message.includes(result.arithmetic));
  t.true(error?.message.includes(native.arithmetic));
  t.regex(error?.message ?? "", /checkpoint in .*Set `arithmetic: reference` to go on; or start/);
});

test.serial("a writer of an older generation is refused by the store", async (t) => {
  await using place = await startCluster();
  const calm = await calmRun();
  const job = place.job();
  const directory = job.checkpoint?.directory ?? "";
  place.threads.plan([exitAt(25)]);
  const { result } = await runJob(place, job);
  t.is(result.generation, 2);
  const store = openExistingStore(directory);
  const fenced = { code: "GENERATION_FENCED" };
  t.throws(() => store.packWriter(1, 30, "d0").begin("dense"), fenced);
  const [manifest] = store.list().manifests;
  if (manifest === undefined) throw new Error("There is no checkpoint");
  t.throws(() => store.commit({ ...manifest, cut: 44, generation: 1 }), fenced);
  t.is(store.latest()?.modelDigest, calm.digest.replace("sha256:", ""));
});

test.serial("a run whose store was taken over by another process stops", async (t) => {
  await using place = await startCluster();
  const job = place.job();
  const spec = resolveJob(job);
  const run = await place.cluster.submit(job);
  let error: unknown;
  try {
    for await (const event of run.events()) {
      if (event.type !== "run.checkpointed" || event.step !== 10) continue;
      openStore({
        directory: spec.checkpoint.directory,
        jobIdentity: jobIdentity(spec),
        jobText: JSON.stringify(spec),
      }).beginGeneration();
    }
    await run.result();
  } catch (caught) {
    error = caught;
  }
  t.is((error as RemoteError | undefined)?.code, "GENERATION_FENCED");
  // No thread of a finished run is left.
  for (let looks = 0; looks < 200 && place.threads.running().length > 0; looks++) {
    await new Promise<void>((resume) => setTimeout(resume, 10));
  }
  t.deepEqual(place.threads.running(), []);
});
