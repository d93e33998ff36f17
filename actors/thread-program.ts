// What runs on a thread: makes real ports and runs the program of the thread's task. A device's
// thread never turns its event loop: it waits on its doorbell.

import { type MessagePort, receiveMessageOnPort } from "node:worker_threads";
import { realClock } from "../src/clock.ts";
import { realDisk } from "../src/disk.ts";
import { GenerationAbortedError, recordError } from "../src/errors.ts";
import { createAtomicCells } from "../src/exchange/atomic-cells.ts";
import type { Cells } from "../src/exchange/cells.ts";
import { createSharedMemoryExchange } from "../src/exchange/shared-memory.ts";
import type { JobSpec } from "../src/job.ts";
import { openKernels } from "../src/kernels/index.ts";
import type { TierCommand } from "../storage/tiers/serve.ts";
import { type Assembly, derive, type GenerationMemory, openCells } from "./assembly.ts";
import { type BridgeTask, runBridge } from "./bridge-program.ts";
import { calibrationShape, measureDevice } from "./calibration-program.ts";
import type { CalibrationSize } from "./calibration-time.ts";
import { type DeviceCommand, type DeviceReport, runDevice } from "./device-program.ts";
import { prepareData } from "./preparation.ts";
import { runReader } from "./reader-program.ts";
import { runTier } from "./tier-program.ts";

/** What a thread is started with. */
export type ThreadTask =
  | ParticipantTask
  | BridgeTask
  | CalibrationTask
  | { readonly program: "prepare"; readonly job: JobSpec };

/** A thread that measures for the planner, beside `devices` - 1 others. */
export interface CalibrationTask {
  readonly program: "calibrate";
  readonly rank: number;
  readonly devices: number;
  readonly arithmetic: "auto" | "native" | "reference";
  readonly size: CalibrationSize;
  readonly words: SharedArrayBuffer;
  readonly memory: SharedArrayBuffer;
}

/** A thread that takes part in a generation. */
export interface ParticipantTask {
  readonly program: "device" | "reader" | "tier";
  readonly assembly: Assembly;
  readonly memory: GenerationMemory;
  readonly index: number;
}

/**
 * Runs a task to its end and says on `port` how it ended. `wrapCells` may put something between a
 * participant and its cells: the chaos harness breaks threads there.
 */
export async function runThread(
  task: ThreadTask,
  port: MessagePort,
  wrapCells: (cells: Cells) => Cells = (cells) => cells,
): Promise<void> {
  const report = (value: unknown) => port.postMessage({ report: value });
  try {
    switch (task.program) {
      case "device":
        return await device(task, port, wrapCells);
      case "reader": {
        const { assembly, memory, index } = task;
        const options = { clock: realClock, deadlineMs: Number.POSITIVE_INFINITY };
        const participant = assembly.devices + (index % assembly.job.readers);
        const cells = openCells(assembly, memory, participant, options);
        return await runReader(assembly, memory, index, {
          cells: wrapCells(cells),
          disk: realDisk,
          clock: realClock,
        });
      }
      case "tier": {
        const { assembly, memory, index } = task;
        const options = { clock: realClock, deadlineMs: Number.POSITIVE_INFINITY };
        const cells = openCells(assembly, memory, derive(assembly).tierOf(index), options);
        const kernels = openKernels(assembly.job.arithmetic);
        const ports = {
          kernels,
          cells: wrapCells(cells),
          clock: realClock,
          nextCommand: () => receiveMessageOnPort(port)?.message as TierCommand | undefined,
          tell: report,
        };
        return await runTier(assembly, memory, index, ports);
      }
      case "bridge":
        return await runBridge(task, report);
      case "prepare": {
        const tell = (fraction: number) => report({ type: "preparing", fraction });
        const plan = await prepareData(task.job, realDisk, tell);
        return report({ type: "prepared", plan });
      }
      case "calibrate":
        return report(await calibrationOf(task));
      default:
        return task satisfies never;
    }
  } catch (error) {
    if (error instanceof GenerationAbortedError) return;
    port.postMessage({ failed: recordError(error) });
  }
}

async function device(
  { assembly, memory, index }: ParticipantTask,
  port: MessagePort,
  wrapCells: (cells: Cells) => Cells,
): Promise<void> {
  const { stepDeadlineMs, arithmetic } = assembly.job;
  const open = (deadlineMs: number) =>
    openCells(assembly, memory, index, { clock: realClock, deadlineMs });
  const idle = open(Number.POSITIVE_INFINITY); // Between commands it is the coordinator that counts.
  await runDevice(assembly, memory, index, {
    kernels: openKernels(arithmetic),
    cells: wrapCells(open(stepDeadlineMs)),
    disk: realDisk,
    clock: realClock,
    tell: (report: DeviceReport) => port.postMessage({ report }),
    async nextCommand() {
      let command: DeviceCommand | undefined;
      await idle.waitUntil(
        () => "a command",
        () => {
          command = receiveMessageOnPort(port)?.message;
          return command !== undefined;
        },
      );
      return command ?? { type: "end" };
    },
  });
}

/** Longest that one measurement waits for another thread's. */
const calibrationDeadlineMs = 300_000;

function calibrationOf({ rank, devices, arithmetic, size, words, memory }: CalibrationTask) {
  const kernels = openKernels(arithmetic);
  const cells = createAtomicCells({
    words: new Int32Array(words),
    participants: devices,
    participant: rank,
    generation: 1,
    deadlineMs: calibrationDeadlineMs,
    clock: realClock,
  });
  const shape = calibrationShape(size, devices);
  const exchange = createSharedMemoryExchange({ shape, rank, memory, cells, kernels });
  return measureDevice(kernels, exchange, realClock, size);
}
