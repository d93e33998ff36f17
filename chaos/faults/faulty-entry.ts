// The entry of a thread that a schedule's faults may break: the program of its task, over ports
// that wait for their moments.

import { parentPort, workerData } from "node:worker_threads";
import { progressOver } from "../../actors/threads/generation-memory.ts";
import { hostPlaces } from "../../actors/threads/generation-spec.ts";
import { workerPorts } from "../../actors/threads/thread-ports.ts";
import { runThread, type ThreadTask } from "../../actors/threads/thread-program.ts";
import type { FaultyThread } from "./faulty-launcher.ts";
import { Injections } from "./injections.ts";
import { faultyPorts } from "./thread-faults.ts";

if (parentPort === null) throw new Error("faulty-entry.js is started as a thread");
const { task, directory, injectionsIn, ...rest } = workerData as FaultyThread;
const place = { ...rest, injections: new Injections(injectionsIn), ...watched(task) };
// What is prepared lies outside the checkpoint directory: all of the disk counts.
const watchedDirectory = task.program === "prepare" ? "" : directory;
const ports = faultyPorts(workerPorts(parentPort), { ...place, directory: watchedDirectory });
void runThread(task, ports);

/** What the thread can see of the run: the steps of its own device, or of its host's first one. */
function watched(task: ThreadTask) {
  const isWriter = task.program === "writer";
  if (!("spec" in task)) return { generation: 0, isWriter, stepsDone: () => 0 };
  const { program, spec, memory, index } = task;
  const { steps } = progressOver(memory, spec.devices);
  const position = program === "reader" ? Math.floor(index / spec.job.readers) : index;
  const isOfHost = program === "reader" || program === "bridge";
  const own = isOfHost ? (hostPlaces(spec)[position]?.first ?? 0) : index;
  const stepsDone = () => Atomics.load(steps, own);
  return { generation: spec.generation, isWriter, stepsDone };
}
