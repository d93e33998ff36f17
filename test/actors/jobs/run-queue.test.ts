// The queue of a whole cluster: runs train concurrently, preempt each other, are paused, and
// outlive the leader's process.

import { appendFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { type JobOptions, RemoteError, type Run, type RunEvent } from "../../../index.ts";
import { startDirectory } from "../../data/data-files.ts";
import { inEpochs, only, startTestCluster } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { calmRun, equalsCalm, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { shared } from "../../helpers/clusters/one-for-many.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { isTestAll } from "../../helpers/thinned.ts";
import { until } from "../../helpers/until.ts";

const onCluster = shared(() => startCluster(2));

/** Follows a run and calls `on` with every event. Resolves to all events, in order. */
async function follow(run: Run, on: (event: RunEvent) => unknown = () => {}): Promise<RunEvent[]> {
  const events: RunEvent[] = [];
  for await (const event of run.events()) {
    events.push(event);
    await on(event);
  }
  return events;
}

/** Waits for the first event of a type. */
async function first(run: Run, type: RunEvent["type"]): Promise<void> {
  for await (const event of run.events()) if (event.type === type) return;
}

const epochs = isTestAll ? 4 : 1;
const longJob = ({ job }: Pick<EitherCluster, "job">, priority = 0, devices = 2) =>
  inEpochs(job({ priority, devices }), epochs);

onCluster.test(
  "runs that fit beside each other train concurrently, with unchanged models",
  async (t, place) => {
    const runs = await Promise.all(
      [1, 1].map((devices) => place.cluster.submit(place.job({ devices }))),
    );
    const stories = await Promise.all(runs.map((run) => follow(run)));
    const order: string[] = [];
    for (const [at, events] of stories.entries()) {
      const result = only(events, "run.finished")[0]?.result;
      await equalsCalm(t, result);
      t.is(only(events, "run.started")[0]?.devices, 1);
      order.push(`${at}`);
    }
    t.deepEqual(only(stories.flat(), "run.incident"), []);
  },
);

onCluster.test(
  "a run is preempted by one of a higher priority, and resumes after it, with the same model",
  async (t, place) => {
    const low = await place.cluster.submit(longJob(place));
    let high: Promise<Run> | undefined;
    const order: string[] = [];
    const lowEvents = await follow(low, (event) => {
      if (event.type === "run.finished") order.push("low");
      if (event.type !== "run.checkpointed" || high !== undefined) return;
      high = place.cluster.submit(longJob(place, 7));
      void high.then((run) => run.result()).then(() => order.push("high"));
    });
    const highEvents = await follow((await high) as Run);
    t.deepEqual(order, ["high", "low"]);
    const [preempted] = only(lowEvents, "run.preempted");
    t.is(preempted?.by, (await high)?.run);
    t.deepEqual(
      only(lowEvents, "run.started").map(({ fromStep }) => fromStep),
      [0, preempted?.step ?? -1],
    );
    for (const events of [lowEvents, highEvents]) {
      t.deepEqual(only(events, "run.incident"), []);
      const result = only(events, "run.finished")[0]?.result;
      await equalsCalm(t, result, calmRun(epochs));
    }
  },
);

onCluster.test(
  "a run that is saved on request, paused and resumed ends with the same model",
  async (t, place) => {
    const run = await place.cluster.submit(longJob(place));
    const other = await place.cluster.submit(inEpochs(place.job(), 1));
    await first(run, "run.progress");
    const saved = await run.checkpoint();
    t.true(saved.step > 0 && saved.digest.length === 64);
    await run.pause();
    await first(run, "run.paused");
    t.is((await run.status()).status, "paused");
    const refused = await t.throwsAsync(run.checkpoint(), { instanceOf: RemoteError });
    t.is(refused?.code, "RUN_STATE");
    t.is(
      refused?.message,
      `Cannot checkpoint run ${run.run}: expected it to be running, it is paused`,
    );
    t.is((await other.result()).status, "finished", "a paused run's devices are free");
    await run.resume();
    const events = await follow(run);
    const requested = only(events, "run.checkpointed").filter((event) => event.requested);
    t.deepEqual(
      requested.map(({ step, digest }) => ({ step, digest })),
      [saved],
    );
    const result = await run.result();
    await equalsCalm(t, result, calmRun(epochs));
    t.is((await t.throwsAsync(run.resume(), { instanceOf: RemoteError }))?.code, "RUN_STATE");
  },
);

// In `npm test`, registry.test.ts continues the runs of a journal, and test/cli/running.test.ts
// kills a cluster with `--state`.
testIf(testAll).serial(
  "finished, running, paused and queued runs outlive the leader's process",
  async (t) => {
    const directory = startDirectory(t);
    const options = { state: { directory } };
    const jobs = await startTestCluster(0, { minDevices: 1 });
    t.teardown(() => jobs[Symbol.asyncDispose]());
    const short = inEpochs(jobs.job({ devices: 2 }), 1);
    const names: string[] = [];
    {
      await using before = await startTestCluster(2, options);
      await before.cluster.leading;
      const { cluster } = before;
      const done = await cluster.submit(short, { key: "done" });
      await done.result();
      const running = await cluster.submit(longJob(jobs), { key: "running" });
      const paused = await cluster.submit(longJob(jobs), { key: "paused" });
      await paused.pause();
      const queued = await cluster.submit(longJob(jobs), { key: "queued" });
      await first(running, "run.checkpointed");
      names.push(...[done, running, paused, queued].map(({ run }) => run));
    }
    // Damaged entries of the journal are reported, and the others are restored.
    const journal = readdirSync(join(directory, "runs")).filter((name) => name.endsWith(".jsonl"));
    const last = join(directory, "runs", journal.sort().at(-1) ?? "");
    appendFileSync(last, "0badcafe {}\n0badcafe {}\n\n");
    await using after = await startTestCluster(2, options);
    await after.cluster.leading;
    const { cluster } = after;
    t.true(after.incidents.some(({ reason }) => reason.code === "JOURNAL_DAMAGED"));
    const again = await cluster.submit(short, { key: "done" });
    t.is(again.run, names[0] ?? "", "the key still names its run");
    const other = longJob(jobs);
    const taken = await t.throwsAsync(cluster.submit(other, { key: "done" }));
    t.is((taken as RemoteError).code, "KEY_TAKEN");
    const [done, running, paused, queued] = names.map((name) => cluster.client.run(name));
    t.is((await done?.status())?.status, "finished");
    t.is((await paused?.status())?.status, "paused");
    const { digest } = await calmRun(epochs);
    for (const run of [running, queued]) t.is((await run?.result())?.digest, digest);
    t.is((await running?.result())?.generation, 2, "it resumed from its checkpoint");
    t.is((await queued?.result())?.generation, 1);
    t.deepEqual(
      (await cluster.list()).map(({ run }) => run),
      names,
    );
    await paused?.cancel();
    t.is((await t.throwsAsync(paused?.result() ?? Promise.resolve()))?.name, "RunCancelledError");
  },
);

test.serial(
  "a run that is cancelled or paused while it prepares large data stops at once",
  async (t) => {
    await using place = await startTestCluster(2);
    // Four thousand million samples take a machine hours to make.
    const data = { ...place.job().data, samples: 4_294_967_295 } as JobOptions["data"];
    const isPreparing = () => place.threads.running().includes("prepare");
    const becomes = (wanted: boolean) =>
      until(`isPreparing() === ${wanted}`, () => isPreparing() === wanted);
    const cancelled = await place.cluster.submit(place.job({ data, name: "long" }));
    await becomes(true);
    await cancelled.cancel();
    await t.throwsAsync(cancelled.result(), { code: "RUN_CANCELLED" });
    await becomes(false); // The thread of the cancelled run has exited.
    const paused = await place.cluster.submit(place.job({ data, name: "later" }));
    await becomes(true);
    await paused.pause();
    await first(paused, "run.paused");
    await becomes(false);
    await paused.cancel();
    await t.throwsAsync(paused.result(), { code: "RUN_CANCELLED" });
  },
);
