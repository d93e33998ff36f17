// Leaving hosts hand their parts of the last cut over to hosts that stay: they need not wait for
// the store, no step is done twice, and the model is the same.

import test, { type ExecutionContext } from "ava";
import { type RunEvent, verifyCheckpoints } from "../../../index.ts";
import { only } from "../../helpers/clusters/clusters.ts";
import type { JoinedHost } from "../../helpers/clusters/either-cluster.ts";
import { calmRun } from "../../helpers/clusters/either-clusters.ts";
import { startVirtualCluster } from "../../helpers/clusters/virtual-clusters.ts";

/** A sync of the store, and a read of a file by a device, in virtual time. */
const [storeMs, readMs] = [8000, 16_000];

const isSaving = (actor: string) => /^(writer|adopter):/.test(actor);

interface Drain {
  readonly options?: Parameters<typeof startVirtualCluster>[1];
  readonly buddyBytes?: number;
  /** The step at which hosts leave, and the pause there. Checkpoints are every 10 steps. */
  readonly step?: number;
  readonly pauseMs?: number;
  /** The joined hosts that leave, from 1. */
  readonly leaving: readonly number[];
  /** Whether a new host joins once the run continues without the hosts that left. */
  readonly isReplaced?: boolean;
  /** Called when a leaving host has ended. */
  readonly onGone?: (guests: readonly JoinedHost[]) => void;
}

/**
 * Trains on four hosts with a slow store, of which some leave, and asserts the model of the
 * undisturbed run. Returns the types of events and `gone`, in order, and all events.
 */
async function drain(t: ExecutionContext, given: Drain) {
  const { options, buddyBytes, leaving, isReplaced, step = 5, pauseMs = 1000, onGone } = given;
  await using place = startVirtualCluster(1, {
    minDevices: 4,
    syncMsOf: (actor) => (isSaving(actor) ? storeMs : 0),
    readMsOf: (actor) => (actor.startsWith("device:") ? readMs : 0),
    ...options,
  });
  const guests: JoinedHost[] = [];
  for (let i = 0; i < 3; i++) guests.push(await place.join(1));
  const rest = { actor: "device:0", point: 3, effect: "pause" } as const;
  place.threads.plan([
    { ...rest, generation: 1, step, pauseMs },
    { ...rest, generation: 2, step: 25, pauseMs: 3000 },
  ]);
  const checkpoint = { keep: 100, buddyBytes };
  const job = place.job({ devices: 0, checkpoint: checkpoint as never });
  const run = await place.cluster.submit(job);
  const events: RunEvent[] = [];
  const types: string[] = [];
  for await (const event of run.events()) {
    events.push(event);
    types.push(event.type);
    if (event.type === "run.scaled" && event.to < event.from && isReplaced === true) {
      await place.join(1);
    }
    const isTime = event.type === "run.progress" && event.step >= step;
    if (!isTime || types.includes("asked")) continue;
    types.push("asked");
    for (const host of leaving) {
      guests[host - 1]?.leave();
      void guests[host - 1]?.ended.then(() => {
        types.push("gone");
        onGone?.(guests);
      });
    }
  }
  t.log(types.join(" "));
  const calm = await calmRun();
  const { digest, history } = await run.result();
  t.is(digest, calm.digest);
  t.deepEqual(history, calm.history);
  const { checkpoints, isIntact } = await verifyCheckpoints(job.checkpoint?.directory ?? "");
  t.true(checkpoints.length > 3);
  t.true(isIntact, "each checkpoint matches its digest");
  t.is(types.filter((type) => type === "gone").length, leaving.length);
  return { types, events };
}

/** Asserts that one planned change of devices happened, and no step was done twice. */
function assertPlanned(t: ExecutionContext, events: readonly RunEvent[], devices: number[]) {
  t.deepEqual(only(events, "run.incident"), []);
  const started = only(events, "run.started");
  t.deepEqual(
    started.map((one) => one.devices),
    devices,
  );
  const before = only(events, "run.progress").filter(({ generation }) => generation === 1);
  t.true(before.length > 0 && before.every(({ step }) => step <= (started[1]?.fromStep ?? 0)));
}

test.serial(
  "two hosts that leave at once exit before a slow store has their checkpoint",
  async (t) => {
    const { types, events } = await drain(t, { leaving: [2, 3], isReplaced: true });
    assertPlanned(t, events, [4, 2, 3]);
    t.true(types.lastIndexOf("gone") < types.indexOf("run.checkpointed"));
    const [{ seconds } = { seconds: 0 }] = only(events, "run.scaled");
    t.true(seconds > storeMs / 1000, "the next generation waits for the store");
    t.true(seconds < (storeMs + readMs) / 1000, "it restores from memory");
  },
);

test.serial("the messages of a hand-over may be lost, repeated and reordered", async (t) => {
  const faults = ["bridge", "checkpoint", "copies", "writer"].map((role) => {
    const subjects = `osiris.*.*.*.${role}.*.*`;
    return { subjects, drop: 0.3, duplicate: 0.3, reorder: 0.3 };
  });
  // The hosts leave after a checkpoint, so that their parts are increments on its parts. Parts
  // whose messages are lost are read from the store, which takes no time here.
  const syncMsOf = (actor: string) => (isSaving(actor) ? 500 : 0);
  const options = { faults, syncMsOf, readMsOf: () => 0 };
  const { types, events } = await drain(t, { leaving: [1, 3], step: 15, pauseMs: 3000, options });
  assertPlanned(t, events, [4, 2]);
  const [, second] = [...types.entries()].filter(([, type]) => type === "run.checkpointed");
  t.true(types.lastIndexOf("gone") < (second?.[0] ?? 0));
});

test.serial(
  "if a host dies with parts that it took over, steps are repeated and no bit changes",
  async (t) => {
    const { events } = await drain(t, {
      leaving: [2, 3],
      onGone: ([first]) => first?.kill(), // Kills the host that took over the parts of both.
    });
    t.like(only(events, "run.incident")[0]?.error, { code: "PEER_LOST" });
    t.deepEqual(
      only(events, "run.started").map(({ fromStep, devices }) => [fromStep, devices]),
      [
        [0, 4],
        [0, 1],
      ],
    );
  },
);

test.serial("a leaving host writes the parts that its buddy has no memory for", async (t) => {
  const { types, events } = await drain(t, { leaving: [2], buddyBytes: 1 });
  assertPlanned(t, events, [4, 3]);
  t.true(types.indexOf("gone") > types.indexOf("run.draining"));
});
