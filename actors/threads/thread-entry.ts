// The entry point of every thread: runs the task that the thread was started with.

import { parentPort, workerData } from "node:worker_threads";
import { workerPorts } from "./thread-ports.ts";
import { runThread, type ThreadTask } from "./thread-program.ts";

if (parentPort === null)
  throw new Error("thread-entry.js is a thread's entry program: start it by the launcher");
void runThread(workerData as ThreadTask, workerPorts(parentPort));
