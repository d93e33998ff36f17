// The program of a bridge's thread: carries the exchange between this host and the others of its
// generation, over a connection of its own, and copies of checkpoints, until the generation ends.

import { GenerationAbortedError, PeerLostError } from "../../src/errors/errors.ts";
import { createBridge } from "../../src/exchange/bridge.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import type { PartCopy } from "../../storage/replicas/replica-cache.ts";
import type { Connection } from "../runtime/mailbox.ts";
import {
  type Assembly,
  abort,
  derive,
  type GenerationMemory,
  hasBuddies,
} from "./generation-spec.ts";
import { type CopyCommand, type CopyReport, runCopying } from "./replica-service.ts";

export type BridgeReport = { readonly type: "ready" } | CopyReport;

/** What a bridge's thread is started with. */
export interface BridgeTask {
  readonly program: "bridge";
  readonly assembly: Assembly;
  readonly memory: GenerationMemory;
  /** Position of this host among those of the generation. */
  readonly index: number;
  readonly cluster: string;
  readonly connection: Connection;
  /** Copies that this host has of the parts of checkpoints. */
  readonly copies: readonly PartCopy[];
}

/** What a bridge's program needs of the world. */
export interface BridgePorts {
  readonly clock: Clock;
  /** Their wait turns the event loop, and has no deadline. */
  readonly cells: Cells;
  /** A connection of its own. */
  dial(connection: Connection, name: string): Promise<Transport>;
  take(): CopyCommand | undefined;
  tell(report: BridgeReport): void;
}

/**
 * Resolves when the generation was aborted on this host.
 * @throws PeerLostError naming the host that is not heard, and what else ends a bridge
 */
export async function runBridge(
  { assembly, memory, index, cluster, connection, copies }: BridgeTask,
  { clock, cells, dial, take, tell }: BridgePorts,
): Promise<void> {
  const { exchangeShape } = derive(assembly);
  const { run, generation } = assembly;
  const transport = await dial(connection, `osiris-${cluster}-bridge`);
  const bridge = createBridge({
    shape: exchangeShape,
    host: index,
    memory: memory.exchange,
    cells,
    transport,
    place: { cluster, run, generation },
    clock,
    deadlineMs: assembly.job.stepDeadlineMs,
    abort: () => abort(assembly, memory),
  });
  void bridge.ready.then(() => tell({ type: "ready" }));
  const place = { assembly, memory, position: index, cluster, transport, clock, cells, copies };
  const copying = hasBuddies(assembly) ? [runCopying({ ...place, take, tell })] : [];
  try {
    await Promise.race([bridge.run(), ...copying]);
  } catch (error) {
    if (error instanceof GenerationAbortedError) return;
    throw error instanceof PeerLostError ? named(error, assembly) : error;
  } finally {
    await transport.close();
  }
}

/** The bridge counts hosts as the generation does; people know them by their index. */
function named(error: PeerLostError, { hosts }: Assembly): PeerLostError {
  const position = Number(error.actor.slice("host:".length));
  const host = hosts[position]?.host ?? position;
  return new PeerLostError(`host:${host}`, error.reason, { cause: error });
}
