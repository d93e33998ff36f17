// The entry of a thread that is to break: the program of its task, over cells that inject faults.

import { parentPort, workerData } from "node:worker_threads";
import { progressOver } from "../../actors/threads/generation-memory.ts";
import type { ReaderTask } from "../../actors/threads/reader-program.ts";
import { workerPorts } from "../../actors/threads/thread-ports.ts";
import { type ParticipantTask, runThread } from "../../actors/threads/thread-program.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import { breakingCells, type ThreadFault } from "./breaking-cells.ts";

if (parentPort === null) throw new Error("breaking-entry.js is started as a thread");
const { task, fault } = workerData as { task: ParticipantTask | ReaderTask; fault: ThreadFault };
const { steps } = progressOver(task.memory, task.spec.devices);
const own = task.program === "reader" ? 0 : task.index;
const stepsDone = () => Atomics.load(steps, own);
const wrapCells = (cells: Cells) => breakingCells(cells, fault, stepsDone);
void runThread(task, { ...workerPorts(parentPort), wrapCells });
