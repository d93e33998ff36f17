// The ports of a thread: what its program has of the outside world. This file has the ports of a
// worker thread; the simulator has its own (chaos/simulation).

import { type MessagePort, receiveMessageOnPort } from "node:worker_threads";
import { type ErrorRecord, FrameCorruptError, recordError } from "../../src/errors/errors.ts";
import { type Sleep, sleepTurning } from "../../src/exchange/atomic-cells.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import type { MachineConstants } from "../../src/planner/cost/constants.ts";
import { type Clock, realClock } from "../../src/ports/clock.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import type { Observation } from "../../src/ports/launcher.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import type { Connection } from "../runtime/mailbox.ts";

export interface ThreadPorts {
  readonly clock: Clock;
  readonly disk: Disk;
  /** How a wait sleeps if the thread has nothing else to serve. @default it blocks the thread */
  readonly sleep?: Sleep;
  /** How the thread lets time pass in the midst of a call. @default it blocks */
  readonly pause?: (ms: number) => void;
  /** How a wait sleeps if the thread has a connection to serve. */
  readonly sleepTurning: Sleep;
  /** Puts something between a participant and its cells: chaos breaks threads there. */
  wrapCells(cells: Cells): Cells;
  /** What a plan is reckoned with: the speeds of the machine (kept-constants.ts). */
  constantsOf(arithmetic: "auto" | "native" | "reference"): Promise<MachineConstants>;
  /** Puts something between a device and its kernels. */
  wrapKernels(kernels: Kernels): Kernels;
  /** Tells the thread's actor. */
  report(value: unknown): void;
  /** Tells the observers of the process: logs, traces. */
  observe(observation: Observation): void;
  /** The last word: why the program failed. */
  fail(error: ErrorRecord): void;
  /** The oldest command not taken yet; undefined: there is none. */
  take(): unknown;
  /** A connection of the thread's own. The thread sends lost messages again. */
  dial(connection: Connection, name: string): Promise<Transport>;
}

/** The ports of a worker thread with this port to its parent. */
export function workerPorts(port: MessagePort): ThreadPorts {
  return {
    clock: realClock,
    disk: realDisk,
    sleepTurning,
    async constantsOf(arithmetic) {
      const { constantsOfRun } = await import("./kept-constants.ts");
      return constantsOfRun(arithmetic);
    },
    wrapCells: (cells) => cells,
    wrapKernels: (kernels) => kernels,
    report: (value) => port.postMessage({ report: value }),
    observe: (observation) => port.postMessage({ observed: observation }),
    fail: (error) => port.postMessage({ failed: error }),
    take: () => receiveMessageOnPort(port)?.message,
    // Loaded only by threads that dial: loading it takes as long as all the rest of a thread.
    async dial(connection, name) {
      const { dial } = await import("../runtime/network.ts");
      return dial(connection, name, (error) => {
        if (!(error instanceof FrameCorruptError)) return;
        port.postMessage({ observed: { refused: recordError(error) } });
      });
    },
  };
}
