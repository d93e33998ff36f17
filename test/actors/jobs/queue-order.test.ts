// Which run of the queue gets devices next, and which runs it preempts.

import test from "ava";
import { Membership } from "../../../actors/host/membership.ts";
import { nextMove, quotaLeft } from "../../../actors/jobs/queue-order.ts";
import { ActiveRuns } from "../../../actors/run/state/active-runs.ts";
import { RunRecord } from "../../../actors/run/state/run-record.ts";
import { resolveJob } from "../../../src/job/job.ts";
import type { Tenants } from "../../../src/wire/tenancy/tenants.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";

interface Wanted {
  readonly devices?: number;
  readonly priority?: number;
  readonly tenant?: string;
  readonly directory?: string;
}

/** A queue over 4 devices; runs are named by their order. */
function startQueue(tenants: Tenants = {}) {
  const membership = new Membership({
    minDevices: 4,
    joinDeadlineMs: 1000,
    own: { host: 0, devices: 4, machine: "m", pid: 1 },
    arithmetic: "a",
    version: "1",
  });
  const records: RunRecord[] = [];
  const turns = new Set<string>();
  const next = () => {
    const open = new ActiveRuns();
    for (const record of records) {
      open.add(record);
      open.changed(record, record.status);
    }
    const running = records.filter(({ run }) => turns.has(run));
    return nextMove({ waiting: open.inOrder(), running, membership, tenants });
  };
  return {
    records,
    membership,
    turns,
    next,
    submit({ devices = 0, priority = 0, tenant, directory }: Wanted = {}) {
      const run = `r${records.length}`;
      const checkpoint = { directory: directory ?? run };
      const job = resolveJob({ model: smallModel, data: smallData, devices, priority, checkpoint });
      const record = new RunRecord({ run, job, tenant }, () => {}, { keep() {} });
      records.push(record);
      return record;
    },
    /** Starts every run that may start now, and returns the names of these runs. */
    start(): string[] {
      const started: string[] = [];
      for (let move = next(); move.start !== undefined; move = next()) {
        const { run, job } = move.start;
        membership.take(run, membership.sharesFor(run, job.devices || 4));
        move.start.status = "running";
        turns.add(run);
        started.push(run);
      }
      return started;
    },
    end(run: string) {
      turns.delete(run);
      membership.letGo(run);
      const at = records.findIndex((record) => record.run === run);
      records.splice(at, 1);
    },
  };
}

test("runs start in the order of submission, as long as each gets all its devices", (t) => {
  const queue = startQueue();
  for (const devices of [1, 2, 2, 1]) queue.submit({ devices });
  t.deepEqual(queue.start(), ["r0", "r1"]); // r3 would fit, but must not overtake r2.
  queue.end("r0");
  t.deepEqual(queue.start(), ["r2"]);
  queue.end("r1");
  t.deepEqual(queue.start(), ["r3"]);
});

test("a run that requests all devices waits for all of them, and no later run overtakes it", (t) => {
  const queue = startQueue();
  queue.submit({ devices: 1 });
  queue.submit();
  queue.submit({ devices: 1 });
  t.deepEqual(queue.start(), ["r0"]);
  queue.end("r0");
  t.deepEqual(queue.start(), ["r1"]);
});

test("runs of a higher priority start first, and interrupted runs before all others", (t) => {
  const queue = startQueue();
  queue.submit({ devices: 4 });
  queue.submit({ devices: 4, priority: 5 });
  queue.submit({ devices: 4 }).status = "running";
  t.is(queue.next().start?.run, "r2");
  queue.records.splice(2);
  t.is(queue.next().start?.run, "r1");
});

test("the fewest runs are preempted, of the lowest priority, the last submitted first", (t) => {
  const queue = startQueue();
  for (const priority of [1, 0, 0, 3]) queue.submit({ devices: 1, priority });
  t.is(queue.start().length, 4);
  const high = queue.submit({ devices: 2, priority: 2 });
  const { preempt } = queue.next();
  t.is(preempt?.for, high);
  t.deepEqual(
    preempt?.victims.map(({ run }) => run),
    ["r2", "r1"],
  );
  for (const victim of preempt?.victims ?? []) victim.preemptedBy = high.run;
  t.deepEqual(queue.next(), {}, "victims are named once");
});

test("no run is preempted for an equal priority, or if it would not free enough devices", (t) => {
  const queue = startQueue();
  for (const priority of [0, 9]) queue.submit({ devices: 2, priority });
  t.is(queue.start().length, 2);
  queue.submit({ devices: 4, priority: 5 });
  t.deepEqual(queue.next(), {});
  queue.records.pop();
  queue.submit({ devices: 2, priority: 0 });
  t.deepEqual(queue.next(), {});
});

test("a tenant's quota holds back its own runs, and those of other tenants overtake them", (t) => {
  const users = {};
  const usual = { users, requestsPerSecond: 100, requestBytesMax: 1024, connectionsMax: 64 };
  const queue = startQueue({
    ads: { ...usual, runningMax: 1 },
    feed: { ...usual, devicesMax: 2 },
  });
  queue.submit({ devices: 1, tenant: "ads" });
  queue.submit({ devices: 1, tenant: "ads" });
  queue.submit({ devices: 2, tenant: "feed" });
  queue.submit({ devices: 1, tenant: "feed" });
  queue.submit({ devices: 1 });
  t.deepEqual(queue.start(), ["r0", "r2", "r4"]);
  queue.end("r0");
  t.deepEqual(queue.start(), ["r1"]);
});

test("a run grows at most to what the tenant's other runs leave of its quota", (t) => {
  const users = {};
  const usual = { users, requestsPerSecond: 100, requestBytesMax: 1024, connectionsMax: 64 };
  const tenants = { feed: { ...usual, devicesMax: 3 } };
  const queue = startQueue(tenants);
  const { membership } = queue;
  const tenantOf = (run: string) => queue.records.find((one) => one.run === run)?.tenant;
  membership.bound((run) => quotaLeft(run, tenantOf, { membership, tenants }));
  for (const tenant of ["feed", "feed", "other"]) queue.submit({ devices: 1, tenant });
  t.deepEqual(queue.start(), ["r0", "r1", "r2"]);
  const most = () => ["r0", "r2"].map((run) => membership.devicesFor(run));
  t.deepEqual(most(), [2, 2], "4 devices, less 1 for each other run");
  queue.end("r2");
  t.deepEqual(most(), [2, 2]);
  queue.end("r1");
  t.deepEqual(most(), [3, 3]);
});

test("two runs of one checkpoint directory never run at once", (t) => {
  const queue = startQueue();
  queue.submit({ devices: 1, directory: "same" });
  queue.submit({ devices: 1, directory: "./same" });
  queue.submit({ devices: 1 });
  t.deepEqual(queue.start(), ["r0", "r2"]);
  queue.end("r0");
  t.deepEqual(queue.start(), ["r1"]);
});

test("a paused run is overtaken, and starts when it is resumed", (t) => {
  const queue = startQueue();
  const first = queue.submit({ devices: 4 });
  first.pause();
  queue.submit({ devices: 4 });
  t.deepEqual(queue.start(), ["r1"]);
  first.resume();
  queue.end("r1");
  t.deepEqual(queue.start(), ["r0"]);
});

test("if nothing runs, the first run starts even without enough devices: hosts may join", (t) => {
  const queue = startQueue();
  queue.submit({ devices: 9 });
  t.is(queue.next().start?.run, "r0");
});
