// The exchange over real threads and atomics.

import { Worker } from "node:worker_threads";
import test from "ava";
import {
  type ErrorRecord,
  GenerationAbortedError,
  StepTimeoutError,
} from "../../src/errors/errors.ts";
import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import {
  abortCells,
  cellWords,
  holdCells,
  lieDown,
  ringDoorbell,
} from "../../src/exchange/cells.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { realClock, SimulatedClock } from "../../src/ports/clock.ts";
import { someOrAll } from "../helpers/thinned.ts";
import { gradientWays, roundsShape } from "./rounds.ts";

interface Outcome {
  readonly wrong?: string[];
  readonly error?: ErrorRecord;
}

function startThreads(options: {
  devices: number;
  ranks: readonly number[];
  rounds: number;
  deadlineMs: number;
}) {
  const { devices, ranks } = options;
  const layout = layoutOf(roundsShape(devices, gradientWays[2]));
  const words = new SharedArrayBuffer(4 * cellWords(devices, layout.cells));
  const memory = new SharedArrayBuffer(layout.bytes);
  const started: Promise<void>[] = [];
  const outcomes = ranks.map((rank) => {
    const workerData = { ...options, rank, words, memory };
    const worker = new Worker(new URL("rounds-worker.js", import.meta.url), { workerData });
    let begin = () => {};
    started.push(
      new Promise((resolve) => {
        begin = resolve;
      }),
    );
    return new Promise<Outcome>((resolve, reject) => {
      worker.on("error", reject);
      worker.on("message", (message: Outcome & { started?: number }) => {
        if (message.started !== undefined) begin();
        else resolve(message);
      });
    });
  });
  return {
    started: Promise.all(started),
    outcomes: Promise.all(outcomes),
    abort: () => abortCells(new Int32Array(words), devices),
  };
}

for (const devices of someOrAll("threads of an exchange", [3], [1, 2, 3])) {
  test.serial(
    `${devices} threads exchange the right bytes, in every one of 200 rounds`,
    async (t) => {
      const ranks = Array.from({ length: devices }, (_, rank) => rank);
      const threads = startThreads({ devices, ranks, rounds: 200, deadlineMs: 60_000 });
      for (const { wrong, error } of await threads.outcomes) {
        t.is(error, undefined);
        t.deepEqual(wrong, []);
      }
    },
  );
}

test.serial("an abort releases every waiting device, long before the deadline", async (t) => {
  const threads = startThreads({ devices: 3, ranks: [0, 1], rounds: 5, deadlineMs: 600_000 });
  await threads.started;
  threads.abort();
  for (const { error } of await threads.outcomes) {
    t.is(error?.code, "GENERATION_ABORTED");
    t.is(error?.message, "Generation 4 was aborted");
  }
});

function startCells(deadlineMs: number, clock = realClock) {
  const words = new Int32Array(new SharedArrayBuffer(4 * cellWords(2, 3)));
  const common = { words, participants: 2, generation: 1, deadlineMs, clock };
  const [mine, other] = [0, 1].map((participant) => createAtomicCells({ ...common, participant }));
  if (mine === undefined || other === undefined) throw new Error("unreachable");
  return { words, mine, other };
}

test("a store sets its cell, and wakes its waiting thread only if that sleeps, once", (t) => {
  const { words, mine, other } = startCells(1000);
  const bell = () => words[2];
  mine.store(2, 7, [1]);
  t.is(other.load(2), 7);
  t.is(other.load(1), 0);
  t.is(bell(), 0);
  t.is(lieDown(words, 1), 1);
  mine.store(0, 1, [1]);
  t.is(bell(), 2);
  mine.store(1, 1, [1]);
  t.is(bell(), 2);
  ringDoorbell(words, 1); // The bell for a command rings even if the participant is awake.
  t.is(bell(), 4);
});

test.serial("a cell is stored before its writer checks whether the reader sleeps", (t) => {
  const { words, mine } = startCells(1000);
  const { store } = Atomics;
  const bells: (number | undefined)[] = [];
  Atomics.store = ((...of: Parameters<typeof store>) => {
    bells.push(words[2]);
    return store(...of);
  }) as typeof store;
  try {
    lieDown(words, 1);
    mine.store(0, 1, [1]);
  } finally {
    Atomics.store = store;
  }
  t.deepEqual([bells, words[2]], [[1], 2]);
});

