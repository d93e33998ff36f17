// One of two threads for atomic-cells.test.ts that take turns: each stores its turn, wakes the
// other one, and waits for the turn of that one. A lost wake-up ends in a timeout.

import { parentPort, workerData } from "node:worker_threads";
import { recordError } from "../../src/errors/errors.ts";
import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import { realClock } from "../../src/ports/clock.ts";

const { words, participant, turns } = workerData as {
  words: SharedArrayBuffer;
  participant: number;
  turns: number;
};
const cells = createAtomicCells({
  ...{ words: new Int32Array(words), participants: 2, participant, generation: 1 },
  ...{ deadlineMs: 120_000, clock: realClock },
});
const other = 1 - participant;
try {
  for (let turn = 1; turn <= turns; turn++) {
    cells.store(participant, turn, [other]);
    const wait = () => `turn ${turn} of thread ${other}`;
    await cells.waitUntil(wait, () => cells.load(other) >= turn, other);
  }
  parentPort?.postMessage(undefined);
} catch (error) {
  parentPort?.postMessage(recordError(error));
}
