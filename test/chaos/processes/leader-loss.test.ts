// The leader of a cluster dies, hangs, or gets a signal to end: another process leads, and the runs
// continue to the same model.

import { setTimeout as sleep } from "node:timers/promises";
import type { ExecutionContext } from "ava";
import type { JobOptions, Run, RunEvent, RunResult } from "../../../index.ts";
import { calmResult, only } from "../../helpers/clusters/clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { startLeaderPlace } from "../../helpers/processes/leader-processes.ts";
import { lastJson } from "../../helpers/processes/start-cli.ts";

/** Long enough to lose the leader in the middle of the job. */
const epochs = 12;
const long = { data: { epochs } as JobOptions["data"] };

interface Story {
  readonly events: readonly RunEvent[];
  readonly result: RunResult;
  /** Seconds from `act` to the next leader, and to the first step under that leader. */
  readonly seconds: { taken: number; goingOn: number };
}

/**
 * Follows a run to its end; calls `act` once in mid-run, at the first event for which `isTime`
 * holds, by default a commit.
 */
async function follow(
  run: Run,
  act: () => unknown,
  isTime: (event: RunEvent, seen: number) => boolean = ({ type }) => type === "run.checkpointed",
): Promise<Story> {
  const events: RunEvent[] = [];
  const seconds = { taken: 0, goingOn: 0 };
  let atMs: number | undefined;
  let acted: unknown;
  let seen = 0;
  for await (const event of run.events()) {
    events.push(event);
    const since = (performance.now() - (atMs ?? 0)) / 1000;
    if (event.type === "run.incident") seconds.taken ||= since;
    if (event.type === "run.recovered") seconds.goingOn ||= since;
    if (event.type === "run.checkpointed") seen = event.step;
    if (seen < 60 || atMs !== undefined || !isTime(event, seen)) continue;
    atMs = performance.now();
    acted = act();
  }
  await acted;
  return { events, result: await run.result(), seconds };
}

/** Asserts that the run continued under another leader, once, with the same result. */
async function assertTakenOver(t: ExecutionContext, { events, result, seconds }: Story) {
  const reference = await calmResult(epochs);
  t.is(result.digest, reference.digest);
  t.deepEqual(result.history, reference.history);
  t.is(result.generation, 2);
  const codes = only(events, "run.incident").map(({ error }) => error.code);
  t.deepEqual(codes, ["LEADER_REPLACED"]);
  const numbers = events.map(({ seq }) => seq);
  t.deepEqual(
    numbers,
    numbers.map((_, at) => at),
    "event numbers continue without a gap",
  );
  const { taken, goingOn } = seconds;
  t.log(`taken over after ${taken.toFixed(1)} s, first step after ${goingOn.toFixed(1)} s`);
}

async function startTwo(t: ExecutionContext, devices: number) {
  const place = await startLeaderPlace(t);
  const root = await place.start(devices);
  await root.line((line) => line.includes('"report":"leading"'));
  const standby = await place.start(devices);
  return { place, root, standby };
}

for (const devices of [2, 0]) {
  const whose = devices === 0 ? "on hosts that live on" : "with devices of its own";
  testIf(testAll).serial(
    `P9: the leader is killed, ${whose}: another process leads, and takes over`,
    async (t) => {
      const { place, root } = await startTwo(t, devices);
      if (devices === 0) await place.startHost();
      const run = await place.client.submit(place.job(long));
      await assertTakenOver(t, await follow(run, () => root.kill("SIGKILL")));
    },
  );
}

testIf(testAll).serial(
  "P8: a leader that stood still in the midst of a write lost its lease and writes nothing",
  async (t) => {
    const place = await startLeaderPlace(t);
    const slow = new URL("../../helpers/processes/slow-sync.js", import.meta.url).href;
    const root = await place.start(2, ["--import", slow]);
    await root.line((line) => line.includes('"report":"leading"'));
    const standby = await place.start(2);
    // A long step deadline, so that no device of the zombie fails before the store refuses its
    // writer.
    const run = await place.client.submit(place.job({ ...long, stepDeadlineMs: 60_000 }));
    const stand = async () => {
      root.kill("SIGSTOP");
      await standby.line((line) => line.includes('"report":"leading"'));
      await sleep(3000); // Its successor claims a generation in this time.
      root.kill("SIGCONT");
    };
    // Ten steps after a commit without the next one: the parts of the next cut are being written.
    const isWriting = (event: RunEvent, seen: number) =>
      event.type === "run.progress" && event.step > seen + 10;
    await assertTakenOver(t, await follow(run, stand, isWriting));
    const ended = await root.ended;
    t.is(ended.code, 1);
    t.regex(ended.stderr, /led the cluster in term 1; osiris on .* leads it now/);
    t.like(lastJson(ended), { report: "error", code: "LEADERSHIP_LOST" });
    const line = ended.stdout.split("\n").find((line) => line.includes('"report":"refused"'));
    const refused = JSON.parse(line ?? "") as { messages: number; writes: number };
    t.log(`refused: ${refused.messages} messages, ${refused.writes} writes`);
    t.true(refused.writes > 0);
  },
);

testIf(testAll).serial(
  "a leader that is told to end hands over runs, a requested scaling and results",
  async (t) => {
    const { place, root, standby } = await startTwo(t, 2);
    const job = place.job();
    const first = await place.client.submit(job, { key: "first" });
    const { digest } = await first.result();
    const second = await place.client.submit(place.job(long));
    const third = await place.client.submit(place.job());
    const fourth = await place.client.submit(place.job());
    await fourth.cancel();
    const story = await follow(second, async () => {
      await second.scale({ devices: 1 });
      root.kill("SIGTERM");
      await standby.line((line) => line.includes('"report":"leading"'));
    });
    t.is((await root.ended).code, 0);
    t.is(story.result.digest, (await calmResult(epochs)).digest);
    t.is(only(story.events, "run.started").at(-1)?.devices, 1);
    t.is((await third.result()).digest, digest);
    t.is((await first.result()).digest, digest);
    t.is((await place.client.submit(job, { key: "first" })).run, first.run);
    t.like(await fourth.status(), { status: "cancelled", error: { code: "RUN_CANCELLED" } });
  },
);
