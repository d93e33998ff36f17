// The program of a preprocessing worker's thread: makes splits of the files for the readers of its
// generation until the generation ends or it is drained. It has its own connection; blocks for
// readers of its host go through shared memory.

import type { Sleep } from "../../../src/exchange/atomic-cells.ts";
import { createShelfWriter } from "../../../src/exchange/splits/split-shelves.ts";
import { type NearReaders, serveSplits } from "../../../src/exchange/splits/split-worker.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { deadlinesOf } from "../../../src/ports/deadlines.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import type { Transport } from "../../../src/wire/messages/transport.ts";
import type { Connection } from "../../runtime/mailbox.ts";
import { type GenerationMemory, isAborted, specIn } from "../generation-memory.ts";
import { type GenerationSpec, poolMax, type SpecHead, shelvesOf } from "../generation-spec.ts";
import { createSplitMaker } from "./split-maker.ts";
import { streamOriginsOf } from "./stream-origins.ts";

/** The task of a worker's thread. */
export interface WorkerTask {
  readonly program: "worker";
  readonly spec: SpecHead;
  readonly memory: GenerationMemory;
  /** Index among the workers of all hosts. */
  readonly index: number;
  /** Its name, unique over all present and former workers of the run. */
  readonly worker: string;
  readonly cluster: string;
  readonly connection: Connection;
}

/** The only command to a worker: exit after sending the current split. */
export interface DrainWorker {
  readonly type: "drain";
}

export interface WorkerPorts {
  readonly clock: Clock;
  readonly disk: Disk;
  /** Sleeps while a reader is waited for; the connection is served meanwhile. */
  readonly sleepTurning: Sleep;
  dial(connection: Connection, name: string): Promise<Transport>;
  take(): DrainWorker | undefined;
}

/** Resolves when the generation is over, or the worker is drained. @throws TransportLostError */
export async function runWorker(
  task: WorkerTask,
  { clock, disk, sleepTurning, dial, take }: WorkerPorts,
): Promise<void> {
  const { memory, worker, cluster, connection } = task;
  const spec = specIn(memory);
  const transport = await dial(connection, `osiris-${cluster}-worker`);
  const maker = createSplitMaker(streamOriginsOf(spec), disk);
  const { run, generation } = spec;
  let isDrained = false;
  const isOver = () => {
    isDrained ||= take() !== undefined;
    return isDrained || isAborted({ memory });
  };
  const place = { cluster, run, generation };
  const near = nearReadersOf({ ...task, spec }, clock, sleepTurning);
  try {
    await serveSplits({ transport, place, worker, clock, maker, isOver, near });
  } finally {
    maker.close();
    await transport.close();
  }
}

/**
 * The readers of this host; both readers and workers are numbered over all hosts. The shelf is
 * exclusive: the pool has seen the exit of the previous thread in this place (law 3).
 */
function nearReadersOf(
  { spec, memory, index }: Pick<WorkerTask, "memory" | "index"> & { spec: GenerationSpec },
  clock: Clock,
  sleep: Sleep,
): NearReaders {
  const { readers } = spec.job;
  const [position, shelf] = [Math.floor(index / poolMax), index % poolMax];
  const writer = createShelfWriter({
    ...{ memory: memory.splits, shape: shelvesOf(spec), shelf, clock, sleep },
    // The reader requests a split again if it was dropped after this time.
    patienceMs: deadlinesOf(spec.job).shelf,
    isAborted: () => isAborted({ memory }),
  });
  return {
    has: (reader) => Math.floor(reader / readers) === position,
    send: (reader, split, bytes) => writer.send(reader % readers, split, bytes),
  };
}
