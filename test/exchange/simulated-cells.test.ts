// The exchange over simulated cells: interleavings, timeouts and aborts.

import test from "ava";
import { GenerationAbortedError, StepTimeoutError } from "../../src/errors/errors.ts";
import type { Exchange } from "../../src/exchange/exchange.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import { createSimulatedCells } from "../../src/exchange/simulated-cells.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { exchangeRounds, gradientWays, roundsShape } from "./rounds.ts";

function startExchanges(devices: number, seed: number) {
  const shape = roundsShape(devices, gradientWays[seed % gradientWays.length]);
  const layout = layoutOf(shape);
  const cells = createSimulatedCells({ cells: layout.cells, seed, generation: 3 });
  const memory = new SharedArrayBuffer(layout.bytes);
  const kernels = createReference();
  const exchanges = Array.from({ length: devices }, (_, rank) =>
    createSharedMemoryExchange({ shape, rank, memory, kernels, cells: cells.cellsOf(rank) }),
  );
  return { shape, cells, exchanges };
}

for (const devices of [1, 2, 3, 5, 8]) {
  test(`${devices} devices exchange the right bytes, in any interleaving`, async (t) => {
    for (let seed = 0; seed < 30; seed++) {
      const { shape, cells, exchanges } = startExchanges(devices, seed);
      const wrong: string[] = [];
      const run = async (exchange: Exchange) => {
        wrong.push(...(await exchangeRounds(exchange, shape, 4)));
      };
      await cells.run(exchanges.map((exchange) => () => run(exchange)));
      t.deepEqual(wrong, [], `seed ${seed}`);
    }
  });
}

test("a missing device causes a timeout that names it, and releases the others", async (t) => {
  const { shape, cells, exchanges } = startExchanges(3, 1);
  const present = exchanges.filter(({ rank }) => rank !== 1);
  const ends: unknown[] = [];
  const run = async (exchange: Exchange) => {
    await exchangeRounds(exchange, shape, 2).catch((error: unknown) => {
      ends.push(error);
      throw error;
    });
  };
  const error = await t.throwsAsync(cells.run(present.map((exchange) => () => run(exchange))), {
    instanceOf: StepTimeoutError,
  });
  t.is(error?.wait, "the ids of device 1 (round 1)");
  t.is(ends.length, 2);
  t.true(ends.some((end) => end instanceof GenerationAbortedError));
});

test("a store that wakes nobody leaves a sleeping participant asleep", async (t) => {
  for (const wake of [[1], []]) {
    const cells = createSimulatedCells({ cells: 1, seed: 1 });
    const [writer, sleeper] = [cells.cellsOf(0), cells.cellsOf(1)];
    let isParked = false;
    const run = cells.run([
      async () => {
        await writer.waitUntil(
          () => "the sleeper",
          () => isParked,
          1,
        );
        writer.store(0, 1, wake);
      },
      async () => {
        const wait = sleeper.waitUntil(
          () => "the store",
          () => sleeper.load(0) === 1,
          0,
        );
        isParked = true;
        await wait;
      },
    ]);
    if (wake.length > 0) await t.notThrowsAsync(run);
    else await t.throwsAsync(run, { instanceOf: StepTimeoutError, message: /the store/ });
  }
});

test("a device that fails ends the waits of the others, and its own error is reported", async (t) => {
  const { shape, cells, exchanges } = startExchanges(2, 1);
  const [first, second] = exchanges;
  if (first === undefined || second === undefined) return t.fail();
  const run = cells.run([
    async () => void (await exchangeRounds(first, shape, 2)),
    async () => {
      await second.ids.open(() => 8);
      throw new TypeError("a bug");
    },
  ]);
  await t.throwsAsync(run, { instanceOf: TypeError, message: "a bug" });
});

test("an abort releases every waiting task, and its error names the generation", async (t) => {
  const { cells } = startExchanges(2, 1);
  const wait = (rank: number) =>
    cells.cellsOf(rank).waitUntil(
      () => "for ever",
      () => false,
      0,
    );
  const run = cells.run([
    () => wait(0),
    async () => {
      cells.abort();
      await wait(1);
    },
  ]);
  await t.throwsAsync(run, {
    instanceOf: GenerationAbortedError,
    message: "Generation 3 was aborted",
  });
});

test("the same seed gives the same interleaving of tasks, another seed another one", async (t) => {
  const orderOf = async (seed: number) => {
    const order: number[] = [];
    const cells = createSimulatedCells({ cells: 1, seed });
    const tasks = Array.from({ length: 4 }, (_, rank) => async () => {
      for (let i = 0; i < 5; i++) {
        await cells.cellsOf(rank).waitUntil(
          () => "my turn",
          () => true,
          0,
        );
        order.push(rank);
      }
    });
    await cells.run(tasks);
    return order.join("");
  };
  t.is(await orderOf(1), await orderOf(1));
  t.not(await orderOf(1), await orderOf(2));
});

test("a wait condition with a side effect is evaluated only once, as a bridge needs", async (t) => {
  for (let seed = 0; seed < 20; seed++) {
    const cells = createSimulatedCells({ cells: 1, seed });
    let news = 1;
    const take = () => news-- === 1;
    const of = (participant: number) => cells.cellsOf(participant);
    const busy = async (participant: number) => {
      for (let i = 0; i < 5; i++)
        await of(participant).waitUntil(
          () => "a turn",
          () => true,
          0,
        );
    };
    await t.notThrowsAsync(
      cells.run([() => of(0).waitUntil(() => "news", take, 1), () => busy(1), () => busy(2)]),
    );
  }
});
