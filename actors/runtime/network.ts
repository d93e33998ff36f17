// The network of a process: its connection to the broker, and what its actors know of the cluster.

import { FrameCorruptError } from "../../src/errors/errors.ts";
import { type Clock, realClock } from "../../src/ports/clock.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { type Log, silentLog } from "../../src/ports/log.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import { connectNats } from "../../src/wire/transports/nats-transport.ts";
import type { Connection, Network } from "./mailbox.ts";
import { WaitBook } from "./wait-graph.ts";

/** Longest wait for a broker to be there. */
const connectMs = 10_000;

/** Clock, disk and memory of a process, if its starter replaces them. */
export interface World {
  /** @default the machine's own */
  readonly clock?: Clock | undefined;
  /** Where checkpoints lie. @default the machine's own */
  readonly disk?: Disk | undefined;
  /** Bytes of memory that it may use. @default those of the machine, or of its container */
  readonly memoryBytes?: number | undefined;
}

/** Connects. The caller closes the transport of the network. @throws TransportLostError */
export async function openNetwork(options: {
  readonly connection: Connection;
  readonly cluster: string;
  readonly faultsAllowed: boolean;
  readonly world?: World | undefined;
  /** @default silent */
  readonly log?: Log | undefined;
  /** @default nothing is traced */
  readonly tracedEvery?: number | undefined;
  /** Called with errors of the broker, and for frames that are no messages. */
  readonly onError: (offender: "transport" | "wire", error: unknown) => void;
}): Promise<Network> {
  const { connection, cluster, faultsAllowed, log = silentLog, tracedEvery, onError } = options;
  const { clock = realClock, disk = realDisk, memoryBytes } = options.world ?? {};
  const refused = { frames: 0 };
  const onCorrupt = (error: Error) => {
    refused.frames++;
    onError("wire", error);
  };
  const transport = await dial(connection, `osiris-${cluster}`, (error) => {
    if (error instanceof FrameCorruptError) onCorrupt(error);
    else onError("transport", error);
  });
  tellBroker(transport, clock, log);
  return {
    transport,
    connection,
    cluster,
    clock,
    disk,
    log,
    memoryBytes,
    tracedEvery,
    faultsAllowed,
    connectedForMs: connectedFor(transport, clock),
    waits: new WaitBook(clock),
    refused,
    onCorrupt,
  };
}

/**
 * A connection of its own, as a thread needs. Its name ends in the process's number: the broker's
 * list of connections, and a test that cuts one, can tell which process it belongs to.
 * @throws TransportLostError
 */
export function dial(
  connection: Connection,
  name: string,
  onError: (error: unknown) => void,
): Promise<Transport> {
  const own = `${name}-${process.pid}`;
  return connectNats({ ...connection, name: own, deadlineMs: connectMs, onError });
}

/** Lines of a log: the broker is out of reach, and is there again. */
export function tellBroker(
  transport: Pick<Transport, "address" | "onStatus">,
  clock: Clock,
  log: Log,
): void {
  const { address: broker } = transport;
  let lostMs: number | undefined;
  transport.onStatus((status) => {
    if (status === "lost") {
      lostMs = clock.now();
      log.write("warn", "lost the broker, dialling it again", { actor: "transport", broker });
    } else if (status === "connected" && lostMs !== undefined) {
      const ms = Math.round(clock.now() - lostMs);
      log.write("info", "the broker is back", { actor: "transport", broker, ms });
    }
  });
}

/** How long a transport that is connected now has been so; 0 while it is not. */
export function connectedFor(transport: Transport, clock: Clock): () => number {
  let sinceMs: number | undefined = clock.now();
  transport.onStatus((status) => {
    sinceMs = status === "connected" ? clock.now() : undefined;
  });
  return () => (sinceMs === undefined ? 0 : clock.now() - sinceMs);
}
