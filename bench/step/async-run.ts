// Asynchronous training in one thread: trainers and parameter servers over the memory transport, in
// virtual time. The same seed gives the same interleaving, so that figures can be repeated; real
// threads race in addition.

import {
  answerOfDense,
  answerOfSparse,
  createDenseClient,
  createSparseClient,
} from "../../src/asynchronous/clients.ts";
import { createDenseServer } from "../../src/asynchronous/dense-server.ts";
import type {
  DenseServer,
  ReachedWindow,
  SparseServer,
  Trainer,
  TrainerWindow,
} from "../../src/asynchronous/parameter-servers.ts";
import { type ServerLink, serveParameters } from "../../src/asynchronous/requests.ts";
import { shardsOnServers } from "../../src/asynchronous/row-shards.ts";
import { batchesOf } from "../../src/asynchronous/samples.ts";
import { createSparseServer } from "../../src/asynchronous/sparse-server.ts";
import { type AsynchronousSpec, createTrainer, soloInput } from "../../src/asynchronous/trainer.ts";
import {
  beginWindow,
  createTrainerMemory,
  pauseTrainer,
  type TrainerMemory,
  trainerLayoutOf,
  trainerWords,
} from "../../src/asynchronous/trainer-memory.ts";
import type { BatchIntake } from "../../src/exchange/batch-intake.ts";
import type { LocalBatch } from "../../src/exchange/batch-ring.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { createDenseState } from "../../src/model/dense-optimizer.ts";
import { initParameters } from "../../src/model/graph/parameters.ts";
import { SimulatedClock } from "../../src/ports/clock.ts";
import { keyOf } from "../../src/ports/random.ts";
import type { DeviceState, Recipe } from "../../src/training/step/device-state.ts";
import { type TopologyInput, topologyOf } from "../../src/training/topology/topology.ts";
import {
  createMemoryBroker,
  type MemoryFaults,
} from "../../src/wire/transports/memory-transport.ts";

export interface AsyncRunOptions {
  readonly input: TopologyInput;
  readonly recipe: Recipe;
  readonly spec: AsynchronousSpec & { readonly elasticity: number };
  readonly trainers: number;
  readonly servers: number;
  /** Threads of a trainer, which take turns here: each runs until its next wait. @default 1 */
  readonly threads?: number;
  readonly batchAt: (step: number) => LocalBatch;
  readonly faults?: MemoryFaults;
  /** Bytes of a frame. @default 1 MiB */
  readonly frameBytesMax?: number;
  readonly seed?: number;
}

export interface AsyncRun {
  /** The threads of all trainers, by their number (`ThreadBatches.worker`). */
  readonly threads: readonly (Trainer & { readonly device: DeviceState })[];
  readonly sparse: readonly SparseServer[];
  readonly dense: DenseServer;
  readonly traffic: ServerLink["traffic"];
  /** Trains the batches of a window, up to its end or a pause. */
  run(window: TrainerWindow): Promise<ReachedWindow[]>;
  /** Makes each trainer pause after the furthest batch that one of its threads has begun. */
  pause(): void;
  /** Lets time pass until `work` is done. */
  drive<T>(work: Promise<T>): Promise<T>;
}

const place = { cluster: "bench", run: "async", generation: 1 };

