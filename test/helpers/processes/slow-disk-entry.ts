// The entry of a writer's thread with a slow disk: each sync takes a while.

import { parentPort, workerData } from "node:worker_threads";
import { workerPorts } from "../../../actors/threads/thread-ports.ts";
import { type ParticipantTask, runThread } from "../../../actors/threads/thread-program.ts";
import type { DiskFile, OpenMode } from "../../../src/ports/disk.ts";

/** Duration of a sync in milliseconds. */
export const syncMs = 150;

function slow(file: DiskFile): DiskFile {
  const sync = () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, syncMs);
    file.sync();
  };
  return {
    path: file.path,
    write: (bytes, at) => file.write(bytes, at),
    read: (into, at) => file.read(into, at),
    readLater: (into, at) => file.readLater(into, at),
    size: () => file.size(),
    truncate: (bytes) => file.truncate(bytes),
    close: () => file.close(),
    sync,
    synced: async () => sync(),
  };
}

// The test that starts this thread reads `syncMs`.
if (parentPort !== null && workerData?.program === "writer") {
  const ports = workerPorts(parentPort);
  const disk = {
    ...ports.disk,
    open: (path: string, mode: OpenMode) => slow(ports.disk.open(path, mode)),
  };
  await runThread(workerData as ParticipantTask, { ...ports, disk });
}
