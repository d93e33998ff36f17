// The lease in virtual time: which process leads, and when each process learns it.

import test from "ava";
import { Leadership } from "../../../actors/cluster/election.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { SimulatedDisk } from "../../../src/ports/simulated-disk.ts";
import type { Register, Registered } from "../../../src/wire/jetstream/nats-register.ts";
import { LeaseDirectory, RegisteredLease } from "../../../storage/cluster/lease.ts";

const leaseMs = 1000;

/** A register in memory with delayed answers. */
function createRegister() {
  let held: Registered | undefined;
  let revisions = 0;
  const register: Register & { forget(): void } = {
    async read() {
      return held;
    },
    async compareAndSet(value, revision) {
      if ((held?.revision ?? 0) !== revision) return undefined;
      held = { value, revision: ++revisions };
      return revisions;
    },
    forget() {
      held = undefined;
    },
    async close() {},
  };
  return register;
}

/**
 * Candidates for leader, each with its own clock: a clock that is not advanced is a stalled
 * process.
 */
function startPlace(register?: Register) {
  const disk = new SimulatedDisk();
  const told: string[] = [];
  const start = (name: string) => {
    const clock = new SimulatedClock();
    const errors: unknown[] = [];
    const files = () => new LeaseDirectory(disk, "/lease");
    const leadership = new Leadership({
      clock,
      lease: register === undefined ? files() : new RegisteredLease(register, files()),
      leaseMs,
      owner: name,
      onStandby: ({ owner }) => told.push(`${name} sees ${owner}`),
      onLeading: (term, former) => told.push(`${name} leads ${term} after ${former?.owner}`),
      onLost: ({ message }) => told.push(`${name}: ${message.split(";")[0]}`),
      onError: (error) => errors.push(error),
    });
    return { clock, leadership, errors };
  };
  return { disk, told, start };
}

/** Advances the clocks of these candidates in the same small steps. */
async function pass(ms: number, ...processes: readonly { clock: SimulatedClock }[]) {
  for (let at = 0; at < ms; at += 50) {
    for (const { clock } of processes) clock.advance(50);
    await new Promise((resume) => setImmediate(resume));
  }
}

test("the first candidate leads, and the others stand by while it renews its lease", async (t) => {
  const { told, start } = startPlace();
  const [a, b] = [start("a"), start("b")];
  await pass(60_000, a, b);
  t.deepEqual(told, ["a leads 1 after undefined", "b sees a"]);
  t.true(a.leadership.isHeld);
  t.false(b.leadership.isHeld);
});

test("when the leader is gone, one standby leads within the lease and one poll", async (t) => {
  const { told, start } = startPlace();
  const [a, b, c] = [start("a"), start("b"), start("c")];
  await pass(5000, a, b, c);
  await pass(leaseMs + 450, b, c);
  t.deepEqual(told.slice(1), ["b sees a", "c sees a", "b leads 2 after a", "c sees b"]);
});

test("a leader that was stalled beyond its lease no longer holds it, and learns that it lost it", async (t) => {
  const { told, start } = startPlace();
  const [a, b] = [start("a"), start("b")];
  await pass(5000, a, b);
  await pass(10_000, b);
  // The process and its clock resume: even before it reads the register, it no longer trusts its
  // lease.
  const nowMs = a.clock.now();
  a.clock.now = () => nowMs + 10_000;
  t.false(a.leadership.isHeld);
  t.throws(() => a.leadership.confirm(), { code: "LEADERSHIP_LOST" });
  t.is(told.at(-1), "a: This process led the cluster in term 1");
  t.true(b.leadership.isHeld);
});

test("a standby that was stalled itself does not take over from a live leader", async (t) => {
  const { told, start } = startPlace();
  const [a, b] = [start("a"), start("b")];
  await pass(5000, a, b);
  await pass(60_000, a);
  await pass(400, b); // A minute late, it reads the register again.
  await pass(5000, a, b);
  t.deepEqual(told, ["a leads 1 after undefined", "b sees a"]);
});

test("a lease that a leader gives back is taken at the next poll", async (t) => {
  const { told, start } = startPlace();
  const [a, b] = [start("a"), start("b")];
  await pass(5000, a, b);
  await a.leadership.close();
  t.false(a.leadership.isHeld);
  await pass(250, b);
  t.is(told.at(-1), "b leads 2 after a");
  b.leadership.confirm();
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

test("with a register: one leads, a standby takes over when it is silent or releases the lease", async (t) => {
  const { told, start } = startPlace(createRegister());
  const [a, b, c] = [start("a"), start("b"), start("c")];
  await pass(5000, a, b, c);
  t.deepEqual(told, ["a leads 1 after undefined", "b sees a", "c sees a"]);
  await pass(leaseMs + 450, b, c);
  t.deepEqual(told.slice(3), ["b leads 2 after a", "c sees b"]);
  await pass(1000, a, b, c); // `a` was stalled, and finds out.
  t.is(told.at(-1), "a: This process led the cluster in term 1");
  await b.leadership.close();
  await pass(250, c);
  t.is(told.at(-1), "c leads 3 after b");
});

test("the holder of a lease writes it again to a register that lost it, and stays the leader", async (t) => {
  const register = createRegister();
  const { told, start } = startPlace(register);
  const [a, b] = [start("a"), start("b")];
  for (let times = 0; times < 5; times++) {
    await pass(5000, a, b);
    register.forget();
  }
  await pass(5000, a, b);
  t.deepEqual(
    told.filter((line) => line.includes("leads")),
    ["a leads 1 after undefined"],
  );
  t.true(a.leadership.isHeld);
});

test("of several candidates that claim a term in a register at once, exactly one leads", async (t) => {
  const { told, start } = startPlace(createRegister());
  const all = ["a", "b", "c", "d"].map(start);
  await pass(3000, ...all);
  t.is(told.filter((line) => line.includes("leads")).length, 1);
});
