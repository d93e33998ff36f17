// The entry point of a thread that may have faults of a schedule: runs its task over ports that
// inject them at their moments.

import { parentPort, workerData } from "node:worker_threads";
import { progressOver, specIn } from "../../actors/threads/generation-memory.ts";
import { hostPlaces, poolMax } from "../../actors/threads/generation-spec.ts";
import { workerPorts } from "../../actors/threads/thread-ports.ts";
import { isStepTask, runThread, type ThreadTask } from "../../actors/threads/thread-program.ts";
import type { FaultyThread } from "./faulty-launcher.ts";
import { Injections } from "./injections.ts";
import { faultyPorts } from "./thread-faults.ts";

if (parentPort === null)
  throw new Error("faulty-entry.js is a thread's entry program: start it by the launcher");
const { task, directory, injectionsIn, ...rest } = workerData as FaultyThread;
const place = { ...rest, injections: new Injections(injectionsIn), ...watched(task) };
// Prepared data lies outside the checkpoint directory, so faults affect the whole disk.
const watchedDirectory = task.program === "prepare" ? "" : directory;
const ports = faultyPorts(workerPorts(parentPort), { ...place, directory: watchedDirectory });
void runThread(task, ports);

/**
 * The thread's view of the run: completed steps of its own device, or of its host's first device.
 */
function watched(task: ThreadTask) {
  const isWriter = task.program === "writer";
  const isWorker = task.program === "worker";
  const kind = { isWriter, isWorker };
  if (!isStepTask(task)) return { generation: 0, ...kind, stepsDone: () => 0 };
  const { program, memory, index } = task;
  const spec = specIn(memory);
  const { steps } = progressOver(memory, spec.devices);
  const places = { reader: spec.job.readers, worker: poolMax, bridge: 1 };
  const perHost = program in places ? places[program as keyof typeof places] : undefined;
  const position = Math.floor(index / (perHost ?? 1));
  const own = perHost === undefined ? index : (hostPlaces(spec)[position]?.first ?? 0);
  const stepsDone = () => Atomics.load(steps, own);
  return { generation: spec.generation, ...kind, stepsDone };
}
