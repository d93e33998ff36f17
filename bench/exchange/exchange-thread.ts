// One device of the exchange bench: a thread that runs as many rounds as each message requests.

import { parentPort, workerData } from "node:worker_threads";
import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { realClock } from "../../src/ports/clock.ts";
import { benchShape, type ExchangeWork, measureRounds } from "./exchange-rounds.ts";

export interface ExchangeThreadData {
  readonly work: ExchangeWork;
  readonly rank: number;
  readonly words: SharedArrayBuffer;
  readonly memory: SharedArrayBuffer;
}

const { work, rank, words, memory } = workerData as ExchangeThreadData;
const devices = work.hostOf.length;
const kernels = openKernels("native");
const exchange = createSharedMemoryExchange({
  shape: benchShape(work),
  rank,
  memory,
  cells: createAtomicCells({
    words: new Int32Array(words),
    participants: devices + 1,
    participant: rank,
    generation: 1,
    deadlineMs: 60_000,
    clock: realClock,
  }),
  kernels,
  bridge: devices,
});
parentPort?.on("message", (rounds: number) => {
  void measureRounds(exchange, kernels, work, rounds).then((ms) => parentPort?.postMessage(ms));
});
