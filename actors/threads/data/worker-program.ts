// The program of a preprocessing worker's thread: makes splits of the files for the readers of its
// generation, over a connection of its own, until the generation ends or it is drained.

import type { Clock } from "../../../src/ports/clock.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import type { Transport } from "../../../src/wire/messages/transport.ts";
import { serveSplits } from "../../../src/wire/splits/split-worker.ts";
import type { Connection } from "../../runtime/mailbox.ts";
import { type GenerationMemory, isAborted } from "../generation-memory.ts";
import type { GenerationSpec } from "../generation-spec.ts";
import { createSplitMaker } from "./split-maker.ts";
import { streamOriginsOf } from "./stream-origins.ts";

/** The task of a worker's thread. */
export interface WorkerTask {
  readonly program: "worker";
  readonly spec: GenerationSpec;
  readonly memory: GenerationMemory;
  /** Counts through the workers of all hosts. */
  readonly index: number;
  /** Its name, which no other worker of the run has or had. */
  readonly worker: string;
  readonly cluster: string;
  readonly connection: Connection;
}

/** The one command to a worker: to end when its split is sent. */
export interface DrainWorker {
  readonly type: "drain";
}

export interface WorkerPorts {
  readonly clock: Clock;
  readonly disk: Disk;
  dial(connection: Connection, name: string): Promise<Transport>;
  take(): DrainWorker | undefined;
}

/** Resolves when the generation is over, or the worker is drained. @throws TransportLostError */
export async function runWorker(
  { spec, memory, worker, cluster, connection }: WorkerTask,
  { clock, disk, dial, take }: WorkerPorts,
): Promise<void> {
  const transport = await dial(connection, `osiris-${cluster}-worker`);
  const maker = createSplitMaker(streamOriginsOf(spec), disk);
  const { run, generation } = spec;
  let isDrained = false;
  const isOver = () => {
    isDrained ||= take() !== undefined;
    return isDrained || isAborted({ memory });
  };
  const place = { cluster, run, generation };
  try {
    await serveSplits({ transport, place, worker, clock, maker, isOver });
  } finally {
    maker.close();
    await transport.close();
  }
}