export function startAsyncRun(options: AsyncRunOptions): AsyncRun {
  const { recipe, spec, trainers, servers, threads = 1, seed = 1, faults = {} } = options;
  const { frameBytesMax = 1024 * 1024 } = options;
  const kernels = openKernels("auto");
  const { tables } = options.input.model;
  const input = soloInput(options.input);
  const shards = shardsOnServers(tables, servers);
  const clock = new SimulatedClock();
  const broker = createMemoryBroker({ clock, seed, faults, frameBytesMax });
  const failures: unknown[] = [];
  const onError = (error: unknown) => failures.push(error);
  type Answer = Parameters<typeof serveParameters>[1];
  const serve = (role: "sparse" | "dense", index: number, answer: Answer) => {
    const transport = broker.connect(`${role}${index}`);
    serveParameters({ transport, place, server: { role, index }, onError }, answer);
  };
  const sparse = Array.from({ length: servers }, (_, server) => {
    const own = shards.filter(({ device }) => device === server);
    const { pushesMax } = spec;
    return createSparseServer({ kernels, tables, shards: own, recipe, pushesMax });
  });
  const topology = topologyOf(input, 1);
  const { layout } = topology.graph;
  const first = kernels.tensor([layout.length]);
  initParameters(kernels, first, layout, keyOf(recipe.seed));
  const { slots } = createDenseState(kernels, recipe.optimizer.dense, layout.length);
  const center = { weights: kernels.read(first), slots: slots.map((slot) => kernels.read(slot)) };
  const dense = createDenseServer({ start: center, elasticity: spec.elasticity });
  for (const [i, one] of sparse.entries()) serve("sparse", i, (own) => answerOfSparse(one, own));
  serve("dense", 0, (request) => answerOfDense(dense, request));

  const memories: TrainerMemory[] = [];
  const traffic = { sent: 0, received: 0, repeated: 0 };
  const all = Array.from({ length: trainers }, (_, trainer) => {
    const layoutOfMemory = trainerLayoutOf(topology, { threads, prefetch: 0, isTested: false });
    const sizes = { length: layout.length, slots: slots.length };
    const memory = createTrainerMemory(layoutOfMemory, sizes);
    memories.push(memory);
    const shared = {
      flat: new Float32Array(memory.weights),
      slots: memory.slots.map((slot) => new Float32Array(slot)),
    };
    shared.flat.set(center.weights);
    for (const [i, slot] of shared.slots.entries()) slot.set(center.slots[i] ?? []);
    return Array.from({ length: threads }, (_, thread) => {
      const batches = batchesOf({ trainer, trainers, thread, threads });
      const transport = broker.connect(`trainer${batches.worker}`);
      const link = { transport, place, clock, deadlineMs: 60_000, againMs: 500, traffic };
      return createTrainer({
        ...{ input, recipe, shards, spec, kernels, dense: shared, batches },
        words: trainerWords(memory, thread),
        isFirst: batches.worker === 0,
        sparse: createSparseClient(link, shards, batches.worker),
        center: createDenseClient(link, trainer),
        intake: intakeOf(options, batches),
      });
    });
  });
  const drive = async <T>(work: Promise<T>): Promise<T> => {
    let isDone = false;
    const ended = work.finally(() => {
      isDone = true;
    });
    ended.catch(() => {});
    while (!isDone) {
      await new Promise((resume) => setImmediate(resume));
      if (failures.length > 0) throw failures[0];
      if (!isDone) clock.runNext();
    }
    return ended;
  };
  // By the number of a thread: trainer + trainers * thread.
  const byNumber = Array.from({ length: threads }, (_, thread) =>
    all.map((own) => own[thread] as Trainer & { readonly device: DeviceState }),
  ).flat();
  return {
    threads: byNumber,
    sparse,
    dense,
    traffic,
    pause() {
      for (const memory of memories) pauseTrainer(memory);
    },
    run(window) {
      for (const memory of memories) beginWindow(memory, window.fromStep, false);
      return drive(Promise.all(byNumber.map((one) => one.run(window))));
    },
    drive,
  };
}

/** The batches of a thread. The batch of step 0 takes the place of held-out batches. */
function intakeOf(
  { batchAt }: AsyncRunOptions,
  { worker, stride }: ReturnType<typeof batchesOf>,
): BatchIntake {
  let step = worker;
  const take = () => {
    step += stride;
    return batchAt(step - stride);
  };
  const next: BatchIntake["next"] = async (stream) => {
    return stream === "training" ? take() : batchAt(0);
  };
  return { next, nextIfThere: take, waiting: () => 0, release() {}, grant() {} };
}
