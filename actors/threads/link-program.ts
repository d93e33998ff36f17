// Measures the links between hosts on the real path of the exchange: a thread of each host is a
// device and its bridge at once, and all hosts exchange at the same time, as in a step. One figure
// for all of them is enough, however many pairs they form: the exchange of a step ends when the
// slowest host has its bytes, and the broker carries the frames of all.

import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import { createBridge } from "../../src/exchange/bridge.ts";
import { abortCells, cellWords } from "../../src/exchange/cells.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import { openKernels } from "../../src/kernels/index.ts";
import type { MeasuredLinks } from "../../src/planner/fleet.ts";
import type { Connection, RunScope } from "../runtime/mailbox.ts";
import { measureAllReduce, measureAllToAll } from "./calibration-program.ts";
import { measuringShape } from "./measuring.ts";
import type { ThreadPorts } from "./thread-ports.ts";

/** The task of a thread that measures links, one for each host. */
export interface LinkTask extends RunScope {
  readonly program: "links";
  readonly cluster: string;
  readonly connection: Connection;
  /** Number of hosts, and the place of this one among them. */
  readonly hosts: number;
  readonly index: number;
  readonly deadlineMs: number;
}

/** Bytes that a host sends in a round, to all hosts together; and elements of its gradients. */
const [roundBytes, gradientLength] = [2 ** 21, 2 ** 18];
/**
 * Rounds of each kind, of which the fastest counts; the first ones also compile the code. A link of
 * 100 Mb/s takes 4 s for all.
 */
const [emptyRounds, allToAllRounds, allReduceRounds] = [40, 16, 8];
/** How long a thread serves the others once it has measured. */
const lingerMs = 250;

/** Measures and reports the links; all hosts of the task must run it. */
export async function runLinkProbe(
  task: LinkTask,
  {
    clock,
    dial,
    sleepTurning,
    report,
  }: Pick<ThreadPorts, "clock" | "dial" | "sleepTurning"> & {
    report(links: MeasuredLinks): void;
  },
): Promise<void> {
  const { hosts, index, generation, run, cluster, connection, deadlineMs } = task;
  const partBytes = 8 * Math.ceil(roundBytes / hosts / 8);
  const shape = {
    ...measuringShape(hosts, { pooled: () => partBytes }, gradientLength),
    hostOf: Array.from({ length: hosts }, (_, host) => host),
  };
  const layout = layoutOf(shape, index);
  const participants = hosts + 1;
  const words = new Int32Array(new SharedArrayBuffer(4 * cellWords(participants, layout.cells)));
  const memory = new SharedArrayBuffer(layout.bytes);
  const common = { words, participants, generation, clock, sleep: sleepTurning };
  const kernels = openKernels("auto");
  const end = () => abortCells(words, participants);
  const transport = await dial(connection, `osiris-${cluster}-links`);
  const bridge = createBridge({
    ...{ shape, host: index, memory, transport, clock, deadlineMs, abort: end },
    cells: createAtomicCells({
      ...common,
      ...{ participant: hosts, deadlineMs: Number.POSITIVE_INFINITY },
    }),
    // Apart from the bridges of the generation, which may start while this one still serves.
    place: { cluster, run: `${run}-links`, generation },
  });
  const carried = bridge.run();
  try {
    const exchange = createSharedMemoryExchange({
      ...{ shape, rank: index, memory, kernels, bridge: hosts },
      cells: createAtomicCells({ ...common, participant: index, deadlineMs }),
    });
    const measure = async (): Promise<MeasuredLinks> => {
      await bridge.ready;
      const empty = { partBytes: 8, rounds: emptyRounds };
      const roundSeconds = (8 * hosts) / (await measureAllToAll(exchange, clock, empty));
      const vectors = { partBytes, rounds: allToAllRounds };
      const allToAll = await measureAllToAll(exchange, clock, vectors);
      const gradients = { gradientLength, rounds: allReduceRounds };
      const allReduce = await measureAllReduce(exchange, clock, gradients);
      return {
        allToAll: withoutRounds(allToAll, hosts * partBytes, roundSeconds),
        allReduce: withoutRounds(allReduce, 4 * gradientLength, 2 * roundSeconds),
        roundSeconds,
      };
    };
    const links = await Promise.race([
      measure(),
      carried.then(() => Promise.reject(new RangeError("The bridge ended first"))),
    ]);
    report(links);
    await new Promise<void>((resolve) => void clock.after(lingerMs, resolve));
  } finally {
    end();
    await carried.catch(() => {});
    await transport.close();
  }
}

/** A rate of bytes, without the seconds that its rounds take whatever their bytes. */
function withoutRounds(rate: number, bytes: number, seconds: number): number {
  const whole = bytes / rate;
  return bytes / Math.max(whole - seconds, whole / 10);
}
