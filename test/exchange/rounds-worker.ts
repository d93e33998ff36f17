// The thread of one device for atomic-cells.test.ts and bridged-process.ts: runs the rounds over
// real atomics, and reports wrong results, or its failure.

import { parentPort, workerData } from "node:worker_threads";
import { recordError } from "../../src/errors/errors.ts";
import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { realClock } from "../../src/ports/clock.ts";
import { exchangeRounds, gradientWays, roundsShape } from "./rounds.ts";

const { devices, hostOf, rank, rounds, deadlineMs, words, memory } = workerData as {
  devices: number;
  /**
   * The host of each rank; several hosts have a bridge as the participant after the devices.
   * @default one host, no bridge
   */
  hostOf?: readonly number[];
  rank: number;
  rounds: number;
  deadlineMs: number;
  words: SharedArrayBuffer;
  memory: SharedArrayBuffer;
};
const bridge = hostOf && { bridge: devices };
const shape = { ...roundsShape(devices, gradientWays[2]), ...(hostOf && { hostOf }) };
const cells = createAtomicCells({
  words: new Int32Array(words),
  participants: devices + (bridge ? 1 : 0),
  participant: rank,
  generation: 4,
  deadlineMs,
  clock: realClock,
});
const kernels = createReference();
const exchange = createSharedMemoryExchange({ shape, rank, memory, cells, kernels, ...bridge });
parentPort?.postMessage({ started: rank });
exchangeRounds(exchange, shape, rounds).then(
  (wrong) => parentPort?.postMessage({ wrong, sent: exchange.sent }),
  (error: unknown) => parentPort?.postMessage({ error: recordError(error) }),
);
