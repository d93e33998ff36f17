// The program of a reader's thread: reads samples from the binary cache, in the order that the seed
// gives them, into the slots of the devices. A reader keeps no state: the ring says what to read
// next, so another reader may take its place at any time.

import { markUsed, touchEveryMs } from "../../src/data/cache/cache-directory.ts";
import { type BatchOutlet, createBatchOutlet, type Stream } from "../../src/exchange/batch-ring.ts";
import { type Cells, nobody } from "../../src/exchange/cells.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { epochClock, isTraced, type TracedStep } from "../../src/training/meters/step-trace.ts";
import { BatchSource } from "./data/batch-source.ts";
import { openDatasets } from "./data/open-datasets.ts";
import { type Generation, progressOver } from "./generation-memory.ts";
import { dealingOf, type GenerationSpec, type HostPlace, hostPlaces } from "./generation-spec.ts";

export interface ReaderPorts {
  readonly cells: Cells;
  readonly disk: Disk;
  /** Only for the meter of reading. */
  readonly clock: Clock;
  /** Passes on the trace of a step. */
  traced(step: TracedStep): void;
}

/**
 * Serves all streams of one host until the generation ends, with GenerationAbortedError. `reader`
 * counts through the readers of all hosts.
 */
export async function runReader(
  generation: Generation,
  reader: number,
  ports: ReaderPorts,
): Promise<void> {
  const { spec, layout, memory } = generation;
  const { splitSamples } = spec.data.contents;
  const outlet = createBatchOutlet({
    dealing: dealingOf(spec),
    shape: layout.ringShape,
    memory: memory.ring,
    cells: ports.cells,
    cellBase: layout.exchangeCells,
    local: placeOfReader(spec, reader),
    reader: reader % spec.job.readers,
    readers: spec.job.readers,
  });
  const datasets = openDatasets(spec, ports.disk);
  const { schedule, topology } = layout;
  const { seed, data } = spec.job;
  const order = { seed, shuffle: data.shuffle, splitSamples, schedule, topology };
  const batch = new BatchSource({ ...order, fromStep: spec.fromStep }, datasets, ports.clock);
  const tests = spec.data.test === undefined ? [] : (["test"] as const);
  const streams = [...tests, "evaluation", "training"] as const;
  const { reading } = progressOver(memory, spec.devices);
  const { fromStep, tracedEvery = 0 } = spec;
  const now = epochClock(ports.clock);
  let counted = { file: 0, samples: 0, waitedMs: 0 };
  let touchedMs = ports.clock.now();
  for (;;) {
    let next: { stream: Stream; ticket: number } | undefined;
    await ports.cells.waitUntil(
      () => `room in the batch ring for reader ${reader}`,
      () => {
        next = nextOf(outlet, streams);
        return next !== undefined;
      },
      nobody,
    );
    if (next === undefined) continue;
    const startMs = ports.clock.now();
    await batch.serve(outlet, next.stream, next.ticket);
    Atomics.add(reading, 1, BigInt(Math.round(1000 * (ports.clock.now() - startMs))));
    if (splitSamples !== undefined) counted = countBytes(reading, batch, counted);
    Atomics.add(reading, 0, 1n);
    if (startMs - touchedMs >= touchEveryMs) {
      touchedMs = startMs;
      const { training, evaluation, test } = spec.data;
      for (const plan of [training, evaluation, test]) if (plan) markUsed(plan.path, ports.disk);
    }
    const step = fromStep + next.ticket;
    if (next.stream !== "training" || !isTraced(step, tracedEvery)) continue;
    const toMs = now();
    const fromMs = toMs - (ports.clock.now() - startMs);
    ports.traced({ step, intervals: [{ name: "read", fromMs, toMs }] });
  }
}

/** Adds what was read since `before`. Returns what was read so far. */
function countBytes(reading: BigInt64Array, batch: BatchSource, before: ReadSoFar): ReadSoFar {
  const { bytesRead, waitedMs } = batch;
  const { file, samples } = bytesRead;
  Atomics.add(reading, 2, BigInt(file - before.file));
  Atomics.add(reading, 3, BigInt(samples - before.samples));
  Atomics.add(reading, 4, BigInt(Math.round(1000 * (waitedMs - before.waitedMs))));
  return { file, samples, waitedMs };
}

interface ReadSoFar {
  readonly file: number;
  readonly samples: number;
  readonly waitedMs: number;
}

function nextOf(
  outlet: BatchOutlet,
  streams: readonly Stream[],
): { stream: Stream; ticket: number } | undefined {
  for (const stream of streams) {
    const ticket = outlet.nextTicket(stream);
    if (ticket !== undefined) return { stream, ticket };
  }
  return undefined;
}

function placeOfReader(spec: GenerationSpec, reader: number): HostPlace {
  const place = hostPlaces(spec)[Math.floor(reader / spec.job.readers)];
  if (place === undefined) throw new RangeError(`There is no reader ${reader}`);
  return place;
}
