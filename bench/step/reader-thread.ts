// A reader's thread in the benches: hands over batches through the real ring. They are read from a
// data cache as in a run; or they are prepared, and the reader sleeps a given time before each,
// like a reader that waits for a disk.

import { workerData } from "node:worker_threads";
import { BatchSource } from "../../actors/threads/data/batch-source.ts";
import { openCache } from "../../src/data/cache/cache-reader.ts";
import { cutOf } from "../../src/data/sample-order.ts";
import { GenerationAbortedError } from "../../src/errors/errors.ts";
import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import { createBatchOutlet } from "../../src/exchange/batch-outlet.ts";
import { nobody } from "../../src/exchange/cells.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { realClock } from "../../src/ports/clock.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { scheduleOf } from "../../src/training/loop/schedule.ts";
import { exchangeShapeOf } from "../../src/training/topology/exchange-shape.ts";
import { ringShapeOf, topologyOf } from "../../src/training/topology/topology.ts";
import { makeBatch, type TrainWork } from "./train-work.ts";

/** The source of the reader's batches. */
export type Feed = { readonly sleepMs: number } | CacheFeed;

/** A cache file, read in split order or in global order. */
export interface CacheFeed {
  readonly path: string;
  readonly splitSamples?: number | undefined;
  /** Bytes up to which the whole cache is read into memory. */
  readonly memoryBytesMax: number;
}

export interface ReaderThreadData {
  readonly work: TrainWork;
  readonly feed: Feed;
  readonly words: SharedArrayBuffer;
  readonly ring: SharedArrayBuffer;
}

const { work, feed, words, ring } = workerData as ReaderThreadData;
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
const serve = "path" in feed ? cacheServer(feed) : poolServer(feed.sleepMs);

try {
  for (let ticket = 0; ; ticket++) {
    await cells.waitUntil(
      () => "room in the batch ring",
      () => outlet.nextTicket("training") === ticket,
      nobody,
    );
    await serve(ticket);
  }
} catch (error) {
  if (!(error instanceof GenerationAbortedError)) throw error; // The devices have finished.
}

function cacheServer({ path, splitSamples, memoryBytesMax }: CacheFeed) {
  const training = openCache(path, realDisk, memoryBytesMax);
  const { samples } = training;
  const { batchSize } = work.input;
  const schedule = scheduleOf({ samples, batchSize, passes: 1_000_000 });
  const split = cutOf({ splitSamples }, topology.input.slices);
  const order = { seed: 727, shuffle: true, split, schedule, topology, fromStep: 0 };
  const source = new BatchSource(
    order,
    { training, evaluation: undefined, test: undefined },
    realClock,
  );
  return (ticket: number) => source.serve(outlet, "training", ticket);
}

function poolServer(sleepMs: number) {
  const pool = Array.from({ length: work.batches }, (_, i) =>
    outlet.devicesOf("training").map((device) => makeBatch(topology, device, i)),
  );
  const asleep = new Int32Array(new SharedArrayBuffer(4));
  return async (ticket: number) => {
    if (sleepMs > 0) Atomics.wait(asleep, 0, 0, sleepMs);
    for (const [device, batch] of (pool[ticket % pool.length] ?? []).entries()) {
      const { samples, batchSamples } = batch;
      outlet.fill({ stream: "training", device, ticket, samples, batchSamples }, (slot) => {
        slot.dense.set(batch.dense);
        slot.labels.set(batch.labels);
        slot.lengths.set(batch.lengths);
        slot.ids.set(batch.ids);
        return batch.idCount;
      });
    }
  };
}
