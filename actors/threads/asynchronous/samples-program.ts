// The program of the thread that reads the samples of a trainer: it fills the slots of the
// trainer's threads with their batches, in the order of the run, until the trainer ends.
//
// Emits  ready

import type { TrainerReport } from "../../../src/asynchronous/parameter-servers.ts";
import { batchesOf } from "../../../src/asynchronous/samples.ts";
import type { TrainerMemory } from "../../../src/asynchronous/trainer-memory.ts";
import { cutOf } from "../../../src/data/sample-order.ts";
import { createAtomicCells } from "../../../src/exchange/atomic-cells.ts";
import { type BatchOutlet, createBatchOutlet } from "../../../src/exchange/batch-outlet.ts";
import type { Stream } from "../../../src/exchange/batch-ring.ts";
import { nobody } from "../../../src/exchange/cells.ts";
import { BatchSource } from "../data/batch-source.ts";
import { openDatasets } from "../data/open-datasets.ts";
import { scheduleOfGeneration } from "../generation-layout.ts";
import { type GenerationMemory, specIn } from "../generation-memory.ts";
import type { SpecHead } from "../generation-spec.ts";
import type { ThreadPorts } from "../thread-ports.ts";
import { trainerShapeOf } from "./trainer-shape.ts";

/** The task of a trainer's reader. */
export interface SamplesTask {
  readonly program: "samples";
  readonly spec: SpecHead;
  readonly memory: TrainerMemory & Pick<GenerationMemory, "spec">;
  /** The trainer. */
  readonly index: number;
  /** The step from which its threads begin; `fromSteps`: of each, where they differ. */
  readonly fromStep: number;
  readonly fromSteps?: readonly number[];
}

export interface SamplesPorts extends Pick<ThreadPorts, "clock" | "disk" | "sleep"> {
  report(report: TrainerReport): void;
}

/** Reads batches until the trainer is aborted (throws GenerationAbortedError). */
export async function runSamples(
  { memory, index: trainer, fromStep, fromSteps = [] }: SamplesTask,
  { clock, disk, sleep, report }: SamplesPorts,
): Promise<never> {
  const spec = specIn(memory);
  const { topology, layout } = trainerShapeOf(spec);
  const { ring, participants } = layout;
  const threads = ring.devices;
  const cells = createAtomicCells({
    ...{ words: new Int32Array(memory.words), participants, participant: threads },
    ...{ generation: spec.generation, clock, deadlineMs: Number.POSITIVE_INFINITY, sleep },
  });
  const place = { shape: ring, memory: memory.ring, cells, cellBase: 0 };
  // The first thread alone evaluates.
  const held = createBatchOutlet({
    ...place,
    reader: 0,
    readers: 1,
    local: { first: 0, count: 1 },
  });
  // Each thread has its own outlet. A common outlet would stop when the slots of one thread are
  // full. A thread that has finished its window takes no more batches and leaves its slots full, so
  // the threads that still train would wait for a batch until their deadline.
  const training = Array.from({ length: threads }, (_, thread) => {
    const local = { first: 0, count: threads };
    return createBatchOutlet({
      ...{ ...place, local, dealing: "devices", reader: thread, readers: threads },
    });
  });
  const datasets = await openDatasets(spec, disk);
  const schedule = scheduleOfGeneration(spec);
  const { seed, data } = spec.job;
  const split = cutOf(spec.data.contents, 1, datasets.training.pieces);
  const order = { seed, shuffle: data.shuffle, split, schedule, topology };
  const source = new BatchSource({ ...order, fromStep: 0 }, datasets, clock);
  const firsts = Array.from({ length: threads }, (_, thread) => {
    const { from, stride } = batchesOf({ trainer, trainers: spec.devices, thread, threads });
    return { first: from(fromSteps[thread] ?? fromStep), stride };
  });
  const heldStreams: readonly Stream[] = [
    ...(spec.data.test === undefined ? [] : (["test"] as const)),
    "evaluation",
  ];
  const roomIn = (outlet: BatchOutlet, stream: Stream, thread: number): Room[] => {
    const ticket = outlet.nextTicket(stream);
    return ticket === undefined ? [] : [{ outlet, stream, thread, ticket }];
  };
  /** Room for a batch of an evaluation, else for the thread that has the fewest batches. */
  const findRoom = (): Room | undefined =>
    heldStreams.flatMap((stream) => roomIn(held, stream, 0))[0] ??
    training
      .flatMap((outlet, thread) => roomIn(outlet, "training", thread))
      .sort((a, b) => a.ticket - b.ticket)[0];
  report({ type: "ready", arithmetic: "", set: "" });
  for (;;) {
    let room: Room | undefined;
    const hasRoom = () => {
      room = findRoom();
      return room !== undefined;
    };
    await cells.waitUntil(() => "room in the batch ring of a trainer", hasRoom, nobody);
    if (room === undefined) continue;
    const { outlet, stream, thread, ticket } = room;
    if (outlet.goOn(stream, ticket)) continue;
    const { first, stride } = firsts[thread] ?? { first: 0, stride: 1 };
    const step = first + ticket * stride;
    const own = outletOf(outlet, thread, ticket);
    if (stream !== "training") await source.serve(own, stream, ticket);
    else if (step < schedule.steps) await source.serve(own, stream, step);
    else own.fill({ stream, device: 0, ticket, samples: 0, batchSamples: 0 }, () => 0);
  }
}

/** Room for a batch in a slot of a thread. */
interface Room {
  readonly outlet: BatchOutlet;
  readonly stream: Stream;
  readonly thread: number;
  readonly ticket: number;
}

/** An outlet for one ticket of a thread, to which a batch of any step may be given. */
function outletOf({ fill }: BatchOutlet, device: number, ticket: number): BatchOutlet {
  return {
    devicesOf: () => [0],
    nextTicket: () => ticket,
    lacks: () => true,
    goOn: () => true,
    fill: (part, read) => fill({ ...part, device, ticket }, read),
  };
}
