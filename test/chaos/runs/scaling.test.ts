// A run changes its number of devices while it trains: same model, same history, and no step done
// twice.

import test, { type ExecutionContext } from "ava";
import type { RunEvent } from "../../../index.ts";
import type { Launcher } from "../../../src/ports/launcher.ts";
import { only, runJob, type Story } from "../../helpers/clusters/clusters.ts";
import type { JoinedHost } from "../../helpers/clusters/either-cluster.ts";
import { calmRun, equalsCalm, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { thinned } from "../../helpers/thinned.ts";

/**
 * Asserts the reference run's result, and one generation for each number of devices, none after a
 * failure.
 */
async function assertUndisturbed(t: ExecutionContext, story: Story, devices: readonly number[]) {
  const { result, events } = story;
  await equalsCalm(t, result);
  t.deepEqual(only(events, "run.incident"), []);
  const started = only(events, "run.started");
  t.deepEqual(
    started.map((event) => event.devices),
    devices,
  );
  const scaled = only(events, "run.scaled");
  t.deepEqual(
    scaled.map(({ from, to }) => [from, to]),
    devices.slice(1).map((to, i) => [devices[i], to]),
  );
  // A generation starts at the step where the one before stopped: no step is done twice.
  for (const { generation, fromStep } of started) {
    const before = only(events, "run.progress").filter((one) => one.generation < generation);
    t.true(before.every(({ step }) => step <= fromStep));
  }
  t.log(`scaled, s: ${scaled.map(({ seconds }) => seconds.toFixed(2)).join(" ")}`);
}

/** Pauses device 0 after `step` steps, long enough for the steps to be reported. */
const rest = (generation: number, step: number) =>
  ({ actor: "device:0", generation, step, point: 3, effect: "pause", pauseMs: 600 }) as const;

test.serial("a run scaled from 1 to 4, 2 and 3 devices trains the same model", async (t) => {
  await using place = await startCluster(4);
  place.threads.plan([rest(1, 8), rest(2, 18), rest(3, 28)]);
  const wishes = [
    [8, 4],
    [18, 2],
    [28, 3],
  ] as const;
  let next = 0;
  const story = await runJob(place, place.job({ devices: 1 }), async (event, run) => {
    const [step, devices] = wishes[next] ?? [Number.POSITIVE_INFINITY, 0];
    if (event.type !== "run.progress" || event.step < step) return;
    next++;
    await run.scale({ devices });
  });
  await assertUndisturbed(t, story, [1, 4, 2, 3]);
  const reported = new Set(only(story.events, "run.progress").map(({ generation }) => generation));
  for (const generation of [1, 2, 3]) t.true(reported.has(generation), `${generation}`);
});

/** A launcher that calls `hear` when device 0 first gets `command`. */
function launcherThatTells(command: string, hear: () => void) {
  let isHeard = false;
  return (launcher: Launcher): Launcher => ({
    start(entry, data, name) {
      const thread = launcher.start(entry, data, name);
      const send: typeof thread.send = (given) => {
        thread.send(given);
        if (isHeard || (given as { type: string }).type !== command) return;
        isHeard = true;
        hear();
      };
      return { ...thread, send } as never;
    },
  });
}

const told = ["run", "evaluate", "save"] as const;
for (const command of thinned("what a device has been told when devices are asked for", told)) {
  test.serial(
    `a scaling may be requested just when a device gets the command to ${command}`,
    async (t) => {
      let ask = () => {};
      const over = launcherThatTells(command, () => ask());
      await using place = await startCluster(3, { over });
      const run = await place.cluster.submit(place.job({ devices: 2 }));
      const requested = new Promise<void>((resolve) => {
        ask = () => resolve(run.scale({ devices: 3 }).then(() => {}));
      });
      const events: RunEvent[] = [];
      for await (const event of run.events()) events.push(event);
      await requested;
      await assertUndisturbed(t, { run, events, result: await run.result() }, [2, 3]);
    },
  );
}

test.serial("of two scaling requests in a row, the last one counts", async (t) => {
  await using place = await startCluster(4);
  place.threads.plan([rest(1, 8)]);
  let isAsked = false;
  const story = await runJob(place, place.job({ devices: 1 }), async (event, run) => {
    if (event.type !== "run.progress" || event.step < 8 || isAsked) return;
    isAsked = true;
    await run.scale({ devices: 4 });
    await run.scale({ devices: 2 });
  });
  t.is(story.result.digest, (await calmRun()).digest);
  t.is(only(story.events, "run.started").at(-1)?.devices, 2);
  t.deepEqual(only(story.events, "run.incident"), []);
});

test.serial("an impossible number of devices is refused, and the run continues", async (t) => {
  await using place = await startCluster(4);
  const refusals: string[] = [];
  const story = await runJob(place, place.job({ devices: 1, slices: 2 }), async (event, run) => {
    if (event.type !== "run.checkpointed" || refusals.length > 0) return;
    for (const devices of [0, 5]) {
      await run.scale({ devices }).catch((error: Error) => refusals.push(error.message));
    }
  });
  t.regex(refusals[0] ?? "", /^Expected `devices` to be .*>= ?1, got `0`/);
  t.regex(refusals[1] ?? "", /^Expected `devices` to be at most the cluster's, 4, got `5`/);
  t.is(story.result.generation, 1);
  await t.throwsAsync(story.run.scale({ devices: 2 }), { message: /queued, running or paused/ });
});

test.serial(
  "a run that is offered more devices than slices uses one for each, and reports it",
  async (t) => {
    await using place = await startCluster(4);
    let granted = 0;
    const job = place.job({ devices: 0, slices: 2 });
    const story = await runJob(place, job, async (event, run) => {
      if (event.type !== "run.checkpointed" || granted > 0) return;
      ({ devices: granted } = await run.scale({ devices: 3 }));
    });
    t.is(granted, 2);
    t.deepEqual(
      only(story.events, "run.started").map(({ devices }) => devices),
      [2],
    );
    const alerts = only(story.events, "run.alert").filter(({ code }) => code === "DEVICES_IDLE");
    t.deepEqual(
      alerts.map(({ message }) => message.slice(0, 59)),
      [4, 3].map(
        (devices) => `The run uses 2 of ${devices} devices, as \`slices\` of the job is 2: a`,
      ),
    );
  },
);

test.serial("a run that waits for devices starts with fewer if it is scaled down", async (t) => {
  await using place = await startCluster(2, { minDevices: 3 });
  const story = await runJob(place, place.job({ devices: 3 }), async (event, run) => {
    if (event.type === "run.waiting") await run.scale({ devices: 2 });
  });
  await assertUndisturbed(t, story, [2]);
});

for (const [when, generation] of [
  ["that is told to pause", 1],
  ["of the generation that begins", 2],
] as const) {
  test.serial(
    `a device ${when} may die: the run gets the requested number of devices`,
    async (t) => {
      await using place = await startCluster(4);
      const { threads } = place;
      const held = { ...rest(1, 20), actor: "device:1" };
      threads.plan([generation === 1 ? { ...held, effect: "stall" } : held]);
      const story = await runJob(place, place.job({ devices: 2 }), async (event, run) => {
        if (event.type !== "run.progress" || event.step !== 20 || event.generation > 1) return;
        const end = { actor: "device:0", generation: 2, step: 27, point: 5 } as const;
        if (generation === 2) threads.plan([{ ...end, effect: "exit" }]);
        await run.scale({ devices: 4 });
        if (generation === 1) threads.kill("device:1");
      });
      const { result, events } = story;
      await equalsCalm(t, result);
      t.is(only(events, "run.incident").length, 1);
      t.is(only(events, "run.started").at(-1)?.devices, 4);
      t.like(only(events, "run.scaled"), [{ from: 2, to: 4 }]);
    },
  );
}

test.serial("hosts that join and leave are added to and removed from the run", async (t) => {
  await using place = await startCluster(1);
  const epochs = { data: { epochs: 4 } as never, stepDeadlineMs: 30_000 };
  const job = place.job(epochs);
  const { result: calm } = await runJob(place, place.job(epochs));
  // The pauses keep the run alive until the host has joined, and until it has left.
  const pause = { actor: "device:0", point: 0, effect: "pause" } as const;
  place.threads.plan([
    { ...pause, generation: 1, step: 40, pauseMs: 4000 },
    { ...pause, generation: 2, step: 130, pauseMs: 3000 },
  ]);
  let guest: JoinedHost | undefined;
  const { result, events } = await runJob(place, job, async (event) => {
    if (event.type === "run.started" && event.generation === 1) {
      guest = await place.join(3);
    }
    if (event.type === "run.scaled" && event.generation === 2) guest?.leave();
  });
  t.is(result.digest, calm.digest);
  t.deepEqual(result.history, calm.history);
  t.deepEqual(only(events, "run.incident"), []);
  t.like(only(events, "run.scaled"), [
    { from: 1, to: 4 },
    { from: 4, to: 1 },
  ]);
  const draining = only(events, "run.draining");
  t.like(draining, [{ generation: 2, host: 1 }]);
  t.regex(draining[0]?.reason ?? "", /^it(s process)? was asked to (leave|end)$/);
  t.true((draining[0]?.seconds ?? 0) > 20);
  await guest?.ended;
});
