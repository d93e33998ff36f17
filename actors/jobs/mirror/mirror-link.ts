// The mirror's options, and the leader's connection to JetStream.

import { z } from "zod";
import type { NatsMirror } from "../../../src/wire/jetstream/nats-mirror.ts";
import type { Tenants } from "../../../src/wire/tenancy/tenants.ts";
import { eventsMax } from "../../run/state/run-events.ts";
import type { Network } from "../../runtime/mailbox.ts";

export const jetstreamOptions = z.strictObject({
  /** Days for which a stream keeps events; 0: no streams. @default 30 */
  eventsDays: z.number().min(0).max(3650).default(30),
  /** Most bytes of each stream: the operator's and each tenant's. @default 256 MiB */
  eventsBytes: z
    .int()
    .min(2 ** 20)
    .default(2 ** 28),
  /**
   * The copy of the queue. A leader with an empty queue restores the jobs from it (`restore`), or
   * only logs them (`log`); `off`: no copy. @default "restore"
   */
  queue: z.enum(["restore", "log", "off"]).default("restore"),
  /**
   * Replicas of each copy in a clustered JetStream; applies to newly created streams. @default 1
   */
  replicas: z.int().min(1).max(5).default(1),
});

/** The connection to JetStream, and which copies are kept there. */
export interface MirrorLink {
  readonly nats: NatsMirror;
  readonly hasStreams: boolean;
  readonly queue: "restore" | "log" | "off";
  /** The tenants: each of their users gets a consumer. */
  readonly tenants: Tenants;
}

/** Longest waits: for the connection, and for one answer. */
const connectMs = 10_000;
const answerMs = 2000;

/**
 * Connects to JetStream. Undefined: no copies are configured, the server has no JetStream, or it
 * refuses access.
 */
export async function openMirrorLink(
  { connection, cluster, clock, log }: Network,
  options: z.output<typeof jetstreamOptions>,
  tenants: Tenants,
): Promise<MirrorLink | undefined> {
  const { eventsDays: days, eventsBytes: bytes, queue, replicas } = options;
  const hasStreams = days > 0;
  if (!hasStreams && queue === "off") return undefined;
  try {
    // Lazy: a cluster with the embedded broker does not need JetStream's client.
    const { openNatsMirror } = await import("../../../src/wire/jetstream/nats-mirror.ts");
    const nats = await openNatsMirror({
      ...connection,
      name: `osiris-${cluster}-mirror-${process.pid}`,
      deadlineMs: connectMs,
      timeoutMs: answerMs,
      clock,
      cluster,
      limits: { days, bytes, messages: eventsMax, replicas },
    });
    return nats && { nats, hasStreams, queue, tenants };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    log.write("warn", `Runs are not copied to JetStream: ${reason}`, { actor: "mirror:0" });
    return undefined;
  }
}
