// The entry of a slow reader thread: each batch that it delivers takes a while.

import { parentPort, workerData } from "node:worker_threads";
import { workerPorts } from "../../../actors/threads/thread-ports.ts";
import { type ParticipantTask, runThread } from "../../../actors/threads/thread-program.ts";

/** Duration of a batch in milliseconds. */
const batchMs = 100;

if (parentPort === null) throw new Error("slow-reader-entry.js is started as a thread");
await runThread(workerData as ParticipantTask, {
  ...workerPorts(parentPort),
  wrapCells: (cells) => ({
    ...cells,
    store(cell, value, wake) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, batchMs);
      cells.store(cell, value, wake);
    },
  }),
});
