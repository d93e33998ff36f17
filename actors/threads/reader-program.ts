// The program of a reader's thread: reads samples from the binary cache, in the order that the seed
// gives them, into the slots of the devices. It is stateless: what it has to do next stands in the
// ring, so another may take its place at any time.

import { openCache } from "../../src/data/cache-reader.ts";
import type { Dataset } from "../../src/data/dataset.ts";
import { fillOrder } from "../../src/data/sample-order.ts";
import { splitDataset } from "../../src/data/split.ts";
import { type BatchOutlet, createBatchOutlet, type Stream } from "../../src/exchange/batch-ring.ts";
import { type Cells, nobody } from "../../src/exchange/cells.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { placesOf } from "../../src/training/loop/schedule.ts";
import { epochClock, isTraced, type TracedStep } from "../../src/training/meters/step-trace.ts";
import { samplesOf } from "../../src/training/topology/topology.ts";
import {
  type Assembly,
  type DatasetPlan,
  type Derived,
  derive,
  type GenerationMemory,
  type HostPlace,
  hostPlaces,
  progressOver,
} from "./generation-spec.ts";

export interface ReaderPorts {
  readonly cells: Cells;
  readonly disk: Disk;
  /** For the meter of what it reads alone. */
  readonly clock: Clock;
  /** Takes what was traced. */
  traced(step: TracedStep): void;
}

/**
 * Serves both streams of one host until the generation ends, which it learns as a
 * GenerationAbortedError. `reader` counts through the readers of all hosts.
 */
export async function runReader(
  assembly: Assembly,
  memory: GenerationMemory,
  reader: number,
  ports: ReaderPorts,
): Promise<void> {
  const derived = derive(assembly);
  const outlet = createBatchOutlet({
    shape: derived.ringShape,
    memory: memory.ring,
    cells: ports.cells,
    cellBase: derived.exchangeCells,
    local: placeOfReader(assembly, reader),
    reader: reader % assembly.job.readers,
    readers: assembly.job.readers,
  });
  const { training, evaluation } = assembly.data;
  const datasets = {
    training: openPlan(training, assembly, ports.disk),
    evaluation: evaluation === undefined ? undefined : openPlan(evaluation, assembly, ports.disk),
  };
  const batch = new BatchSource(assembly, derived, datasets);
  const { reading } = progressOver(memory, assembly.devices);
  const { fromStep, tracedEvery = 0 } = assembly;
  const now = epochClock(ports.clock);
  for (;;) {
    let next: { stream: Stream; ticket: number } | undefined;
    await ports.cells.waitUntil(
      () => `room in the batch ring for reader ${reader}`,
      () => {
        next = nextOf(outlet);
        return next !== undefined;
      },
      nobody,
    );
    if (next === undefined) continue;
    const startMs = ports.clock.now();
    batch.serve(outlet, next.stream, next.ticket);
    Atomics.add(reading, 1, BigInt(Math.round(1000 * (ports.clock.now() - startMs))));
    Atomics.add(reading, 0, 1n);
    const step = fromStep + next.ticket;
    if (next.stream !== "training" || !isTraced(step, tracedEvery)) continue;
    const toMs = now();
    const fromMs = toMs - (ports.clock.now() - startMs);
    ports.traced({ step, intervals: [{ name: "read", fromMs, toMs }] });
  }
}

function nextOf(outlet: BatchOutlet): { stream: Stream; ticket: number } | undefined {
  for (const stream of ["evaluation", "training"] as const) {
    const ticket = outlet.nextTicket(stream);
    if (ticket !== undefined) return { stream, ticket };
  }
  return undefined;
}

function placeOfReader(assembly: Assembly, reader: number): HostPlace {
  const place = hostPlaces(assembly)[Math.floor(reader / assembly.job.readers)];
  if (place === undefined) throw new RangeError(`There is no reader ${reader}`);
  return place;
}

function openPlan(plan: DatasetPlan, assembly: Assembly, disk: Disk): Dataset {
  const dataset = openCache(plan.path, disk);
  if (plan.split === undefined) return dataset;
  return splitDataset(dataset, { seed: assembly.job.seed, ...plan.split });
}

class BatchSource {
  readonly #assembly: Assembly;
  readonly #derived: Derived;
  readonly #datasets: { training: Dataset; evaluation: Dataset | undefined };

  constructor(
    assembly: Assembly,
    derived: Derived,
    datasets: { training: Dataset; evaluation: Dataset | undefined },
  ) {
    this.#assembly = assembly;
    this.#derived = derived;
    this.#datasets = datasets;
  }

  /** Fills the slots of a ticket on every device that still lacks it. */
  serve(outlet: BatchOutlet, stream: Stream, ticket: number): void {
    const indices = this.#indicesOf(stream, ticket);
    const dataset = this.#datasets[stream];
    if (dataset === undefined) throw new RangeError(`There is no ${stream} data`);
    const { topology } = this.#derived;
    for (const device of outlet.devices) {
      if (!outlet.lacks(stream, device, ticket)) continue;
      const { first, count } = samplesOf(topology, device, indices.length);
      const memory = outlet.slotMemory(stream, device, ticket, count);
      const idCount = dataset.read(indices.subarray(first, first + count), memory);
      const counts = { samples: count, batchSamples: indices.length, idCount };
      outlet.publish(stream, device, ticket, counts);
    }
  }

  /** The samples of a batch, in its order. */
  #indicesOf(stream: Stream, ticket: number): Uint32Array {
    const { job, data, fromStep } = this.#assembly;
    const { schedule } = this.#derived;
    if (stream === "training") {
      const { pass, first, count } = placesOf(schedule, fromStep + ticket);
      const indices = new Uint32Array(count);
      const { samples } = schedule;
      fillOrder(indices, { seed: job.seed, pass, samples, first, shuffle: job.data.shuffle });
      return indices;
    }
    const samples = data.evaluation?.samples ?? 0;
    const batches = Math.ceil(samples / schedule.batchSize);
    const first = (ticket % batches) * schedule.batchSize;
    const count = Math.min(schedule.batchSize, samples - first);
    return Uint32Array.from({ length: count }, (_, i) => first + i);
  }
}
