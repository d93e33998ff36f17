// The journal writer writes events to the journal before it publishes them, and removes the mark of
// a whole journal if the journal may lack some.

import test from "ava";
import { openRunKeeper } from "../../../../actors/run/state/journal-writer.ts";
import type { RunEvent } from "../../../../actors/run/state/run-events.ts";
import { LeadershipLostError } from "../../../../src/errors/errors.ts";
import { SimulatedClock } from "../../../../src/ports/clock.ts";
import type { JournalEntry, RunJournal } from "../../../../storage/cluster/run-journal.ts";

const event = (seq: number): RunEvent => ({ type: "run.resumed", seq, run: "r1", generation: 1 });

/** A journal writer, and a list of its actions in order. */
function startKeeper(isRemote = false) {
  const clock = new SimulatedClock();
  const done: string[] = [];
  const state = { isFull: false, isLost: false, isUnsynced: false };
  const journal: RunJournal<RunEvent> = {
    isRemote,
    readFormer: () => ({ entries: [], damaged: 0 }),
    begin() {
      done.push("begin");
    },
    append(entries) {
      if (state.isFull && !isRemote) throw new Error("the disk is full");
      for (const entry of entries) if (entry.kind === "event") done.push(`keep ${entry.event.seq}`);
    },
    async synced() {
      if (isRemote && state.isFull) throw new Error("the store is out of reach");
      if (state.isUnsynced) throw new Error("the disk is broken");
      done.push("sync");
    },
    isLong: false,
    close: async () => {},
  };
  const { keeper, publish } = openRunKeeper({
    journal,
    clock,
    retryMs: 100,
    assertLeading() {
      if (state.isLost) throw new LeadershipLostError(1, "another");
    },
    confirm() {},
    entries: () => [],
    publish: ({ seq }) => done.push(`tell ${seq}`),
    mark: { set: () => done.push("mark"), drop: () => done.push("no mark") },
    onError: (error) => done.push(String(error)),
  });
  const happen = (seq: number) => {
    const entry: JournalEntry<RunEvent> = { kind: "event", run: "r1", event: event(seq) };
    keeper.keep(entry);
    publish(event(seq), undefined);
  };
  const pass = async (ms: number) => {
    clock.advance(ms);
    for (let turn = 0; turn < 10; turn++) await Promise.resolve();
  };
  return { done, state, happen, pass, keep: keeper.keep };
}

test("an event is written to the journal before it is published", async (t) => {
  const { done, happen, pass } = startKeeper();
  happen(0);
  happen(1);
  await pass(0);
  t.deepEqual(done, ["keep 0", "keep 1", "tell 0", "tell 1"]);
});

test("a reset of a crash count is synced before its event is published", async (t) => {
  const { done, happen, pass, keep } = startKeeper();
  keep({ kind: "request", run: "r1", crashes: 1 });
  await pass(0);
  happen(0);
  keep({ kind: "request", run: "r1", crashes: 0 });
  await pass(0);
  t.deepEqual(done, ["keep 0", "sync", "tell 0"]);
});

test("if the disk refuses an event, the mark of a complete journal is removed first", async (t) => {
  const { done, state, happen, pass } = startKeeper();
  state.isFull = true;
  happen(0);
  await pass(0);
  t.deepEqual(done.splice(0), ["Error: the disk is full", "no mark", "tell 0"]);
  state.isFull = false;
  await pass(100);
  t.deepEqual(done, ["keep 0", "sync", "mark"]);
});

test("after a failed sync the journal is rewritten, as the system may have dropped its bytes", async (t) => {
  const { done, state, happen, pass, keep } = startKeeper();
  state.isUnsynced = true;
  keep({ kind: "request", run: "r1", crashes: 0 });
  happen(0);
  await pass(0);
  t.deepEqual(done.splice(0), ["keep 0", "Error: the disk is broken", "no mark", "tell 0"]);
  state.isUnsynced = false;
  await pass(100);
  t.deepEqual(done.splice(0), ["begin", "sync", "mark"]);
  happen(1);
  await pass(0);
  t.deepEqual(done, ["keep 1", "tell 1"]);
});

test("once another process leads, nothing is written, and the mark is not set again", async (t) => {
  const { done, state, happen, pass } = startKeeper();
  state.isFull = true;
  happen(0);
  await pass(0);
  state.isFull = false;
  state.isLost = true;
  await pass(100);
  t.deepEqual(done, ["Error: the disk is full", "no mark", "tell 0", "sync"]);
});

test("if the journal is remote, events wait until it has them, and keep their order", async (t) => {
  const { done, state, happen, pass } = startKeeper(true);
  happen(0);
  await pass(0);
  t.deepEqual(done.splice(0), ["keep 0", "sync", "tell 0"]);
  state.isFull = true;
  happen(1);
  await pass(0);
  happen(2);
  await pass(50);
  t.false(done.some((what) => what.startsWith("tell")));
  t.is(done.filter((what) => what.startsWith("Error")).length, 1, "the refusal is reported once");
  state.isFull = false;
  await pass(100);
  t.deepEqual(
    done.filter((what) => /keep|tell/.test(what)),
    ["keep 1", "keep 2", "tell 1", "tell 2"],
  );
});
