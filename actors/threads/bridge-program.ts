// The program of a bridge's thread: until the generation ends, it carries the exchange between this
// host and the other hosts of its generation, over its own connection, and replicas of checkpoints.

import { GenerationAbortedError, PeerLostError } from "../../src/errors/errors.ts";
import { createBridge } from "../../src/exchange/bridge.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import type { LinkPlace } from "../../src/exchange/links/link-options.ts";
import type { LinkNews } from "../../src/exchange/links/negotiation.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Log } from "../../src/ports/log.ts";
import type { LinkReport } from "../../src/wire/messages/fields.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import type { PartReplica } from "../../storage/checkpoints/replicas/replica-cache.ts";
import type { Connection } from "../runtime/mailbox.ts";
import { abort, type Generation, type GenerationMemory } from "./generation-memory.ts";
import { type GenerationSpec, hasBuddies, type SpecHead } from "./generation-spec.ts";
import { bridgeTimeline } from "./host-timelines.ts";
import { LinkBoard } from "./link-board.ts";
import { type ReplicaCommand, type ReplicaReport, runReplicaService } from "./replica-service.ts";
import type { ThreadPorts } from "./thread-ports.ts";

export type BridgeReport =
  | { readonly type: "ready" }
  | { readonly type: "links"; readonly links: LinkReport }
  | ReplicaReport;

/** The task of a bridge's thread. */
export interface BridgeTask {
  readonly program: "bridge";
  readonly spec: SpecHead;
  readonly memory: GenerationMemory;
  /** Index of this host among the hosts of the generation. */
  readonly index: number;
  readonly cluster: string;
  readonly connection: Connection;
  readonly links: LinkPlace;
  /** Replicas of checkpoint parts in the memory of this host. */
  readonly replicas: readonly PartReplica[];
}

/** Interval of the reports of direct links. */
const reportMs = 250;

/** The ports of a bridge's program. */
export interface BridgePorts {
  readonly clock: Clock;
  /** Cells whose wait lets the event loop run and has no deadline. */
  readonly cells: Cells;
  /** Opens the thread's own connection. */
  dial(connection: Connection, name: string): Promise<Transport>;
  directWay: ThreadPorts["directWay"];
  readonly log: Log["write"];
  take(): ReplicaCommand | undefined;
  report(report: BridgeReport): void;
}

/**
 * Resolves when the generation is aborted on this host.
 * @throws PeerLostError naming the unresponsive host; any other error that ends a bridge
 */
export async function runBridge(
  generation: Generation,
  { index, cluster, connection, links, replicas }: Omit<BridgeTask, "program" | "spec" | "memory">,
  { clock, cells, dial, directWay, log, take, report }: BridgePorts,
): Promise<void> {
  const { spec, layout, memory } = generation;
  const transport = await dial(connection, `osiris-${cluster}-bridge`);
  const hosts = spec.hosts.map(({ host }) => host);
  const board = spec.links === undefined ? undefined : new LinkBoard(hosts, log);
  const direct = board && {
    ...(await directWay(links, connection)),
    tell: (news: LinkNews) => board.take(news),
  };
  const bridge = createBridge({
    shape: layout.exchangeShape,
    host: index,
    memory: memory.exchange,
    cells,
    transport,
    place: { cluster, run: spec.run, generation: spec.generation },
    clock,
    deadlineMs: spec.job.stepDeadlineMs,
    abort: () => abort(generation),
    direct,
    flights: memory.flights,
    timeline: bridgeTimeline(generation),
  });
  let cancelReport = () => {};
  const reportLinks = () => {
    const now = board?.report(bridge.traffic);
    if (now !== undefined) report({ type: "links", links: now });
    if (board !== undefined) cancelReport = clock.after(reportMs, reportLinks);
  };
  void bridge.ready.then(() => {
    reportLinks();
    report({ type: "ready" });
  });
  const place = { generation, position: index, cluster, transport, clock, cells, replicas };
  const letGo = (position: number) => bridge.letGo(position);
  const service = { ...place, take, report, letGo };
  const replicating = hasBuddies(spec) ? [runReplicaService(service)] : [];
  try {
    await Promise.race([bridge.run(), ...replicating]);
  } catch (error) {
    if (error instanceof GenerationAbortedError) return;
    board?.report(bridge.traffic); // Logs the links that were lost before.
    throw error instanceof PeerLostError ? named(error, spec) : error;
  } finally {
    cancelReport();
    await transport.close();
  }
}

/** Renames the lost host by its index in the cluster; the bridge knows hosts by position. */
function named(error: PeerLostError, { hosts }: GenerationSpec): PeerLostError {
  const position = Number(error.actor.slice("host:".length));
  const host = hosts[position]?.host ?? position;
  return new PeerLostError(`host:${host}`, error.reason, { cause: error });
}
