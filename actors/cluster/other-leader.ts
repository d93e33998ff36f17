// Whether another leader answers for a cluster: of two over one broker, each has a queue of its
// own, and every request comes to one of them, whichever.

import { ClusterServedError, TrainingError } from "../../src/errors/errors.ts";
import { encodeBody } from "../../src/wire/messages/body.ts";
import { jobsSubject } from "../../src/wire/messages/subjects.ts";
import type { Network } from "../runtime/mailbox.ts";

/** Longest that another leader of the cluster may take to answer. */
const answerMs = 1000;

/** Asks the leader that serves the cluster. */
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
    if (error instanceof TrainingError) return false; // Nobody, or none whom we may ask.
    throw error;
  }
}

/** @throws ClusterServedError */
export async function refuseSecondLeader(network: Network): Promise<void> {
  const { cluster, transport } = network;
  if (await isServed(network)) throw new ClusterServedError(cluster, transport.address);
}
