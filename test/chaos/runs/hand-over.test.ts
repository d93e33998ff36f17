// Hosts that leave hand their parts of the last cut over to hosts that stay: they need not wait for
// the store, no step is done twice, and the model stays the same.

import test from "ava";
import type { RunEvent } from "../../../index.ts";
import { only } from "../../helpers/clusters/clusters.ts";
import type { JoinedHost } from "../../helpers/clusters/either-cluster.ts";
import { calmRun } from "../../helpers/clusters/either-clusters.ts";
import { startVirtualCluster } from "../../helpers/clusters/virtual-clusters.ts";

const isSaving = (actor: string) => /^(writer|adopter):/.test(actor);

test.serial(
  "two hosts that drain at once are gone before a slow store has their checkpoint",
  async (t) => {
    const [storeMs, readMs] = [15_000, 30_000];
    await using place = startVirtualCluster(1, {
      minDevices: 4,
      syncMsOf: (actor) => (isSaving(actor) ? storeMs : 0),
      // A restore that read a file would show in the seconds of the change.
      readMsOf: (actor) => (actor.startsWith("device:") ? readMs : 0),
    });
    const guests: JoinedHost[] = [];
    for (let i = 0; i < 3; i++) guests.push(await place.join(1));
    const rest = { actor: "device:0", generation: 1, step: 5, point: 3, effect: "pause" } as const;
    place.threads.plan([{ ...rest, pauseMs: 1000 }]); // The first checkpoint is at step 10.
    const job = place.job({ devices: 0 });
    const run = await place.cluster.submit(job);
    const events: (RunEvent | { readonly type: "gone"; readonly host: number })[] = [];
    let isAsked = false;
    for await (const event of run.events()) {
      events.push(event);
      if (event.type !== "run.progress" || event.step < 4 || isAsked) continue;
      isAsked = true;
      for (const host of [2, 3]) {
        guests[host - 1]?.leave();
        void guests[host - 1]?.ended.then(() => events.push({ type: "gone", host }));
      }
    }
    const types = events.map(({ type }) => type);
    t.log(types.join(" "));
    const calm = await calmRun();
    const { digest, history } = await run.result();
    t.is(digest, calm.digest);
    t.deepEqual(history, calm.history);
    const published = events.filter((event): event is RunEvent => event.type !== "gone");
    t.deepEqual(only(published, "run.incident"), []);
    t.deepEqual(
      only(published, "run.started").map(({ devices }) => devices),
      [4, 2],
    );
    const [first, second] = only(published, "run.started");
    const before = only(published, "run.progress").filter((one) => one.generation === 1);
    t.true(
      before.every(({ step }) => step <= (second?.fromStep ?? 0)),
      "no step twice",
    );
    t.is(first?.fromStep, 0);
    t.is(types.filter((type) => type === "gone").length, 2);
    t.true(types.lastIndexOf("gone") < types.indexOf("run.checkpointed"));
    const [{ seconds } = { seconds: 0 }] = only(published, "run.scaled");
    t.true(seconds > storeMs / 1000 && seconds < (storeMs + readMs) / 1000, `${seconds}`);
  },
);
