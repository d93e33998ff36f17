// The program of a reader's thread: reads samples from the binary cache, in the order given by the
// seed, into the slots of the devices. A reader keeps no state: the ring determines the next batch,
// so another reader may take its place at any time. Between two batches it reads its board
// (data/reader-board.ts) for the rate limit and the drain command.

import { markUsed, touchEveryMs } from "../../src/data/cache/cache-directory.ts";
import { cutOf } from "../../src/data/sample-order.ts";
import { GenerationAbortedError } from "../../src/errors/errors.ts";
import type { Sleep } from "../../src/exchange/atomic-cells.ts";
import { type BatchOutlet, createBatchOutlet } from "../../src/exchange/batch-outlet.ts";
import type { Stream } from "../../src/exchange/batch-ring.ts";
import { type Cells, isAborted, lieDown, nobody } from "../../src/exchange/cells.ts";
import { createShelfReader } from "../../src/exchange/splits/split-shelves.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { isTraced, type TracedStep } from "../../src/training/meters/step-trace.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import type { Connection } from "../runtime/mailbox.ts";
import { BatchSource } from "./data/batch-source.ts";
import { type BlockService, type Datasets, openDatasets } from "./data/open-datasets.ts";
import { createRateLimiter, type RateLimiter } from "./data/rate-limiter.ts";
import { boardOf, type ReaderBoard } from "./data/reader-board.ts";
import { type Generation, type GenerationMemory, progressOver } from "./generation-memory.ts";
import {
  dealingOf,
  type GenerationSpec,
  type HostPlace,
  hostPlaces,
  type SpecHead,
  shelvesOf,
} from "./generation-spec.ts";
import { timelineOf } from "./host-timelines.ts";

export interface ReaderPorts {
  readonly cells: Cells;
  readonly disk: Disk;
  /** For the meter of reading and the rate limiter only. */
  readonly clock: Clock;
  /** Sleeps until its turn under the rate limit. @default it blocks the thread */
  readonly sleep?: Sleep | undefined;
  /** Sleeps while preprocessing workers of its host are waited for. */
  readonly sleepTurning: Sleep;
  /** Opens its own connection to the preprocessing service. */
  dial(connection: Connection, name: string): Promise<Transport>;
  /** Reports the trace of a step. */
  traced(step: TracedStep): void;
}

/** The task of a reader's thread. */
export interface ReaderTask {
  readonly program: "reader";
  readonly spec: SpecHead;
  readonly memory: GenerationMemory;
  /** Index among the readers of all hosts. */
  readonly index: number;
  /** Address of the preprocessing service; undefined: readers make the samples themselves. */
  readonly service?: { readonly cluster: string; readonly connection: Connection } | undefined;
}

/**
 * Serves all streams of one host until the generation ends (throws GenerationAbortedError) or the
 * reader is drained (returns). `reader`: index among the readers of all hosts.
 */
export async function runReader(
  generation: Generation,
  { index: reader, service }: Pick<ReaderTask, "index" | "service">,
  ports: ReaderPorts,
): Promise<void> {
  if (service === undefined) return await serve(generation, reader, ports);
  const { spec, memory } = generation;
  const { run, generation: number, job } = spec;
  const transport = await ports.dial(service.connection, `osiris-${service.cluster}-reader`);
  const { SplitClient } = await import("../../src/exchange/splits/split-client.ts");
  const place = { cluster: service.cluster, run, generation: number };
  const { clock, sleepTurning: sleep } = ports;
  const deadlineMs = deadlinesOf(job).split;
  const own = reader % job.readers;
  const shape = shelvesOf(spec);
  const shelves = createShelfReader({ memory: memory.splits, shape, sleep, reader: own });
  const client = new SplitClient({ transport, place, reader, clock, deadlineMs, shelves });
  try {
    await serve(generation, reader, ports, client);
  } finally {
    client.close();
    await transport.close();
  }
}

