// The exchange over real threads and atomics.

import { setTimeout } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import test from "ava";
import {
  type ErrorRecord,
  GenerationAbortedError,
  StepTimeoutError,
} from "../../src/errors/errors.ts";
import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import { abortCells, cellWords, holdCells, ringDoorbell } from "../../src/exchange/cells.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { realClock, SimulatedClock } from "../../src/ports/clock.ts";
import { testAll, testIf } from "../helpers/needs.ts";
import { someOrAll } from "../helpers/thinned.ts";
import { roundsShape } from "./rounds.ts";

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
  const layout = layoutOf(roundsShape(devices));
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

// In `npm test`, simulated-cells.test.ts covers this for an exchange, and a test below for these
// cells.
testIf(testAll).serial(
  "a missing device causes a timeout that names it, on every waiting device",
  async (t) => {
    const threads = startThreads({ devices: 3, ranks: [0, 2], rounds: 5, deadlineMs: 3000 });
    for (const { error } of await threads.outcomes) {
      t.is(error?.code, "STEP_TIMEOUT");
      t.is(error?.message, "Waited 3000 ms for the ids of device 1 (round 1)");
    }
  },
);

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

test("a store sets its cell and rings the doorbells of the participants to wake", (t) => {
  const { words, mine, other } = startCells(1000);
  mine.store(2, 7, [1]);
  t.is(other.load(2), 7);
  t.is(other.load(1), 0);
  t.deepEqual([...words.subarray(0, 3)], [0, 0, 1]);
  ringDoorbell(words, 0);
  t.deepEqual([...words.subarray(0, 3)], [0, 1, 1]);
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
  const sleep = (_words: Int32Array, _at: number, _value: number, ms: number) =>
    setTimeout(Math.min(ms, 10));
  const common = { words, participants: 2, participant: 0, generation: 1, clock: realClock };
  const cells = createAtomicCells({ ...common, deadlineMs: 100, sleep });
  holdCells(words, 2, true);
  const startMs = performance.now();
  const waited = cells.waitUntil(
    () => "the answer",
    () => false,
    1,
  );
  await setTimeout(400);
  holdCells(words, 2, false);
  await t.throwsAsync(waited, { instanceOf: StepTimeoutError });
  t.true(performance.now() - startMs >= 500, "the deadline begins anew when the wait ends");
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
