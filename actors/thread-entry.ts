// The entry of every thread: makes real ports, runs the program that it was started for, and says
// how it ended. A device's thread never turns its event loop: it waits on its doorbell.

import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { realClock } from "../src/clock.ts";
import { realDisk } from "../src/disk.ts";
import { GenerationAbortedError, recordError } from "../src/errors.ts";
import type { JobSpec } from "../src/job.ts";
import { openKernels } from "../src/kernels/index.ts";
import { type Assembly, type GenerationMemory, openCells } from "./assembly.ts";
import { type DeviceCommand, type DeviceReport, runDevice } from "./device-program.ts";
import { prepareData } from "./preparation.ts";
import { runReader } from "./reader-program.ts";

/** What a thread is started with. */
export type ThreadTask =
  | {
      readonly program: "device" | "reader";
      readonly assembly: Assembly;
      readonly memory: GenerationMemory;
      readonly index: number;
    }
  | { readonly program: "prepare"; readonly job: JobSpec };

const port = parentPort;
if (port === null) throw new Error("thread-entry.js is started by the launcher, as a thread");
const report = (value: unknown) => port.postMessage({ report: value });

try {
  await run(workerData as ThreadTask);
} catch (error) {
  if (!(error instanceof GenerationAbortedError)) port.postMessage({ failed: recordError(error) });
}

async function run(task: ThreadTask): Promise<void> {
  switch (task.program) {
    case "device":
      return await device(task.assembly, task.memory, task.index);
    case "reader": {
      const { assembly, memory, index } = task;
      const options = { clock: realClock, deadlineMs: Number.POSITIVE_INFINITY };
      const cells = openCells(assembly, memory, assembly.devices + index, options);
      return await runReader(assembly, memory, index, { cells, disk: realDisk });
    }
    case "prepare": {
      const tell = (fraction: number) => report({ type: "preparing", fraction });
      const plan = await prepareData(task.job, realDisk, tell);
      return report({ type: "prepared", plan });
    }
    default:
      return task satisfies never;
  }
}

async function device(assembly: Assembly, memory: GenerationMemory, rank: number): Promise<void> {
  const { stepDeadlineMs, arithmetic } = assembly.job;
  const open = (deadlineMs: number) =>
    openCells(assembly, memory, rank, { clock: realClock, deadlineMs });
  const idle = open(Number.POSITIVE_INFINITY); // Between commands it is the coordinator that counts.
  await runDevice(assembly, memory, rank, {
    kernels: openKernels(arithmetic),
    cells: open(stepDeadlineMs),
    disk: realDisk,
    tell: (message: DeviceReport) => report(message),
    async nextCommand() {
      let command: DeviceCommand | undefined;
      await idle.waitUntil(
        () => "a command",
        () => {
          command = port === null ? undefined : receiveMessageOnPort(port)?.message;
          return command !== undefined;
        },
      );
      return command ?? { type: "end" };
    },
  });
}