/** Serves batches in a loop. `service`: the source of blocks of samples without a cache. */
async function serve(
  generation: Generation,
  reader: number,
  ports: ReaderPorts,
  service?: BlockService & { stalledMs: number },
): Promise<void> {
  const { spec, layout, memory } = generation;
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
  const datasets = await openDatasets(spec, ports.disk, service);
  const { schedule, topology } = layout;
  const { seed, data, readers } = spec.job;
  const split = cutOf(spec.data.contents, topology.input.slices, datasets.training.pieces);
  const order = { seed, shuffle: data.shuffle, split, schedule, topology };
  const batch = new BatchSource({ ...order, fromStep: spec.fromStep }, datasets, ports.clock);
  const tests = spec.data.test === undefined ? [] : (["test"] as const);
  const streams = [...tests, "evaluation", "training"] as const;
  const { reading } = progressOver(memory, spec.devices);
  const board = boardOf(memory.readers, reader % readers);
  const isDrained = () => board.get("isDraining") === 1;
  const isDealt = dealingOf(spec) === "batches";
  const limiter = createRateLimiter({
    limit: () => board.get("limit"),
    turns: isDealt ? readers : 1,
    turn: isDealt ? reader % readers : 0,
    batchSize: data.batchSize,
  });
  const { fromStep, tracedEvery = 0 } = spec;
  const timeline = timelineOf(generation, "reader", reader);
  let counted = { file: 0, samples: 0, waitedMs: 0 };
  let lists: BatchSource["idsOfLists"] = { ids: 0, distinct: 0 };
  let bytes = 0;
  let touchedMs = ports.clock.now();
  for (;;) {
    let next: { stream: Stream; ticket: number } | undefined;
    board.does("waiting");
    await ports.cells.waitUntil(
      () => `room in the batch ring for reader ${reader}`,
      () => {
        next = nextOf(outlet, streams);
        return next !== undefined || isDrained();
      },
      nobody,
    );
    if (isDrained()) return;
    if (next === undefined || outlet.goOn(next.stream, next.ticket)) continue;
    const isTraining = next.stream === "training";
    if (isTraining && (await isHeldBack(generation, reader, board, limiter, ports))) continue;
    const startMs = ports.clock.now();
    board.does("reading");
    const { samples, batchSamples } = await batch.serve(outlet, next.stream, next.ticket);
    if (isTraining) limiter.began(startMs, batchSamples);
    if (service !== undefined) service.stalledMs = batch.waitedMs;
    const readMs = ports.clock.now() - startMs;
    Atomics.add(reading, 1, BigInt(Math.round(1000 * readMs)));
    if (split !== undefined) counted = countBytes(reading, batch, counted);
    lists = countIds(reading, batch, lists);
    Atomics.add(reading, 0, 1n);
    const tickets = isTraining ? next.ticket + 1 : 0;
    board.add({ samples, batches: 1, bytes: fileBytes(datasets) - bytes, readMs, tickets });
    bytes = fileBytes(datasets);
    if (startMs - touchedMs >= touchEveryMs) {
      touchedMs = startMs;
      const { training, evaluation, test } = spec.data;
      for (const plan of [training, evaluation, test]) if (plan) markUsed(plan.path, ports.disk);
    }
    const step = fromStep + next.ticket;
    const toMs = ports.clock.epochMs();
    const fromMs = toMs - readMs;
    if (isTraining) timeline.add("read", 0, step, fromMs, toMs);
    if (!isTraining || !isTraced(step, tracedEvery)) continue;
    ports.traced({ step, intervals: [{ name: "read", fromMs, toMs }] });
  }
}

/**
 * Waits, if the rate limit delays this reader, until its turn or until its doorbell rings, after
 * which the caller rechecks for other work. Returns whether it waited.
 */
async function isHeldBack(
  { spec, memory }: Generation,
  reader: number,
  board: ReaderBoard,
  limiter: RateLimiter,
  { clock, sleep }: ReaderPorts,
): Promise<boolean> {
  const words = new Int32Array(memory.words);
  const participant = spec.devices + (reader % spec.job.readers);
  const rung = lieDown(words, participant); // Before the checks: no ring is missed.
  if (isAborted(words)) throw new GenerationAbortedError(spec.generation);
  if (board.get("isDraining") === 1) return true;
  const fromMs = clock.now();
  const waitMs = limiter.waitMs(fromMs);
  if (waitMs <= 0) return false;
  board.does("limited");
  if (sleep === undefined) Atomics.wait(words, 1 + participant, rung, waitMs);
  else await sleep(words, 1 + participant, rung, waitMs);
  board.add({ limitedMs: clock.now() - fromMs });
  return true;
}

function fileBytes({ training, evaluation, test }: Datasets): number {
  return [training, evaluation, test].reduce((sum, one) => sum + (one?.bytesRead.file ?? 0), 0);
}

/** Adds the bytes read since `before` to the counters. Returns the totals so far. */
function countBytes(reading: BigInt64Array, batch: BatchSource, before: ReadSoFar): ReadSoFar {
  const { bytesRead, waitedMs } = batch;
  const { file, samples } = bytesRead;
  Atomics.add(reading, 2, BigInt(file - before.file));
  Atomics.add(reading, 3, BigInt(samples - before.samples));
  Atomics.add(reading, 4, BigInt(Math.round(1000 * (waitedMs - before.waitedMs))));
  return { file, samples, waitedMs };
}

/** Adds the ids of deduplicated lists since `before` to the counters. Returns the totals so far. */
function countIds(
  reading: BigInt64Array,
  { idsOfLists }: BatchSource,
  before: BatchSource["idsOfLists"],
): BatchSource["idsOfLists"] {
  Atomics.add(reading, 5, BigInt(idsOfLists.ids - before.ids));
  Atomics.add(reading, 6, BigInt(idsOfLists.distinct - before.distinct));
  return idsOfLists;
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
