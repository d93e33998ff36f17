// Report of a reader, read from its actor and its board when the cluster is inspected
// (actors/observe). It costs nothing on the path of a step.

import { batchesOf, readerOf } from "../../src/exchange/batch-ring.ts";
import {
  type Activity,
  boardOf,
  positionOf,
  type ReaderPosition,
} from "../threads/data/reader-board.ts";
import { type Generation, readCells } from "../threads/generation-memory.ts";
import { dealingOf, hostPlaces } from "../threads/generation-spec.ts";

export interface ReaderReport {
  /** `reader:1` */
  readonly actor: string;
  readonly run: string;
  readonly generation: number;
  /**
   * `waiting`: all its slots are full; `limited`: the rate limit delays it; `draining`: its thread
   * is being replaced.
   */
  readonly state: Activity | "draining";
  /** Samples served since the generation began, and per second over the last two seconds. */
  readonly samples: number;
  readonly samplesPerSecond: number;
  /** Rate limit in samples per second of all readers of the run together; null: none. */
  readonly limit: number | null;
  /** Batches, mean milliseconds per batch, and milliseconds of delay by the rate limit. */
  readonly batches: number;
  readonly batchMs: number;
  readonly limitedMs: number;
  /** Bytes read from files. */
  readonly bytes: number;
  /** Batches served and not yet consumed, summed over the devices. */
  readonly ready: number;
  /** The next training batch that it reads. */
  readonly position: ReaderPosition;
  /** Failed threads, and threads replaced on request. */
  readonly failures: number;
  readonly drains: number;
}

/** The state from which a report is made. */
interface ReportedReader {
  readonly generation: Generation;
  readonly reader: number;
  readonly recent: readonly { readonly atMs: number; readonly samples: number }[];
}

/** Makes the report of a reader. */
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

/** The position of the next training batch that a reader reads. */
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
