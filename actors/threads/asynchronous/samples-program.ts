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
  const outletOver = (count: number) =>
    createBatchOutlet({
      ...{ shape: ring, memory: memory.ring, cells, cellBase: 0, reader: 0, readers: 1 },
      local: { first: 0, count },
    });
  // The first thread alone evaluates.
  const outlets = { training: outletOver(threads), held: outletOver(1) };
  const outletFor = (stream: Stream) => (stream === "training" ? outlets.training : outlets.held);
  const datasets = await openDatasets(spec, disk);
  const schedule = scheduleOfGeneration(spec);
  const { seed, data } = spec.job;
  const split = cutOf(spec.data.contents, 1, datasets.training.pieces);
  const order = { seed, shuffle: data.shuffle, split, schedule, topology };
  const source = new BatchSource({ ...order, fromStep: 0 }, datasets, clock);
  const firsts = Array.from({ length: threads }, (_, thread) => {
    const place = { trainer, trainers: spec.devices, thread, threads };
    const { from, stride } = batchesOf(place);
    return { first: from(fromSteps[thread] ?? fromStep), stride };
  });
  const streams: readonly Stream[] = [
    ...(spec.data.test === undefined ? [] : (["test"] as const)),
    ...(["evaluation", "training"] as const),
  ];
  report({ type: "ready", arithmetic: "", set: "" });
  for (;;) {
    let next: { readonly stream: Stream; readonly ticket: number } | undefined;
    const hasRoom = () => {
      next = undefined;
      for (const stream of streams) {
        const ticket = outletFor(stream).nextTicket(stream);
        if (ticket === undefined) continue;
        next = { stream, ticket };
        break;
      }
      return next !== undefined;
    };
    await cells.waitUntil(() => "room in the batch ring of a trainer", hasRoom, nobody);
    if (next === undefined) continue;
    const { stream, ticket } = next;
    const outlet = outletFor(stream);
    if (outlet.goOn(stream, ticket)) continue;
    for (const thread of outlet.devicesOf(stream)) {
      const { first, stride } = firsts[thread] ?? { first: 0, stride: 1 };
      if (!outlet.lacks(stream, thread, ticket)) continue;
      const step = first + ticket * stride;
      const own = outletOf(outlet, thread, ticket);
      if (stream !== "training") await source.serve(own, stream, ticket);
      else if (step < schedule.steps) await source.serve(own, stream, step);
      else own.fill({ stream, device: 0, ticket, samples: 0, batchSamples: 0 }, () => 0);
    }
  }
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
