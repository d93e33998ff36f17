// The ports of a thread: the outside world of its program. This file has the ports of a worker
// thread; the simulator has its own (chaos/simulation).

import { type MessagePort, receiveMessageOnPort } from "node:worker_threads";
import { type ErrorRecord, FrameCorruptError, recordError } from "../../src/errors/errors.ts";
import { type Sleep, sleepTurning } from "../../src/exchange/atomic-cells.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import type { LinkPlace } from "../../src/exchange/links/link-options.ts";
import type { DirectWay } from "../../src/exchange/links/negotiation.ts";
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
  /** Sleep of a wait, for a thread without a connection. @default it blocks the thread */
  readonly sleep?: Sleep;
  /** Lets time pass within a synchronous call. @default it blocks */
  readonly pause?: (ms: number) => void;
  /** Executes a task once the time that passed in such calls is over. @default at once */
  readonly afterPauses?: (task: () => void) => void;
  /** Sleep of a wait, for a thread that serves a connection. */
  readonly sleepTurning: Sleep;
  /** Wraps the cells of a participant, where chaos injects thread faults. */
  wrapCells(cells: Cells): Cells;
  /** The constants that a plan is calculated with: the rates of the machine (kept-constants.ts). */
  constantsOf(arithmetic: "auto" | "native" | "reference"): Promise<MachineConstants>;
  /** Wraps the kernels of a device, for fault injection. */
  wrapKernels(kernels: Kernels): Kernels;
  /** Sends a report to the thread's actor. */
  report(value: unknown): void;
  /** Sends logs and traces to the observers of the process. */
  observe(observation: Observation): void;
  /** The final report: why the program failed. */
  fail(error: ErrorRecord): void;
  /** Takes the oldest pending command; undefined: there is none. */
  take(): unknown;
  /** Opens the thread's own connection. The thread itself repeats lost messages. */
  dial(connection: Connection, name: string): Promise<Transport>;
  /** How this host takes and opens direct links. */
  directWay(place: LinkPlace, connection: Connection): Promise<Omit<DirectWay, "tell">>;
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
    // Loaded only by threads that dial, since it takes as long to load as the rest of a thread.
    async dial(connection, name) {
      const { dial } = await import("../runtime/network.ts");
      return dial(connection, name, (error) => {
        if (!(error instanceof FrameCorruptError)) return;
        port.postMessage({ observed: { refused: recordError(error) } });
      });
    },
    async directWay(place, connection) {
      const { directWayOf } = await import("./link-place.ts");
      return directWayOf(place, connection, { clock: realClock });
    },
  };
}
