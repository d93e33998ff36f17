// Work in turns, and threads that are created one a turn.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import test from "ava";
import { SimulatedClock } from "../../src/ports/clock.ts";
import { workerLauncher } from "../../src/ports/launcher.ts";
import { atOnce, inTurns, paced, type Steps } from "../../src/ports/turns.ts";

function* adding(log: string[]): Steps<number> {
  for (let i = 1; i <= 3; i++) {
    log.push(`step ${i}`);
    yield;
  }
  return 6;
}

async function settle() {
  await new Promise<void>((resume) => setImmediate(resume));
}

test("other tasks of the clock run between the turns of a long task", async (t) => {
  const clock = new SimulatedClock();
  const log: string[] = [];
  const ended = inTurns(clock, adding(log));
  for (let turn = 1; turn <= 3; turn++) {
    clock.after(0, () => log.push(`task ${turn}`));
    clock.advance(0);
    await settle();
  }
  t.is(await ended, 6);
  t.deepEqual(log, ["step 1", "task 1", "step 2", "task 2", "step 3", "task 3"]);
  t.is(atOnce(adding(log)), 6);
});

test("a long task stops if its result is no longer awaited", async (t) => {
  const clock = new SimulatedClock();
  const log: string[] = [];
  const stop = new AbortController();
  const ended = t.throwsAsync(inTurns(clock, adding(log), stop.signal), { message: "over" });
  stop.abort(new Error("over"));
  clock.advance(0);
  await ended;
  t.deepEqual(log, ["step 1"]);
});

test("a burst of tasks is done in several turns, in order, and later errors are reported", (t) => {
  let nowMs = 0;
  const [log, errors, timers]: [string[], unknown[], (() => void)[]] = [[], [], []];
  const after = (_ms: number, timer: () => void) => {
    timers.push(timer);
    return () => {};
  };
  const run = paced({ now: () => nowMs, after }, 40);
  const work = (name: string, ms = 15) => {
    const one = () => {
      log.push(name);
      nowMs += ms;
      if (name === "d") throw new Error("of d");
    };
    run(one, (error) => errors.push(error));
  };
  const turn = () => {
    log.push("|");
    for (const timer of timers.splice(0)) timer();
  };
  for (const name of ["a", "b", "c", "d", "e", "f", "g"]) work(name);
  work("h");
  turn();
  work("i");
  turn();
  turn();
  t.is(log.join(""), "abc|def|ghi|", "a turn ends after 40 ms: three tasks of 15 ms");
  t.deepEqual(errors, [new Error("of d")]);
  // Tasks that come later begin a new turn.
  nowMs += 5;
  for (const name of ["j", "k", "l"]) work(name, 5);
  t.is(log.join(""), "abc|def|ghi|jkl");
  nowMs += 5;
  t.throws(() => work("d"), { message: "of d" }, "an error of the first turn reaches the caller");
});

/** A thread that reports its first three commands, and ends. */
const folder = mkdtempSync(join(tmpdir(), "osiris-echo-"));
const echo = pathToFileURL(join(folder, "echo.mjs"));
test.after.always(() => rmSync(folder, { recursive: true }));
writeFileSync(
  echo,
  `import { parentPort } from "node:worker_threads";
const heard = [];
parentPort.on("message", (one) => {
  heard.push(one);
  if (heard.length < 3) return;
  parentPort.postMessage({ report: heard });
  parentPort.close();
});
`,
);

test("a thread gets the commands that were sent before it was created, in order", async (t) => {
  const thread = workerLauncher.start<number, number[]>(echo, undefined, "echo");
  const heard = new Promise<number[]>((resolve) => thread.onReport(resolve));
  for (const command of [1, 2, 3]) thread.send(command);
  t.deepEqual(await heard, [1, 2, 3]);
  t.deepEqual(await thread.ended, { kind: "finished" });
});

test("a thread that is killed before it was created never runs", async (t) => {
  const threads = Array.from({ length: 3 }, () =>
    workerLauncher.start<number, number[]>(echo, undefined, "echo"),
  );
  const killed = threads[2];
  killed?.kill();
  t.deepEqual(await killed?.ended, {
    kind: "lost",
    reason: "the thread ended with exit code 1",
  });
  for (const thread of threads) thread.kill();
  await Promise.all(threads.map(({ ended }) => ended));
});
