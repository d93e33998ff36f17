// Checks whether a cluster already has a leader. Two leaders on one broker would have separate
// queues, and each request would reach an arbitrary one.

import { ClusterServedError, TrainingError } from "../../src/errors/errors.ts";
import { encodeBody } from "../../src/wire/messages/body.ts";
import { jobsSubject } from "../../src/wire/messages/subjects.ts";
import type { Network } from "../runtime/mailbox.ts";

/** Longest wait for the answer of another leader. */
const answerMs = 1000;

/** Whether a leader answers for the cluster. */
export async function isServed({
  transport,
  cluster,
}: Pick<Network, "transport" | "cluster">): Promise<boolean> {
  const { payload, headers } = encodeBody({ most: 1 }, "application/json");
  try {
    const subject = jobsSubject(cluster, "list");
    await transport.request(subject, payload, { headers, deadlineMs: answerMs });
    return true;
  } catch (error) {
    if (error instanceof TrainingError) return false; // No leader, or no permission to send it requests.
    throw error;
  }
}

/** Refuses to start beside another leader. @throws ClusterServedError */
export async function refuseSecondLeader(network: Network): Promise<void> {
  const { cluster, transport } = network;
  if (await isServed(network)) throw new ClusterServedError(cluster, transport.address);
}
