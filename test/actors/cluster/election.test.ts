// The lease in virtual time: which process leads, and when each process learns it.

import test from "ava";
import { fencedTransport } from "../../../actors/cluster/elected-leader.ts";
import { Leadership } from "../../../actors/cluster/election.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import type { ObjectStore } from "../../../src/ports/object-store.ts";
import { SimulatedDisk } from "../../../src/ports/simulated-disk.ts";
import { LeaseDirectory } from "../../../storage/cluster/lease.ts";
import { StoredLease } from "../../../storage/cluster/stored-lease.ts";
import { startSimulatedNetwork } from "../../helpers/clusters/actors.ts";
import { startBucket } from "../../helpers/stores/bucket.ts";

const leaseMs = 1000;

/**
 * Candidates for leader, each with its own clock: a clock that is not advanced is a stalled
 * process.
 */
function startPlace(objects?: ObjectStore) {
  const disk = new SimulatedDisk();
  const changes: string[] = [];
  const start = (name: string) => {
    const clock = new SimulatedClock();
    const errors: unknown[] = [];
    const onForgotten = () => void changes.push(`${name} claims again`);
    const leadership = new Leadership({
      clock,
      lease:
        objects === undefined
          ? new LeaseDirectory(disk, "/lease")
          : new StoredLease({ objects, claimant: name, onForgotten }),
      leaseMs,
      owner: name,
      onStandby: ({ owner }) => changes.push(`${name} sees ${owner}`),
      onLeading: (term, former) => changes.push(`${name} leads ${term} after ${former?.owner}`),
      onLost: ({ message }) => changes.push(`${name}: ${message.split(";")[0]}`),
      onError: (error) => errors.push(error),
    });
    return { clock, leadership, errors };
  };
  return { disk, changes, start };
}

/** Advances the clocks of these candidates in the same small steps. */
async function pass(ms: number, ...processes: readonly { clock: SimulatedClock }[]) {
  for (let at = 0; at < ms; at += 50) {
    for (const { clock } of processes) clock.advance(50);
    await new Promise((resume) => setImmediate(resume));
  }
}

test("the first candidate leads, and the others stand by while it renews its lease", async (t) => {
  const { changes, start } = startPlace();
  const [a, b] = [start("a"), start("b")];
  await pass(60_000, a, b);
  t.deepEqual(changes, ["a leads 1 after undefined", "b sees a"]);
  t.true(a.leadership.isHeld);
  t.false(b.leadership.isHeld);
});

test("when the leader is gone, one standby leads within the lease and one poll", async (t) => {
  const { changes, start } = startPlace();
  const [a, b, c] = [start("a"), start("b"), start("c")];
  await pass(5000, a, b, c);
  await pass(leaseMs + 450, b, c);
  t.deepEqual(changes.slice(1), ["b sees a", "c sees a", "b leads 2 after a", "c sees b"]);
});

test("a leader that was stalled beyond its lease no longer holds it, and learns that it lost it", async (t) => {
  const { changes, start } = startPlace();
  const [a, b] = [start("a"), start("b")];
  await pass(5000, a, b);
  await pass(10_000, b);
  // The process and its clock resume: even before it reads the register, it no longer trusts its
  // lease.
  const nowMs = a.clock.now();
  a.clock.now = () => nowMs + 10_000;
  t.false(a.leadership.isHeld);
  t.throws(() => void a.leadership.confirm(), { code: "LEADERSHIP_LOST" });
  t.is(changes.at(-1), "a: This process led the cluster in term 1");
  t.true(b.leadership.isHeld);
});

test("a leader that was stalled while two others led learns that it lost its lease", async (t) => {
  const { changes, start } = startPlace();
  const [a, b, c] = [start("a"), start("b"), start("c")];
  await pass(5000, a);
  await pass(5000, b);
  await pass(5000, c);
  t.is(changes.at(-1), "c leads 3 after b");
  await pass(250, a);
  t.deepEqual([changes.at(-1), a.errors], ["a: This process led the cluster in term 1", []]);
});

test("a standby that was stalled itself does not take over from a live leader", async (t) => {
  const { changes, start } = startPlace();
  const [a, b] = [start("a"), start("b")];
  await pass(5000, a, b);
  await pass(60_000, a);
  await pass(400, b); // A minute late, b reads the register again.
  await pass(5000, a, b);
  t.deepEqual(changes, ["a leads 1 after undefined", "b sees a"]);
});

test("a lease that a leader gives back is taken at the next poll", async (t) => {
  const { changes, start } = startPlace();
  const [a, b] = [start("a"), start("b")];
  await pass(5000, a, b);
  await a.leadership.close();
  t.false(a.leadership.isHeld);
  await pass(250, b);
  t.is(changes.at(-1), "b leads 2 after a");
  await b.leadership.confirm();
});

