// The reader actor executes each command once, even if messages are repeated or lost, and starts
// another thread after a drained one.

import test from "ava";
import { readerMachine } from "../../../actors/host/reader.ts";
import { boardOf } from "../../../actors/threads/data/reader-board.ts";
import { createGeneration } from "../../../actors/threads/generation-memory.ts";
import { hostPlaceOf } from "../../../actors/threads/generation-spec.ts";
import {
  createFakeLauncher,
  smallGenerationSpec,
  startActor,
  startSimulatedNetwork,
} from "../../helpers/clusters/actors.ts";

const self = { role: "reader", index: 0 } as const;
const coordinator = { role: "coordinator", index: 0 } as const;

async function startReader(limit = 0) {
  const place = startSimulatedNetwork();
  const { launcher, threads } = createFakeLauncher();
  const spec = { ...smallGenerationSpec(), readerLimit: limit };
  const generation = createGeneration(spec, hostPlaceOf(spec, 0));
  const ended = { lastEnded: Promise.resolve() };
  const input = { network: place.network, launcher, generation, reader: 0, place: ended };
  const start = () => startActor(place, readerMachine, input);
  const { actor, ends } = start();
  await place.pass(0);
  const board = boardOf(generation.memory.readers, 0);
  const answers = () => place.heard(coordinator).map(({ type, body }) => ({ type, body }));
  return { ...place, actor, ends, threads, board, answers, start };
}

const start = { step: 0, pass: 0, sample: 0 };
const drained = (command: number, isForced = false) => ({
  type: "reader.drained",
  body: { command, reader: 0, isForced, position: start },
});

test("a drained reader waits for the exit of its thread, and starts another", async (t) => {
  const { threads, board, answers, pass, say, ends } = await startReader();
  say(self, "reader.drain", { command: 4 });
  await pass(0);
  t.is(board.get("isDraining"), 1);
  t.deepEqual(answers(), []);
  threads[0]?.end({ kind: "finished" });
  await pass(0);
  t.deepEqual(answers(), [drained(4)]);
  t.is(threads.length, 2);
  t.is(board.get("isDraining"), 0);
  t.is(board.get("drains"), 1);
  t.is(ends.error, undefined);
});

test("a repeated drain is executed once, also by the next actor of the reader", async (t) => {
  const { threads, actor, answers, pass, say, start: another } = await startReader();
  for (const command of [4, 4, 5]) say(self, "reader.drain", { command });
  await pass(0);
  threads[0]?.end({ kind: "finished" });
  await pass(0);
  say(self, "reader.drain", { command: 4 }); // The answer was lost.
  await pass(0);
  t.deepEqual(answers(), [drained(4), drained(5), drained(4)]);
  t.is(threads.length, 2);
  actor.stop();
  threads[1]?.end({ kind: "lost", reason: "killed" });
  another();
  await pass(0);
  say(self, "reader.drain", { command: 5 });
  await pass(0);
  t.deepEqual(answers().slice(3), [drained(5)]);
});

test("a drained thread that hangs is killed after a share of the step deadline", async (t) => {
  const { threads, answers, pass, say, ends } = await startReader();
  say(self, "reader.drain", { command: 1 });
  await pass(0);
  await pass(60_000);
  t.deepEqual(answers(), [drained(1, true)]);
  t.true(threads[0]?.isKilled);
  t.is(threads.length, 1); // R1: the exit of the thread was not seen yet.
  threads[0]?.end({ kind: "lost", reason: "killed" });
  await pass(0);
  t.is(threads.length, 2);
  t.is(ends.error, undefined);
});

test("a reader thread that crashes while it is drained is a failure", async (t) => {
  const { threads, board, pass, say, ends } = await startReader();
  say(self, "reader.drain", { command: 1 });
  await pass(0);
  threads[0]?.end({ kind: "lost", reason: "killed" });
  await pass(0);
  t.truthy(ends.error);
  t.is(board.get("failures"), 1);
});

test("a late, older limit is ignored, also by the actor that replaces a failed one", async (t) => {
  const { board, answers, pass, say, actor, start: another } = await startReader(500);
  t.is(board.get("limit"), 500);
  say(self, "reader.rate", { command: 7, samplesPerSecond: 100 });
  say(self, "reader.rate", { command: 6, samplesPerSecond: 900 });
  await pass(0);
  t.is(board.get("limit"), 100);
  actor.stop();
  another();
  await pass(0);
  say(self, "reader.rate", { command: 6, samplesPerSecond: 900 });
  await pass(0);
  t.is(board.get("limit"), 100);
  t.deepEqual(
    answers().map(({ type, body }) => [type, (body as { command: number }).command]),
    [7, 6, 6].map((command) => ["reader.limited", command]),
  );
});
