// A preprocessing worker of the stall bench whose splits are already made: a thread that only
// passes them on.

import { workerData } from "node:worker_threads";
import { sleepTurning } from "../../src/exchange/atomic-cells.ts";
import type { SplitPlace } from "../../src/exchange/splits/split-frames.ts";
import { createShelfWriter, type ShelfShape } from "../../src/exchange/splits/split-shelves.ts";
import { serveSplits } from "../../src/exchange/splits/split-worker.ts";
import { realClock } from "../../src/ports/clock.ts";
import { connectNats } from "../../src/wire/transports/nats-transport.ts";

export interface SplitThreadData {
  readonly servers: string;
  readonly token: string;
  readonly place: SplitPlace;
  readonly splitBytes: number;
  /** Shared memory to pass splits through; left out: they go in frames. */
  readonly shelves?: { readonly memory: SharedArrayBuffer; readonly shape: ShelfShape };
}

const { servers, token, place, splitBytes, shelves } = workerData as SplitThreadData;
const clock = realClock;
const transport = await connectNats({
  ...{ servers, token, name: "worker", deadlineMs: 10_000, onError() {} },
});
const bytes = new Uint8Array(splitBytes);
const how = { clock, sleep: sleepTurning, shelf: 0, patienceMs: 2000, isAborted: () => false };
const near = shelves && { has: () => true, ...createShelfWriter({ ...shelves, ...how }) };
const maker = { make: async () => ({ bytes, samples: 1 }), close() {} };
await serveSplits({
  transport,
  place,
  worker: "worker:0",
  clock,
  maker,
  near,
  isOver: () => false,
});
