// The registry of runs: its counts and look-ups as runs change, and which runs it drops.

import test from "ava";
import { decodeEntry, entryOf } from "../../../../actors/jobs/mirror/queue-entry.ts";
import { Registry } from "../../../../actors/run/state/registry.ts";
import { eventsMax } from "../../../../actors/run/state/run-events.ts";
import type { RunRecord } from "../../../../actors/run/state/run-record.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { smallData, smallModel } from "../../../helpers/clusters/clusters.ts";

function jobIn(directory: string) {
  return resolveJob({ model: smallModel, data: smallData, checkpoint: { directory } });
}

function end(record: RunRecord): void {
  const error = { name: "Error", code: "X", message: "m", recovery: "stop" as const };
  record.append(1, { type: "run.failed", error });
}

test("the registry keeps the last finished runs and all unfinished ones", (t) => {
  const forgotten: string[] = [];
  const keeper = { keep() {}, kept: async () => {}, forget: (run: string) => forgotten.push(run) };
  const registry = new Registry("r", () => {}, keeper, 2);
  const records = ["a", "b", "c", "d"].map((key) => registry.add(jobIn(key), { key }));
  for (const at of [3, 1, 0]) end(records[at] as RunRecord);
  registry.add(jobIn("e"), { key: "e" });
  t.deepEqual(forgotten, ["r4"], "r4 finished first");
  t.deepEqual(
    registry.all().map(({ run }) => run),
    ["r1", "r2", "r3", "r5"],
  );
  t.is(registry.find(jobIn("d"), { key: "d" }), undefined, "its key is free again");
  t.is(registry.find(jobIn("b"), { key: "b" }), records[1]);
});

test("each tenant's runs have their own numbers, and drop no other tenant's runs", (t) => {
  const forgotten: string[] = [];
  const keeper = { keep() {}, kept: async () => {}, forget: (run: string) => forgotten.push(run) };
  const registry = new Registry("r", () => {}, keeper, 3);
  const add = (key: string, tenant?: string) => registry.add(jobIn(key), { key, tenant });
  const [house, other] = [add("a"), add("b", "other")];
  end(house);
  end(other);
  const mine = ["c", "d", "e", "f"].map((key) => add(key, "acme"));
  t.deepEqual([house, other, ...mine].map(({ run }) => run).slice(0, 4), [
    ...["r1", "rother-1", "racme-1", "racme-2"],
  ]);
  for (const record of mine) end(record);
  add("g");
  t.deepEqual(forgotten, ["racme-1", "racme-2", "racme-3"]);
  t.is(registry.find(jobIn("b"), { key: "b", tenant: "other" }), other);
});

test("waiting runs are counted as they change, and found by their job until they finish", (t) => {
  const registry = new Registry("r", () => {});
  const { active } = registry;
  const mine = registry.add(jobIn("a"), { tenant: "t" });
  const other = registry.add(jobIn("a"), { key: "k" });
  t.deepEqual([active.waiting, active.waitingOf("t"), active.waitingOf(undefined)], [2, 1, 1]);
  t.is(registry.find(jobIn("a"), { tenant: "t" }), mine);
  t.is(registry.find(jobIn("b"), { tenant: "t" }), undefined);
  mine.status = "running";
  t.deepEqual([active.waiting, active.waitingOf("t")], [1, 0]);
  t.deepEqual([...active.inOrder()], [mine, other], "started runs come first");
  other.pause();
  t.deepEqual(active.stopping(), [other]);
  other.resume();
  end(mine);
  t.is(registry.find(jobIn("a"), { tenant: "t" }), undefined);
  t.deepEqual([active.stopping(), [...active.inOrder()]], [[], [other]]);
  end(other);
  t.deepEqual([active.waiting, [...active.inOrder()]], [0, []]);
});

test("a run that an earlier run has already finished is listed with the progress of its result", (t) => {
  const record = new Registry("r", () => {}).add(jobIn("a"), {});
  const { samples, batchSize } = smallData;
  const steps = Math.ceil(samples / batchSize);
  const data = { samples, heldOut: 0, quarantined: 0, quarantine: [], warnings: [] };
  record.append(1, { type: "run.prepared", steps, ...data });
  t.is(record.progress, undefined);
  const model = { digest: "sha256:00", manifest: "", directory: "a", history: [], generation: 2 };
  const figures = {
    samplesPerSecond: 0,
    arithmetic: "reference",
    repairedIds: [],
    warnings: [],
    incidents: [],
  };
  const result = {
    run: record.run,
    status: "finished",
    alreadyFinished: false,
    step: steps,
    ...model,
    ...figures,
  } as const;
  record.append(2, { type: "run.finished", result });
  t.deepEqual(record.progress, { step: steps, steps });
});

