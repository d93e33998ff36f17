// Measures the links between hosts on the real path of the exchange: a thread of each host is a
// device and its bridge at once, and all hosts exchange at the same time, as in a step: over the
// broker, then over direct links. One figure for all pairs of hosts is enough: the exchange of a
// step ends when the slowest host has its bytes.

import { recordError } from "../../src/errors/errors.ts";
import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import { createBridge } from "../../src/exchange/bridge.ts";
import { abortCells, cellWords } from "../../src/exchange/cells.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import type { LinkPlace } from "../../src/exchange/links/link-options.ts";
import type { DirectWay, LinkNews } from "../../src/exchange/links/negotiation.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import { openKernels } from "../../src/kernels/index.ts";
import type { MeasuredLinks } from "../../src/planner/fleet.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
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
  /** How this host takes direct links; undefined: only the broker is measured. */
  readonly direct: LinkPlace | undefined;
}

/** The links over the broker, and direct ones; or why there is no figure. */
export interface ProbedLinks {
  readonly links: MeasuredLinks | string;
  readonly direct?: MeasuredLinks | string | undefined;
}

/** Bytes that a host sends in a round, to all hosts together; and elements of its gradients. */
const [roundBytes, gradientLength] = [2 ** 21, 2 ** 18];
/**
 * Rounds of each kind, of which the fastest counts; the first ones also compile the code. A link of
 * 100 Mb/s takes 4 s for all.
 */
const [emptyRounds, allToAllRounds, allReduceRounds] = [40, 16, 8];
/** Time for which a thread still serves the other hosts after its own measurement. */
const lingerMs = 250;

type Ports = Pick<ThreadPorts, "clock" | "dial" | "directWay" | "sleepTurning">;

/** Measures and reports the links, those over the broker first; all hosts of the task run it. */
export async function runLinkProbe(
  task: LinkTask,
  ports: Ports & { report(links: ProbedLinks): void },
): Promise<void> {
  const { cluster, connection, direct } = task;
  const transport = await ports.dial(connection, `osiris-${cluster}-links`);
  try {
    const links = await measureWay(task, transport, ports, undefined);
    ports.report({ links });
    if (direct === undefined) return;
    const way = await ports.directWay(direct, connection);
    const found = await measureWay(task, transport, ports, way).catch((error: unknown) => {
      return recordError(error).message;
    });
    ports.report({ links, direct: found });
  } finally {
    await transport.close();
  }
}

/** Measures one way; or why a direct link cannot be used. */
async function measureWay(
  { hosts, index, generation, run, cluster, deadlineMs }: LinkTask,
  transport: Transport,
  { clock, sleepTurning }: Ports,
  way: Omit<DirectWay, "tell"> | undefined,
): Promise<MeasuredLinks | string> {
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
  let fault: string | undefined;
  const tell = (news: LinkNews) => {
    if (news.type === "unusable") fault ??= news.reason;
  };
  const bridge = createBridge({
    ...{ shape, host: index, memory, transport, clock, deadlineMs, abort: end },
    cells: createAtomicCells({
      ...common,
      ...{ participant: hosts, deadlineMs: Number.POSITIVE_INFINITY },
    }),
    // Apart from the bridges of the generation, which may start while this one still serves.
    place: { cluster, run: `${run}-links${way === undefined ? "" : "-direct"}`, generation },
    direct: way && { ...way, tell },
  });
  const carried = bridge.run();
  try {
    const exchange = createSharedMemoryExchange({
      ...{ shape, rank: index, memory, kernels, bridge: hosts },
      cells: createAtomicCells({ ...common, participant: index, deadlineMs }),
    });
    const measure = async (): Promise<MeasuredLinks | string> => {
      await bridge.ready;
      const empty = { partBytes: 8, rounds: emptyRounds };
      const roundSeconds = (8 * hosts) / (await measureAllToAll(exchange, clock, empty));
      const vectors = { partBytes, rounds: allToAllRounds };
      const allToAll = await measureAllToAll(exchange, clock, vectors);
      const gradients = { gradientLength, rounds: allReduceRounds };
      const allReduce = await measureAllReduce(exchange, clock, gradients);
      if (fault !== undefined) return fault; // Later faults: other hosts have finished and hung up.
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
    await new Promise<void>((resolve) => void clock.after(lingerMs, resolve));
    return links;
  } finally {
    end();
    await carried.catch(() => {});
  }
}

/** A rate of bytes, without the fixed seconds of its rounds. */
function withoutRounds(rate: number, bytes: number, seconds: number): number {
  const whole = bytes / rate;
  return bytes / Math.max(whole - seconds, whole / 10);
}
