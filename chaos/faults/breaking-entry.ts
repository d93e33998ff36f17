// The entry point of a thread with a fault: runs its task over cells that inject it.

import { parentPort, workerData } from "node:worker_threads";
import { progressOver } from "../../actors/threads/generation-memory.ts";
import type { ReaderTask } from "../../actors/threads/reader-program.ts";
import { workerPorts } from "../../actors/threads/thread-ports.ts";
import { type ParticipantTask, runThread } from "../../actors/threads/thread-program.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import { breakingCells, type ThreadFault } from "./breaking-cells.ts";

/** The data of the thread. */
export interface BreakingTask {
  readonly task: ParticipantTask | ReaderTask;
  readonly fault: ThreadFault;
  /** State of the injection, shared with the launcher. */
  readonly injected: Int32Array;
}

if (parentPort === null)
  throw new Error("breaking-entry.js is a thread's entry program: start it by the launcher");
const { task, fault, injected } = workerData as BreakingTask;
const { steps } = progressOver(task.memory, task.spec.devices);
const isReader = task.program === "reader";
const own = isReader ? 0 : task.index;
/** A reader may sleep through the step of the fault, so its step stays at it from then on. */
const stepsDone = () => {
  const done = Atomics.load(steps, own);
  return isReader ? Math.min(done, fault.step) : done;
};
const wrapCells = (cells: Cells) => breakingCells(cells, { fault, stepsDone, injected });
void runThread(task, { ...workerPorts(parentPort), wrapCells });