test("a new leader continues the event numbers, and skips a block if the journal may lack some", (t) => {
  const first = new Registry("r", () => {});
  const [open, over] = ["a", "b"].map((key) => first.add(jobIn(key), { key })) as RunRecord[];
  if (open === undefined || over === undefined) return t.fail();
  open.append(1, { type: "run.preparing", fraction: 0.5 });
  end(over);
  const entries = [...first.entries()];
  const whole = new Registry("s", () => {});
  t.deepEqual(
    whole.restore(entries, (run) => t.fail(run), true),
    [],
  );
  whole.get(open.run)?.append(2, { type: "run.preparing", fraction: 0.6 });
  t.is(whole.get(open.run)?.since(0).at(-1)?.seq, 2);
  const cut = new Registry("s", () => {});
  const restored = cut.restore(entries, (run) => t.fail(run), false);
  const renumbered = { type: "run.renumbered", last: 1, first: 1002, seq: 1002 } as const;
  t.deepEqual(restored, [[{ ...renumbered, run: open.run, generation: 0 }, undefined]]);
  cut.get(open.run)?.append(2, { type: "run.preparing", fraction: 0.6 });
  t.deepEqual(
    cut
      .get(open.run)
      ?.since(2)
      .map(({ seq }) => seq),
    [1002, 1003],
  );
});

test("of many events of finished runs, those of the oldest runs are dropped, but not their ends", (t) => {
  const events = (record: RunRecord) => record.since(0, eventsMax).length;
  const registry = new Registry("r", () => {});
  const records = Array.from({ length: 13 }, (_, at) => registry.add(jobIn(`${at}`)));
  for (const record of records) {
    for (let at = 1; at < eventsMax; at++) record.append(1, { type: "run.preparing", fraction: 0 });
    end(record);
  }
  t.deepEqual(records.map(events).slice(0, 5), [100, 100, 100, 100, eventsMax]);
  t.is([...registry.entries()].length, 13 + 4 * 100 + 9 * eventsMax);
  const next = new Registry("s", () => {});
  next.restore(registry.entries(), (run) => t.fail(run), true);
  t.true(next.all().every(({ status }) => status === "failed"));
});

test("a run of many events is a running one for every later leader", (t) => {
  const first = new Registry("r", () => {});
  const { run } = first.add(jobIn("a"));
  first.get(run)?.append(1, { type: "run.started", ...started });
  const figures = { steps: 20_000, loss: 1, samplesPerSecond: 1, repairedIds: [] };
  const progress = { type: "run.progress", ...figures } as const;
  for (let step = 1; step <= eventsMax; step++) first.get(run)?.append(1, { ...progress, step });
  const next = new Registry("s", () => {});
  next.restore(first.entries(), (other) => t.fail(other), true);
  t.is(next.get(run)?.status, "running");
});

test("pinned shards outlive a leader, in its journal and in the mirror of the queue", (t) => {
  const kept: object[] = [];
  const keeper = { keep: (entry: object) => kept.push(entry), kept: async () => {}, forget() {} };
  const record = new Registry("r", () => {}, keeper).add(jobIn("a"));
  const tile = { table: "a", firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: 1 };
  const pins = [{ ...tile, device: 1, isFrozen: true }];
  record.pins = pins;
  const next = () => {
    const other = new Registry("s", () => {});
    other.restore(JSON.parse(JSON.stringify(kept)), (run) => t.fail(run), true);
    return other.get(record.run);
  };
  t.deepEqual(next()?.pins, pins);
  t.deepEqual([...record.entries()][0], { kind: "request", run: record.run, pins });
  const copy = new TextEncoder().encode(JSON.stringify(entryOf(record, { order: 0, term: 1 })));
  t.deepEqual(decodeEntry(copy)?.requests, [{ pins }]);
  record.pins = [];
  t.deepEqual(next()?.pins, [], "the last request counts");
});

test("a run that ended two leaders before its first step is set aside; other runs are not", (t) => {
  let kept: object[] = [];
  const keeper = { keep: (entry: object) => kept.push(entry), kept: async () => {}, forget() {} };
  /** The registry of the next leader, restored from the former leader's journal. */
  const next = (isReleased = false) => {
    const entries = JSON.parse(JSON.stringify(kept));
    kept = [...entries];
    const registry = new Registry("s", () => {}, keeper);
    registry.restore(entries, (run) => t.fail(run), true);
    if (isReleased) registry.crashes.reset();
    return registry;
  };
  const first = new Registry("r", () => {}, keeper);
  const [poison, good] = ["a", "b"].map((name) => first.add(jobIn(name)).run);
  if (poison === undefined || good === undefined) return t.fail();
  const begin = (registry: Registry) => {
    for (const run of [poison, good]) registry.crashes.begin(run);
    for (const run of [poison, good]) registry.crashes.begin(run); // The queue actor has restarted.
    registry.get(good)?.append(1, { type: "run.started", ...started });
  };
  begin(first);
  t.false(next().crashes.isSetAside(poison), "it has ended only one leader");
  begin(next());
  const third = next();
  t.true(third.crashes.isSetAside(poison));
  t.false(third.crashes.isSetAside(good));
  // A power loss may lose the event of the first step, but not the reset of the count by it.
  kept = kept.filter((entry) => !("event" in entry));
  t.is(next().crashes.of(good), 0);
  // A compacted journal has the count, too.
  kept = [...third.entries()];
  t.true(next().crashes.isSetAside(poison));
  t.false(next(true).crashes.isSetAside(poison), "a leader that stops in order is not counted");
  t.is(next().crashes.of(poison), 0);
});

const started = { fromStep: 0, steps: 9, devices: 1, hosts: [], slices: [8], arithmetic: "a" };
