// What runs on a thread: the program of its task, over the ports that it was given. It loads that
// program alone, as all of them take three times as long. A device's thread never turns its event
// loop: it waits on its doorbell.

import { GenerationAbortedError, recordError } from "../../src/errors/errors.ts";
import { visible } from "../../src/errors/visible.ts";
import { type Cells, nobody } from "../../src/exchange/cells.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { openKernels } from "../../src/kernels/index.ts";
import type { Log } from "../../src/ports/log.ts";
import type { TracedStep } from "../../src/training/meters/step-trace.ts";
import type { TierCommand } from "../../storage/tiers/serve.ts";
import type { BridgeTask } from "./bridge-program.ts";
import type { CalibrationSize } from "./calibration-time.ts";
import type { DeviceCommand, DeviceReport } from "./device-program.ts";
import { type Assembly, derive, type GenerationMemory, openCells } from "./generation-spec.ts";
import type { CopyCommand } from "./replica-service.ts";
import type { ThreadPorts } from "./thread-ports.ts";

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
  readonly program: "device" | "reader" | "tier" | "writer";
  readonly assembly: Assembly;
  readonly memory: GenerationMemory;
  readonly index: number;
}

/** Runs a task to its end; where it fails, `ports` are told why. */
export async function runThread(task: ThreadTask, ports: ThreadPorts): Promise<void> {
  const { clock, disk, wrapCells, report: tell } = ports;
  const log = logOf(task, ports);
  try {
    log("debug", "started");
    switch (task.program) {
      case "device":
        return await device(task, ports, log);
      case "reader": {
        const { assembly, memory, index } = task;
        const cells = openIdle(task, assembly.devices + (index % assembly.job.readers), ports);
        const traced = tracedTo(task, ports);
        const forReader = { cells: wrapCells(cells), disk, clock, traced };
        const { runReader } = await import("./reader-program.ts");
        return await runReader(assembly, memory, index, forReader);
      }
      case "tier": {
        const { assembly, memory, index } = task;
        const cells = wrapCells(openIdle(task, derive(assembly).tierOf(index), ports));
        const kernels = openKernels(assembly.job.arithmetic);
        const nextCommand = () => ports.take() as TierCommand | undefined;
        const given = { kernels, cells, clock, disk, pause: ports.pause, nextCommand, tell };
        const { runTier } = await import("./tier-program.ts");
        return await runTier(assembly, memory, index, given);
      }
      case "writer": {
        const { assembly, memory, index } = task;
        const cells = wrapCells(openIdle(task, derive(assembly).writerOf(index), ports));
        const forWriter = { cells, disk, clock, sleep: ports.sleep, tell };
        const { runWriter } = await import("./writer-program.ts");
        return await runWriter(assembly, memory, index, forWriter);
      }
      case "bridge": {
        const turning = { ...ports, sleep: ports.sleepTurning };
        const cells = wrapCells(openIdle(task, derive(task.assembly).bridge, turning));
        const { runBridge } = await import("./bridge-program.ts");
        const take = () => ports.take() as CopyCommand | undefined;
        return await runBridge(task, { clock, cells, dial: ports.dial, take, tell });
      }
      case "prepare": {
        const onProgress = (fraction: number) => tell({ type: "preparing", fraction });
        const { prepareData } = await import("./prepare-data.ts");
        const plan = await prepareData(task.job, disk, onProgress);
        return tell({ type: "prepared", plan });
      }
      case "calibrate": {
        const { runCalibration } = await import("./calibration-program.ts");
        return tell(await runCalibration(task, clock));
      }
      default:
        return task satisfies never;
    }
  } catch (error) {
    if (error instanceof GenerationAbortedError) return;
    const record = recordError(error);
    const stack = error instanceof Error ? visible(error.stack ?? "") : undefined;
    log("error", record.message, { code: record.code, stack });
    ports.fail(record);
  }
}

/** Lines about what a thread takes part in, in its own order. */
function logOf(task: ThreadTask, ports: ThreadPorts): Log["write"] {
  const { program } = task;
  const scope =
    "assembly" in task
      ? {
          run: task.assembly.run,
          generation: task.assembly.generation,
          actor: `${program}:${task.index}`,
        }
      : { actor: program };
  return (level, message, fields) =>
    ports.observe({ line: { level, message, fields: { ...scope, ...fields } } });
}

/** Hands on what a thread did for a step. */
function tracedTo({ program, assembly, index }: ParticipantTask, { observe }: ThreadPorts) {
  const { run, generation } = assembly;
  const actor = `${program}:${index}`;
  return (traced: TracedStep) => observe({ traced: { run, generation, actor, ...traced } });
}

/** Cells of a participant that may wait for ever: others count its time. */
function openIdle(
  { assembly, memory }: Pick<ParticipantTask, "assembly" | "memory">,
  participant: number,
  { clock, sleep }: Pick<ThreadPorts, "clock" | "sleep">,
): Cells {
  const deadlineMs = Number.POSITIVE_INFINITY;
  return openCells(assembly, memory, participant, { clock, deadlineMs, sleep });
}

/**
 * Share of the step deadline for which a device waits to be asked for its remains, and how often it
 * looks: one is asked after the other, and the first answer releases them all.
 */
const salvageShare = 0.25;
const salvageWaits = 100;

async function device(task: ParticipantTask, ports: ThreadPorts, log: Log["write"]): Promise<void> {
  const { assembly, memory, index } = task;
  const { clock, disk, sleep, wrapCells } = ports;
  const { stepDeadlineMs: deadlineMs, arithmetic } = assembly.job;
  const idle = openIdle(task, index, ports); // Between commands it is the coordinator that counts.
  const { runDevice } = await import("./device-program.ts");
  await runDevice(assembly, memory, index, {
    kernels: ports.wrapKernels(openKernels(arithmetic)),
    cells: wrapCells(openCells(assembly, memory, index, { clock, deadlineMs, sleep })),
    disk,
    clock,
    log,
    traced: tracedTo(task, ports),
    tell: (report: DeviceReport) => ports.report(report),
    async salvage() {
      const never = new Int32Array(new SharedArrayBuffer(4));
      for (let waits = 0; waits < salvageWaits; waits++) {
        for (let one = ports.take(); one !== undefined; one = ports.take()) {
          const command = one as DeviceCommand;
          if (command.type === "salvage") return command;
        }
        const waitMs = (salvageShare * deadlineMs) / salvageWaits;
        if (sleep === undefined) Atomics.wait(never, 0, 0, waitMs);
        else await sleep(never, 0, 0, waitMs);
      }
      return undefined;
    },
    async nextCommand() {
      let command: DeviceCommand | undefined;
      await idle.waitUntil(
        () => "a command",
        () => {
          command = ports.take() as DeviceCommand | undefined;
          return command !== undefined;
        },
        nobody,
      );
      return command ?? { type: "end" };
    },
  });
}
