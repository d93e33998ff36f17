// A reader's thread in the benches: hands prepared batches over through the real ring. Before each
// batch it sleeps a given time, as a reader that waits for a disk does.

import { workerData } from "node:worker_threads";
import { GenerationAbortedError } from "../../src/errors/errors.ts";
import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import { createBatchOutlet } from "../../src/exchange/batch-ring.ts";
import { nobody } from "../../src/exchange/cells.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { realClock } from "../../src/ports/clock.ts";
import { exchangeShapeOf, ringShapeOf, topologyOf } from "../../src/training/topology/topology.ts";
import { makeBatch, type TrainWork } from "./train-work.ts";

export interface ReaderThreadData {
  readonly work: TrainWork;
  /** How long it sleeps before it hands a batch over. */
  readonly sleepMs: number;
  readonly words: SharedArrayBuffer;
  readonly ring: SharedArrayBuffer;
}

const { work, sleepMs, words, ring } = workerData as ReaderThreadData;
const topology = topologyOf(work.input, work.devices);
const cells = createAtomicCells({
  words: new Int32Array(words),
  participants: work.devices + 1,
  participant: work.devices,
  generation: 1,
  deadlineMs: Number.POSITIVE_INFINITY,
  clock: realClock,
});
const outlet = createBatchOutlet({
  shape: ringShapeOf(topology),
  local: { first: 0, count: work.devices },
  memory: ring,
  cells,
  cellBase: layoutOf(exchangeShapeOf(topology)).cells,
  reader: 0,
  readers: 1,
});
const pool = Array.from({ length: work.batches }, (_, i) =>
  outlet.devices.map((device) => makeBatch(topology, device, i)),
);
const asleep = new Int32Array(new SharedArrayBuffer(4));

try {
  for (let ticket = 0; ; ticket++) {
    await cells.waitUntil(
      () => "room in the batch ring",
      () => outlet.nextTicket("training") === ticket,
      nobody,
    );
    if (sleepMs > 0) Atomics.wait(asleep, 0, 0, sleepMs);
    for (const [device, batch] of (pool[ticket % pool.length] ?? []).entries()) {
      const slot = outlet.slotMemory("training", device, ticket, batch.samples);
      slot.dense.set(batch.dense);
      slot.labels.set(batch.labels);
      slot.lengths.set(batch.lengths);
      slot.ids.set(batch.ids);
      outlet.publish("training", device, ticket, batch);
    }
  }
} catch (error) {
  if (!(error instanceof GenerationAbortedError)) throw error; // The devices have done.
}
