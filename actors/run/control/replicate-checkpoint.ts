// Checkpoint replication: in a run with several hosts, each keeps a replica of another host's parts
// of the newest checkpoint in memory (storage/checkpoints/replicas/replica-cache.ts), so that a
// restore need not read the store. Replicas only save time: no commit waits for them, and the store
// is read where one is missing.
//
// Sends   buddy.keep to the bridges of all hosts, answered by buddy.kept

import { fromPromise } from "xstate";
import type { JobSpec } from "../../../src/job/job.ts";
import type { Manifest } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import type { HostShare } from "../../host/membership.ts";
import { type Mailbox, type Network, type RunScope, request } from "../../runtime/mailbox.ts";
import type { RunRecord } from "../state/run-record.ts";

export interface ReplicationInput {
  readonly network: Network;
  readonly mailbox: Mailbox;
  readonly scope: RunScope;
  readonly job: JobSpec;
  readonly hosts: readonly HostShare[];
  readonly record: RunRecord;
  /** The newest checkpoint; undefined: there is none. */
  readonly latest: Manifest | undefined;
}

/** Deadline for the replicas, in step deadlines. */
const replicatedDeadlines = 10;

/** Publishes run.buddies once all hosts have their replicas. */
export const copying = fromPromise<void, ReplicationInput>(async ({ input, signal }) => {
  const { network, mailbox, hosts, latest, job, scope, record } = input;
  if (latest === undefined) return;
  const { sha256, cut } = latest;
  const answers = await request({
    network,
    mailbox,
    to: hosts.map(({ host }) => ({ role: "bridge", index: host })),
    type: "buddy.keep",
    body: { manifest: JSON.stringify(latest) },
    answer: (message) => {
      if (message.type !== "buddy.kept" || message.body.manifest !== sha256) return undefined;
      const from = hosts.findIndex(({ host }) => host === message.body.host);
      return from < 0 ? undefined : { from, answer: message.body };
    },
    deadlineMs: replicatedDeadlines * job.stepDeadlineMs,
    signal,
  });
  const sum = (of: (answer: (typeof answers)[number]) => number) =>
    answers.reduce((total, one) => total + of(one), 0);
  const missing = sum((one) => one.missing);
  const bytes = sum((one) => one.bytes);
  record.append(scope.generation, { type: "run.buddies", step: cut, missing, bytes });
});
