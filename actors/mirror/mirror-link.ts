// Whether and how a leader copies its runs into JetStream: its options, and its connection there.

import { z } from "zod";
import type { NatsMirror } from "../../src/wire/jetstream/nats-mirror.ts";
import type { Tenants } from "../../src/wire/tenancy/tenants.ts";
import { eventsMax } from "../run/state/run-record.ts";
import type { Network } from "../runtime/mailbox.ts";

export const jetstreamOptions = z.strictObject({
  /** Days for which a stream keeps events; 0: there are no streams. @default 30 */
  eventsDays: z.number().min(0).max(3650).default(30),
  /** Bytes of each stream: the operator's and each tenant's. @default 256 MiB */
  eventsBytes: z
    .int()
    .min(2 ** 20)
    .default(2 ** 28),
  /**
   * The copy of the queue. A leader that finds its own empty takes up the jobs that are there
   * (`restore`), or only tells of them (`tell`); `off`: there is none. @default "restore"
   */
  queue: z.enum(["restore", "tell", "off"]).default("restore"),
  /** Servers of a clustered JetStream that have each copy; of what is made anew. @default 1 */
  replicas: z.int().min(1).max(5).default(1),
});

/** The other end, and what goes there. */
export interface MirrorLink {
  readonly nats: NatsMirror;
  readonly hasStreams: boolean;
  readonly queue: "restore" | "tell" | "off";
  /** Their users have consumers of their own. */
  readonly tenants: Tenants;
}

/** Longest waits: for the server to be there, and for one answer. */
const connectMs = 10_000;
const answerMs = 2000;

/** Undefined: nothing is wanted, the server has no JetStream, or it does not let us in. */
export async function openMirrorLink(
  { connection, cluster, clock, log }: Network,
  options: z.output<typeof jetstreamOptions>,
  tenants: Tenants,
): Promise<MirrorLink | undefined> {
  const { eventsDays: days, eventsBytes: bytes, queue, replicas } = options;
  const hasStreams = days > 0;
  if (!hasStreams && queue === "off") return undefined;
  try {
    // A cluster with its own broker needs no client of JetStream.
    const { openNatsMirror } = await import("../../src/wire/jetstream/nats-mirror.ts");
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
    log.write("warn", `No copies of runs are kept in JetStream: ${reason}`, { actor: "mirror:0" });
    return undefined;
  }
}
