// Opens the network of a process: its broker connection, and the services that its actors share.

import { hostname } from "node:os";
import { FrameCorruptError } from "../../src/errors/errors.ts";
import type { HostLinks } from "../../src/exchange/links/link-options.ts";
import { type Clock, realClock } from "../../src/ports/clock.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { type Log, silentLog } from "../../src/ports/log.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import { connectNats } from "../../src/wire/transports/nats-transport.ts";
import { pacedTransport } from "../../src/wire/transports/paced-transport.ts";
import type { Connection, Network } from "./mailbox.ts";
import { WaitBook } from "./wait-graph.ts";

/** Default deadline of a connection. */
const connectMs = 10_000;

/** Clock, disk, memory and measured links of a process; a test or a simulation replaces them. */
export interface World extends Pick<Network, "links"> {
  /** @default the machine's own */
  readonly clock?: Clock | undefined;
  /** The disk of checkpoints. @default the machine's own */
  readonly disk?: Disk | undefined;
  /** Memory limit in bytes. @default those of the machine, or of its container */
  readonly memoryBytes?: number | undefined;
}

/**
 * Connects to the broker. The caller closes the transport of the network.
 * @throws TransportLostError
 */
export async function openNetwork(options: {
  readonly connection: Connection;
  readonly cluster: string;
  readonly faultsAllowed: boolean;
  readonly world?: World | undefined;
  readonly hostLinks?: HostLinks | undefined;
  /** @default silent */
  readonly log?: Log | undefined;
  /** @default nothing is traced */
  readonly tracedEvery?: number | undefined;
  /** Called with errors of the broker, and with corrupt frames. */
  readonly onError: (offender: "transport" | "wire", error: unknown) => void;
}): Promise<Network> {
  const { connection, cluster, faultsAllowed, log = silentLog, tracedEvery, onError } = options;
  const { hostLinks } = options;
  const { clock = realClock, disk = realDisk, memoryBytes, links } = options.world ?? {};
  const refused = { frames: 0 };
  const onCorrupt = (error: Error) => {
    refused.frames++;
    onError("wire", error);
  };
  const onFailed = (error: unknown) => {
    if (error instanceof FrameCorruptError) onCorrupt(error);
    else onError("transport", error);
  };
  const dialled = await dial(connection, `osiris-${cluster}`, onFailed);
  const transport = pacedTransport(dialled, { clock, onError: onFailed });
  logBrokerStatus(transport, clock, log);
  return {
    transport,
    connection,
    cluster,
    clock,
    disk,
    log,
    memoryBytes,
    links,
    hostLinks,
    tracedEvery,
    createdBy: `osiris on ${hostname()}, process ${process.pid}`,
    faultsAllowed,
    connectedForMs: connectedFor(transport, clock),
    waits: new WaitBook(clock),
    refused,
    onCorrupt,
  };
}

/**
 * Opens a separate connection, as each thread needs one. Its name ends in the process id, so that
 * the broker's list of connections, and a test that cuts one, can identify the process.
 * @throws TransportLostError
 */
export function dial(
  connection: Connection,
  name: string,
  onError: (error: unknown) => void,
): Promise<Transport> {
  const own = `${name}-${process.pid}`;
  const { deadlineMs = connectMs } = connection;
  return connectNats({ ...connection, name: own, deadlineMs, onError });
}

/** Logs when the broker connection is lost and when it is back. */
export function logBrokerStatus(
  transport: Pick<Transport, "address" | "onStatus">,
  clock: Clock,
  log: Log,
): void {
  const { address: broker } = transport;
  let lostMs: number | undefined;
  transport.onStatus((status) => {
    if (status === "lost") {
      lostMs = clock.now();
      log.write("warn", "the connection to the broker was lost; reconnecting", {
        actor: "transport",
        broker,
      });
    } else if (status === "connected" && lostMs !== undefined) {
      const ms = Math.round(clock.now() - lostMs);
      log.write("info", "the connection to the broker is restored", {
        actor: "transport",
        broker,
        ms,
      });
    }
  });
}

/** How long the transport has been connected; 0 while it is not. */
export function connectedFor(transport: Transport, clock: Clock): () => number {
  let sinceMs: number | undefined = clock.now();
  transport.onStatus((status) => {
    sinceMs = status === "connected" ? clock.now() : undefined;
  });
  return () => (sinceMs === undefined ? 0 : clock.now() - sinceMs);
}