test("a store at any moment while a thread falls asleep ends its wait", async (t) => {
  for (const moment of ["polling", "lain down", "checked", "asleep"]) {
    const deadlineMs = 600_000;
    const { words, mine, other } = startCells(deadlineMs);
    const store = () => mine.store(0, 1, [1]);
    const isDown = () => Atomics.load(words, 2) % 2 === 1;
    let checks = 0;
    const common = { words, participants: 2, participant: 1, generation: 1, deadlineMs };
    const cells = createAtomicCells({
      ...common,
      clock: realClock,
      sleep: (all, at, seen, ms) => {
        if (moment === "asleep") queueMicrotask(store);
        return Atomics.waitAsync(all, at, seen, ms).value;
      },
    });
    const sleeper = moment === "polling" ? other : cells;
    await sleeper.waitUntil(
      () => "the store",
      () => {
        checks++;
        if (moment === "polling" && checks === 20) store();
        if (moment === "lain down" && isDown()) store(); // Before the check reads the cell.
        const isTrue = sleeper.load(0) === 1;
        if (moment === "checked" && isDown()) store(); // After it.
        return isTrue;
      },
      0,
    );
    t.is(mine.load(0), 1, moment);
  }
});

test("threads that wake each other at every store lose no wake-up", async (t) => {
  const turns = 20_000;
  const words = new SharedArrayBuffer(4 * cellWords(2, 2));
  const workers = [0, 1].map((participant) => {
    const workerData = { words, participant, turns };
    return new Worker(new URL("turns-worker.js", import.meta.url), { workerData });
  });
  const ends = await Promise.all(
    workers.map((worker) => new Promise((resolve) => void worker.once("message", resolve))),
  );
  t.deepEqual(ends, [undefined, undefined]);
});

test("a thread polls less after long sleeps, and more after short ones", async (t) => {
  const { words } = startCells(1000);
  let nowMs = 0;
  const clock = { ...realClock, now: () => nowMs };
  const common = { words, participants: 2, generation: 1, deadlineMs: 10, clock };
  const [cells, other] = [1, 0].map((participant) => createAtomicCells({ ...common, participant }));
  const pollsOf = async (sleepMs: number): Promise<number> => {
    let polls = 0;
    let hasSlept = false;
    Atomics.and(words, 2, ~1);
    await cells?.waitUntil(
      () => "the end of a sleep",
      () => {
        if (hasSlept) return true;
        if (Atomics.load(words, 2) % 2 === 0) {
          if (++polls > 20_000) throw new RangeError("the participant never lies down");
          return false;
        }
        other?.store(0, polls, [1]); // Stores between check and sleep, which so ends at once.
        nowMs += sleepMs;
        hasSlept = true;
        return false;
      },
      0,
    );
    return polls;
  };
  const long = [await pollsOf(5), await pollsOf(5), await pollsOf(5)];
  t.deepEqual(long, [500, 438, 384]);
  for (let i = 0; i < 40; i++) await pollsOf(5);
  t.is(await pollsOf(0), 7);
  for (let i = 0; i < 12; i++) await pollsOf(0.15); // As long as 20,000 polls, the maximum.
  t.is(await pollsOf(0), 20_000);
});

test("a wait fails at its deadline with an error that names the awaited data", async (t) => {
  const { mine } = startCells(20);
  const error = await t.throwsAsync(
    mine.waitUntil(
      () => "the answer",
      () => false,
      1,
    ),
    {
      instanceOf: StepTimeoutError,
      message: "Waited 20 ms for the answer",
    },
  );
  t.is(error?.wait, "the answer");
});

test("a declared hold by one thread suspends the deadlines of all others", async (t) => {
  const words = new Int32Array(new SharedArrayBuffer(4 * cellWords(2, 3)));
  let nowMs = 0;
  const clock = { ...realClock, now: () => nowMs };
  const sleep = async (_words: Int32Array, _at: number, _value: number, ms: number) => {
    nowMs += Math.min(ms, 10);
    if (nowMs === 400) holdCells(words, 2, false);
  };
  const common = { words, participants: 2, participant: 0, generation: 1, clock };
  const cells = createAtomicCells({ ...common, deadlineMs: 100, sleep });
  holdCells(words, 2, true);
  const waited = cells.waitUntil(
    () => "the answer",
    () => false,
    1,
  );
  await t.throwsAsync(waited, { instanceOf: StepTimeoutError });
  t.is(nowMs, 500, "the deadline starts again after the hold");
});

test("a wait whose condition holds does not read the clock", async (t) => {
  const { mine } = startCells(0, new SimulatedClock());
  await t.notThrowsAsync(
    mine.waitUntil(
      () => "nothing",
      () => true,
      1,
    ),
  );
});

test("after an abort every wait fails", async (t) => {
  const { words, mine, other } = startCells(60_000);
  abortCells(words, 2);
  for (const cells of [mine, other]) {
    const wait = cells.waitUntil(
      () => "more",
      () => false,
      1,
    );
    await t.throwsAsync(wait, { instanceOf: GenerationAbortedError });
  }
});
