// The entry of a tier's thread whose disk is slow once: one read of records takes a while.

import { parentPort, workerData } from "node:worker_threads";
import { workerPorts } from "../../actors/thread-ports.ts";
import { type ParticipantTask, runThread } from "../../actors/thread-program.ts";
import { loadAddon } from "../../src/kernels/native.ts";

/** The read that is slow, and for how long: more than a tenth of the tests' step deadline. */
const slowRead = 20;
const slowMs = 800;

if (parentPort === null) throw new Error("slow-tier-entry.js is started as a thread");
const task = workerData as ParticipantTask;
const disk: Record<string, (...given: never[]) => unknown> =
  task.assembly.job.tiers.ssd === "file" ? (loadAddon() ?? {}) : await rocksPrototype();
const name = "readRecords" in disk ? "readRecords" : "_getManySync";
const read = disk[name];
if (read === undefined) throw new Error("There is nothing to slow down");
let reads = 0;
disk[name] = function slowly(...given) {
  if (++reads === slowRead) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, slowMs);
  }
  return read.apply(this, given);
};
await runThread(task, workerPorts(parentPort));

async function rocksPrototype() {
  const module: string = "rocksdb";
  return (await import(module)).RocksLevel.prototype;
}