test("a leader that cannot write its lease loses it, and regains it once the disk works", async (t) => {
  const { disk, start } = startPlace();
  const a = start("a");
  await pass(1000, a);
  const { open } = disk;
  disk.open = () => {
    throw Object.assign(new Error("ENOSPC: no space left"), { code: "ENOSPC", syscall: "open" });
  };
  await pass(1000, a);
  t.false(a.leadership.isHeld);
  t.true(a.errors.length > 0);
  disk.open = open;
  await pass(250, a);
  t.true(a.leadership.isHeld);
});

test("a former leader whose connection is still open gets no request in its successor's place", async (t) => {
  const { network, pass: spend } = startSimulatedNetwork();
  const answered: string[] = [];
  const serve = (name: string, term: number, isOpen: boolean) => {
    const fenced = fencedTransport(
      network.transport,
      () => isOpen,
      () => {},
      term,
    );
    fenced.subscribe("submit", ({ headers }) => answered.push(`${name} ${headers.n}`), {
      queue: "jobs",
    });
  };
  serve("hung", 1, false);
  serve("leader", 2, true);
  for (const n of ["1", "2", "3"]) {
    network.transport.publish("submit", new Uint8Array(), { headers: { n } });
  }
  await spend(100);
  t.deepEqual(answered, ["leader 1", "leader 2", "leader 3"]);
});

test("a lease in a bucket passes on if its leader is silent or releases it", async (t) => {
  const { changes, start } = startPlace((await startBucket()).objects);
  const [a, b, c] = [start("a"), start("b"), start("c")];
  await pass(5000, a, b, c);
  t.deepEqual(changes, ["a leads 1 after undefined", "b sees a", "c sees a"]);
  await pass(leaseMs + 450, b, c);
  t.deepEqual(changes.slice(3), ["b leads 2 after a", "c sees b"]);
  await t.throwsAsync(async () => a.leadership.confirm(), { code: "LEADERSHIP_LOST" });
  t.throws(() => a.leadership.assertLeading(), { code: "LEADERSHIP_LOST" });
  t.is(changes.at(-1), "a: This process led the cluster in term 1");
  await b.leadership.confirm();
  await b.leadership.close();
  await pass(250, c);
  t.is(changes.at(-1), "c leads 3 after b");
  const late = start("d"); // d finds three claims, of which c's is the newest.
  await pass(250, c, late);
  t.is(changes.at(-1), "d sees c");
});

test("a leader whose store lost the lease claims it again, and stays the leader", async (t) => {
  const { bucket, objects } = await startBucket();
  const { changes, start } = startPlace(objects);
  const [a, b] = [start("a"), start("b")];
  await pass(5000, a, b);
  await a.leadership.close();
  await pass(1000, b);
  const c = start("c");
  for (let times = 0; times < 3; times++) {
    await pass(5000, b, c);
    // Deletes the newest claim; in later rounds all claims.
    for (const key of bucket.keys) if (times > 0 || /2.json/.test(key)) bucket.plant(key);
  }
  await pass(5000, b, c);
  t.deepEqual(
    changes.filter((line) => /leads|again/.test(line)),
    ["a leads 1 after undefined", "b leads 2 after a", ...Array(3).fill("b claims again")],
  );
  t.true(b.leadership.isHeld);
  b.leadership.assertLeading();
  await pass(leaseMs + 450, c);
  t.is(changes.at(-1), "c leads 3 after b");
});

test("a leader whose store lost the lease yields to a process that claimed since", async (t) => {
  const { bucket, objects } = await startBucket();
  const { changes, start } = startPlace(objects);
  const a = start("a");
  await pass(1000, a);
  for (const key of bucket.keys) bucket.plant(key);
  const b = start("b");
  await pass(250, b);
  t.is(changes.at(-1), "b leads 1 after undefined");
  await t.throwsAsync(async () => a.leadership.confirm(), { code: "LEADERSHIP_LOST" });
  await b.leadership.confirm();
});

test("if processes claim a lease in a bucket at once, with lost answers, one leads", async (t) => {
  for (let which = 1; which < 16; which++) {
    const { bucket, objects } = await startBucket();
    bucket.fault(which, { kind: "answer-lost" });
    bucket.fault(which + 2, { kind: "delayed", after: 5 });
    const { changes, start } = startPlace(objects);
    const all = ["a", "b", "c", "d"].map(start);
    await pass(1500, ...all);
    t.is(changes.filter((line) => line.includes("leads")).length, 1, `${which}: ${changes}`);
  }
});

test("a lease in a bucket is lost while the bucket does not answer, and held again once it does", async (t) => {
  const { bucket, objects } = await startBucket();
  const a = startPlace(objects).start("a");
  await pass(1000, a);
  bucket.fault(() => true, { kind: "unavailable" }, 24);
  await pass(1000, a);
  t.false(a.leadership.isHeld);
  t.is((a.errors[0] as { code?: string }).code, "STORE_FAILED");
  a.leadership.assertLeading(); // No other process is known to lead.
  await pass(2000, a);
  t.true(a.leadership.isHeld);
});
