// What a reader says of itself: read off its actor and its board when somebody inspects the cluster
// (actors/observe). Nothing of it is on a step's path.

import { batchesOf, readerOf } from "../../src/exchange/batch-ring.ts";
import {
  type Activity,
  boardOf,
  positionOf,
  type ReaderPosition,
} from "../threads/data/reader-board.ts";
import { type Generation, readCells } from "../threads/generation-memory.ts";
import { dealingOf, hostPlaces } from "../threads/generation-spec.ts";

/** What a reader says of itself. */
export interface ReaderReport {
  /** `reader:1` */
  readonly actor: string;
  readonly run: string;
  readonly generation: number;
  /**
   * `waiting`: all its slots are full; `limited`: it is not its turn yet; `draining`: its thread is
   * to be replaced.
   */
  readonly state: Activity | "draining";
  /** Samples that it has served since the generation began, and a second of the last two. */
  readonly samples: number;
  readonly samplesPerSecond: number;
  /** Most samples a second of all readers of the run together; null: there is no limit. */
  readonly limit: number | null;
  /** Batches, and the milliseconds of the mean one; how long the limit has kept it waiting. */
  readonly batches: number;
  readonly batchMs: number;
  readonly limitedMs: number;
  /** Bytes that it has read of files. */
  readonly bytes: number;
  /** Batches that it has served and no device has done with, counted by device. */
  readonly ready: number;
  /** What it trains on next. */
  readonly position: ReaderPosition;
  /** Threads that failed in its place, and threads that were replaced as asked. */
  readonly failures: number;
  readonly drains: number;
}

/** What a report is made of. */
interface ReportedReader {
  readonly generation: Generation;
  readonly reader: number;
  readonly recent: readonly { readonly atMs: number; readonly samples: number }[];
}

/** The report of a reader. */
export function reportReader(
  { generation, reader, recent }: ReportedReader,
  isDraining: boolean,
): ReaderReport {
  const { spec, memory } = generation;
  const board = boardOf(memory.readers, reader % spec.job.readers);
  const { samples, batches, bytes, readMs, limitedMs } = board.figures;
  const limit = board.get("limit");
  const [first, last] = [recent[0], recent.at(-1)];
  const ms = (last?.atMs ?? 0) - (first?.atMs ?? 0);
  const served = (last?.samples ?? 0) - (first?.samples ?? 0);
  return {
    actor: `reader:${reader}`,
    run: spec.run,
    generation: spec.generation,
    state: isDraining ? "draining" : board.activity,
    samples,
    samplesPerSecond: ms > 0 ? (1000 * served) / ms : 0,
    limit: limit === 0 ? null : limit,
    batches,
    batchMs: batches === 0 ? 0 : readMs / batches,
    limitedMs,
    bytes,
    ready: readyOf(generation, reader),
    position: readerPosition(generation, reader),
    failures: board.get("failures"),
    drains: board.get("drains"),
  };
}

/** The batch to train on that a reader reads next. */
export function readerPosition({ spec, layout, memory }: Generation, reader: number) {
  const { readers } = spec.job;
  const own = reader % readers;
  const { tickets } = boardOf(memory.readers, own).figures;
  const turns = dealingOf(spec) === "batches" ? readers : 1;
  const next = turns === 1 ? tickets : tickets + ((((own - tickets) % turns) + turns) % turns);
  return positionOf(layout.schedule, spec.fromStep, next);
}

function readyOf(generation: Generation, reader: number): number {
  const { spec, layout } = generation;
  const { readers } = spec.job;
  const place = hostPlaces(spec)[Math.floor(reader / readers)];
  if (place === undefined) return 0;
  const cells = readCells(generation);
  const ring = { shape: layout.ringShape, cells, cellBase: layout.exchangeCells };
  const dealing = { dealing: dealingOf(spec), local: place, readers };
  const devices = Array.from({ length: place.count }, (_, i) => place.first + i);
  const ready = devices.map((device) =>
    batchesOf(ring, device, "training", (ticket) => {
      return readerOf(dealing, "training", device, ticket) === reader % readers;
    }),
  );
  return ready.reduce((sum, one) => sum + one, 0);
}
