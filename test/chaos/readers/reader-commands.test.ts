// Commands to the readers of a training run: a rate limit, and a drain, after which a new thread
// replaces the old one. The model is the same, and neither counts as a failure.

import { setTimeout as pause } from "node:timers/promises";
import test, { type ExecutionContext } from "ava";
import type { JobOptions, ReaderReport, Run } from "../../../internal.ts";
import {
  only,
  runJob,
  type Story,
  smallSteps,
  startTestCluster,
  type TestCluster,
} from "../../helpers/clusters/clusters.ts";
import { equalsCalm, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { someOrAll } from "../../helpers/thinned.ts";

/** Pauses device 0 after `step` steps, until these are reported and a request has arrived. */
const rest = (generation: number, step: number) =>
  ({ actor: "device:0", generation, step, point: 3, effect: "pause", pauseMs: 600 }) as const;

async function readersOf({ cluster }: TestCluster, run: Run): Promise<readonly ReaderReport[]> {
  const { processes } = await cluster.client.inspect();
  return processes.flatMap(({ readers }) => readers).filter((one) => one.run === run.run);
}

async function assertCalm(t: ExecutionContext, { result }: Story) {
  await equalsCalm(t, result);
}

async function refusalOf(asked: Promise<unknown>): Promise<string> {
  try {
    await asked;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return "it was not refused";
}

for (const readers of [1, 2, 3]) {
  const orders = ["global", "split"] as const;
  const usual = orders.filter((_, i) => i === readers % 2);
  for (const order of someOrAll(`orders of ${readers} drained readers`, usual, orders)) {
    testIf(testAll).serial(
      `${readers} readers drained in mid-run, ${order} order, change no bit`,
      async (t) => {
        await using place = await startTestCluster(3);
        place.threads.plan([rest(1, 8), { ...rest(1, 20), actor: "device:1" }]);
        const seen: ReaderReport[] = [];
        const own = { devices: 2, readers, data: { order } as JobOptions["data"] };
        const calm =
          order === "global" ? undefined : await runJob(place, place.job({ ...own, readers: 1 }));
        place.threads.plan([rest(1, 8), { ...rest(1, 20), actor: "device:1" }]);
        const before = place.threads.started();
        const story = await runJob(place, place.job(own), async (event, run) => {
          if (event.type !== "run.progress" || ![8, 20].includes(event.step)) return;
          for (let reader = 0; reader < readers; reader++) {
            const { isForced, position } = await run.drainReader(reader);
            t.false(isForced);
            // In the split order each reader belongs to some devices, and with two devices the
            // third reader has none.
            const isIdle = order === "split" && reader === 2;
            t.true(isIdle || (position.step >= event.step && position.step <= smallSteps));
          }
          if (event.step === 20) seen.push(...(await readersOf(place, run)));
        });
        if (calm === undefined) await assertCalm(t, story);
        else t.is(story.result.digest, calm.result.digest);
        t.is(story.result.generation, 1);
        t.deepEqual(only(story.events, "run.incident"), []);
        t.is(only(story.events, "run.drained").length, 2 * readers);
        t.deepEqual(
          seen.map(({ drains, failures }) => ({ drains, failures })),
          seen.map(() => ({ drains: 2, failures: 0 })),
        );
        t.is(seen.length, readers);
        t.true(place.threads.started() - before >= 1 + 4 + 3 * readers);
      },
    );
  }
}

testIf(testAll).serial(
  "a drained reader that hangs is killed, which does not count as a failure",
  async (t) => {
    await using place = await startTestCluster(2);
    const stall = {
      actor: "reader:0",
      generation: 1,
      step: 10,
      point: 1,
      effect: "stall",
    } as const;
    place.threads.plan([stall]);
    const forced: boolean[] = [];
    const story = await runJob(place, place.job(), async (event, run) => {
      if (event.type !== "run.progress" || forced.length > 0) return;
      while (!place.threads.isInjected("reader:0")) await pause(20);
      forced.push((await run.drainReader(0)).isForced);
    });
    t.deepEqual(forced, [true]);
    await assertCalm(t, story);
    t.is(story.result.generation, 1);
    t.deepEqual(only(story.events, "run.incident"), []);
    t.like(only(story.events, "run.drained"), [{ reader: 0, isForced: true }]);
  },
);

testIf(testAll).serial("a rate limit of readers survives a killed reader and device", async (t) => {
  await using place = await startTestCluster(2);
  const samplesPerSecond = 1000;
  /** The limit that the reader reported, with its generation. */
  const limits: { generation: number; limit: number | null }[] = [];
  let isKilled = false;
  const begun: { step: number; atMs: number }[] = [];
  let state: string | undefined;
  place.threads.plan([rest(1, 8), rest(2, 20)]);
  const story = await runJob(place, place.job({ readers: 2 }), async (event, run) => {
    if (event.type === "run.started") {
      if (event.generation === 1) await run.limitReaders({ samplesPerSecond });
      if (event.generation === 2) begun.push({ step: event.fromStep, atMs: performance.now() });
    }
    if (event.type !== "run.progress") return;
    const reader = (await readersOf(place, run)).find(({ actor }) => actor === "reader:0");
    if (reader?.state === "limited") state = reader.state;
    if (event.step === 8) place.threads.kill("reader:0");
    if (reader === undefined) return; // The host is between generations.
    const { generation } = event;
    if (generation === 2 || event.step >= 12) limits.push({ generation, limit: reader.limit });
    if (generation === 2 || event.step < 12 || isKilled) return;
    isKilled = true;
    t.is(reader.failures, 1);
    place.threads.kill("device:1");
  });
  const tookMs = performance.now() - (begun[0]?.atMs ?? 0);
  await assertCalm(t, story);
  t.is(story.result.generation, 2);
  t.deepEqual(new Set(limits.map(({ generation }) => generation)), new Set([1, 2]));
  t.deepEqual(new Set(limits.map(({ limit }) => limit)), new Set([samplesPerSecond]));
  t.is(state, "limited");
  // The ring may hold three batches of each reader when a generation starts its steps.
  const samples = 64 * (smallSteps - (begun[0]?.step ?? 0) - 6);
  t.true(tookMs >= samples, `${samples} samples at 1,000 a second came in ${tookMs} ms`);
  t.like(only(story.events, "run.limited"), [{ samplesPerSecond, generation: 1 }]);
  t.deepEqual(only(story.events, "run.alert"), []);
});

test.serial(
  "unknown readers and a too low limit are refused; simultaneous drains are executed",
  async (t) => {
    await using place = await startCluster(2);
    place.threads.plan([rest(1, 8)]);
    const refusals: string[] = [];
    const drained: number[] = [];
    const story = await runJob(place, place.job({ readers: 2 }), async (event, run) => {
      if (event.type === "run.started") {
        refusals.push(await refusalOf(run.limitReaders({ samplesPerSecond: 51 })));
        await run.limitReaders({ samplesPerSecond: 52 }); // One batch per reader in 2.5 s.
        await run.limitReaders({ samplesPerSecond: 0 });
      }
      if (event.type !== "run.progress" || event.step !== 8) return;
      refusals.push(await refusalOf(run.drainReader(2)));
      const asked = [0, 0, 1].map((reader) => run.drainReader(reader));
      for (const { reader } of await Promise.all(asked)) drained.push(reader);
    });
    const [limit = "", name] = refusals;
    t.is(
      limit,
      "Expected `samplesPerSecond` to be 0 or at least 52: at a lower rate, batches of 64 samples miss " +
        "the step deadline, got `51` (number)",
    );
    t.is(name, "Expected `reader` to be one of the run's readers, 0 to 1, got `2` (number)");
    t.deepEqual(drained, [0, 0, 1]);
    t.is(only(story.events, "run.limited").at(-1)?.samplesPerSecond, 0);
    await assertCalm(t, story);
    t.is(story.result.generation, 1);
    t.deepEqual(only(story.events, "run.incident"), []);
    const over = { message: /queued, running or paused/ };
    await t.throwsAsync(story.run.limitReaders({ samplesPerSecond: 100 }), over);
    await t.throwsAsync(story.run.drainReader(0), {
      message: /Cannot drain a reader of run .* paused/,
    });
  },
);
