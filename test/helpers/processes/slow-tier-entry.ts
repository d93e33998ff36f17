// The entry of a tier's thread whose disk is slow once: one read of records takes a while.

import { createRequire } from "node:module";
import { parentPort, workerData } from "node:worker_threads";
import { specIn } from "../../../actors/threads/generation-memory.ts";
import { workerPorts } from "../../../actors/threads/thread-ports.ts";
import { type ParticipantTask, runThread } from "../../../actors/threads/thread-program.ts";
import { addonPath } from "../../../src/ports/addon.ts";

type Calls = Record<string, (...given: never[]) => unknown>;

/** The number of the slow read, and its duration: more than a tenth of the tests' step deadline. */
const slowRead = 20;
const slowMs = 800;

if (parentPort === null) throw new Error("slow-tier-entry.js is started as a thread");
const task = workerData as ParticipantTask;
if (specIn(task.memory).job.tiers.ssd === "file") slowDown(ownAddon(), "readRecords");
else slowDown(await rocksPrototype(), "_getManySync");
await runThread(task, workerPorts(parentPort));

function slowDown(calls: Calls, name: string): void {
  const read = calls[name];
  if (read === undefined) throw new Error(`There is no ${name} to slow down`);
  let reads = 0;
  calls[name] = function slowly(this: unknown, ...given) {
    if (++reads === slowRead) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, slowMs);
    }
    return read.apply(this, given);
  };
}

/** The addon as this thread will load it, whose exports are read-only. */
function ownAddon(): Calls {
  const require = createRequire(import.meta.url);
  const path = addonPath();
  const addon: Calls = require(path);
  const own = Object.fromEntries(
    Object.getOwnPropertyNames(addon).flatMap((name) => {
      const call = addon[name];
      return call === undefined ? [] : [[name, call]];
    }),
  );
  const cached = require.cache[path];
  if (cached !== undefined) cached.exports = own;
  return own;
}

async function rocksPrototype(): Promise<Calls> {
  const module: string = "rocksdb";
  return (await import(module)).RocksLevel.prototype;
}
