// The waits-for graph: waits recorded by threads and by actors, and which actors are unresponsive.

import test from "ava";
import {
  unresponsiveIn,
  type Wait,
  WaitBook,
  waitsFor,
} from "../../../actors/runtime/wait-graph.ts";
import { createAtomicCells } from "../../../src/exchange/atomic-cells.ts";
import { abortCells, cellWords } from "../../../src/exchange/cells.ts";
import { openWaitNote, readWaitNotes, waitNotesBytes } from "../../../src/exchange/wait-notes.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";

const edge = (waiter: string, awaited: string): Wait => ({ waiter, awaited, what: "it", forMs: 1 });

test("an actor that others wait for, waiting for none itself, is unresponsive", (t) => {
  const waits = [
    edge("device:0", "device:1"),
    edge("device:1", "tier:1"),
    edge("device:2", "device:1"),
    edge("device:3", "reader:0"),
  ];
  t.deepEqual(unresponsiveIn(waits), ["reader:0", "tier:1"]);
  t.deepEqual(unresponsiveIn(waits, "device:2"), ["tier:1"]);
  t.deepEqual(unresponsiveIn(waits, "device:9"), []);
});

test("in a circle of waits all actors are unresponsive; a wait for `anyone` names none", (t) => {
  const circle = [edge("device:0", "device:1"), edge("device:1", "device:0")];
  t.deepEqual(unresponsiveIn(circle, "device:0"), ["device:0", "device:1"]);
  t.deepEqual(unresponsiveIn([edge("device:0", "anyone")]), []);
});

test("an actor's wait is listed while it lasts, with the actors that have not answered", (t) => {
  const clock = new SimulatedClock();
  const book = new WaitBook(clock);
  const missing = ["host:0", "host:1"];
  const wait = { run: "r1", waiter: "coordinator:0", what: "an answer" };
  const close = book.open({ ...wait, awaited: () => missing });
  book.open({ ...wait, run: "r2", awaited: () => ["host:0"] });
  t.deepEqual(book.waits("r1"), [], "a wait that has just begun is usual");
  clock.advance(1000);
  missing.shift();
  const edges = [{ waiter: "coordinator:0", awaited: "host:1", what: "an answer", forMs: 1000 }];
  t.deepEqual(book.waits("r1"), edges);
  const threadWaits = [edge("device:0", "device:1")];
  t.deepEqual(waitsFor({ waits: book }, { run: "r1", threadWaits }), {
    waits: [...threadWaits, ...edges],
    unresponsive: ["device:1", "host:1"],
  });
  close();
  t.deepEqual(book.waits("r1"), []);
});

function startNoting(deadlineMs: number) {
  const clock = new SimulatedClock();
  const words = new Int32Array(new SharedArrayBuffer(4 * cellWords(2, 1)));
  const notes = new SharedArrayBuffer(waitNotesBytes(2));
  const cells = createAtomicCells({
    ...{ words, participants: 2, participant: 1, generation: 1, deadlineMs, clock },
    sleep: async (_words, _at, _seen, ms) => {
      await new Promise<void>((resume) => clock.after(Math.min(ms, 10), resume));
    },
    note: openWaitNote(notes, 1),
  });
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 10) {
      clock.advance(10);
      await new Promise<void>((resume) => setImmediate(resume));
    }
  };
  return { words, notes, cells, pass };
}

test("a thread records a long wait, and removes the record when the wait ends", async (t) => {
  const { notes, cells, pass } = startNoting(800);
  let isThere = false;
  const waited = cells.waitUntil(
    () => "the pooled embeddings of device 0 (round 3)",
    () => isThere,
    0,
  );
  await pass(90);
  t.deepEqual(readWaitNotes(notes), []);
  await pass(20);
  const what = "the pooled embeddings of device 0 (round 3)";
  t.deepEqual(readWaitNotes(notes), [{ participant: 1, of: 0, what, sinceMs: 0 }]);
  isThere = true;
  await pass(10);
  await waited;
  t.deepEqual(readWaitNotes(notes), []);
});

test("a wait that times out stays recorded, so that it names the cause", async (t) => {
  const { notes, cells, pass } = startNoting(800);
  const long = `${"x".repeat(200)}`;
  const failed = t.throwsAsync(
    cells.waitUntil(
      () => long,
      () => false,
      0,
    ),
    { message: `Waited 800 ms for ${long}` },
  );
  await pass(900);
  await failed;
  t.like(readWaitNotes(notes), [{ participant: 1, of: 0 }]);
  t.true(long.startsWith(readWaitNotes(notes)[0]?.what ?? "-"));
});

test("a thread that idles until it gets a command records no wait", async (t) => {
  const { words, notes, cells, pass } = startNoting(Number.POSITIVE_INFINITY);
  const idle = cells.waitUntil(
    () => "a command",
    () => false,
    0,
  );
  await pass(2000);
  t.deepEqual(readWaitNotes(notes), []);
  abortCells(words, 2);
  const aborted = t.throwsAsync(idle, { message: "Generation 1 was aborted" });
  await pass(10);
  await aborted;
});
