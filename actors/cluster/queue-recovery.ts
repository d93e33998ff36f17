// Queue recovery: a leader that lost its disk starts with an empty queue, and restores the jobs
// from the mirror in JetStream.
//
// Invariants
//   Z1. A non-empty journal is the queue: the mirror is read only if the journal is empty.
//   Z2. All restored jobs are written to the journal at once, before any request is answered: a job
//       is restored once.
//   Z3. A run that had made a checkpoint resumes from it or is left alone: it does not start over.

import { TrainingError } from "../../src/errors/errors.ts";
import type { NatsMirror } from "../../src/wire/jetstream/nats-mirror.ts";
import { streamSubject } from "../../src/wire/messages/subjects.ts";
import { listCheckpoints } from "../../storage/checkpoints/list-checkpoints.ts";
import type { JournalEntry } from "../../storage/cluster/run-journal.ts";
import { isOverAt } from "../jobs/job-api.ts";
import type { MirrorLink } from "../jobs/mirror/mirror-link.ts";
import { decodeEntry, type QueueEntry } from "../jobs/mirror/queue-entry.ts";
import type { RunEvent } from "../run/state/run-events.ts";
import type { Network } from "../runtime/mailbox.ts";
import { isServed } from "./election.ts";

/**
 * The journal entries of the runs that were waiting or running, in their order. Logs which runs
 * were found, and what became of them. Restores nothing while another leader answers.
 */
export async function lostQueue(
  { nats, queue }: MirrorLink,
  network: Network,
): Promise<JournalEntry<RunEvent>[]> {
  if (queue === "off") return [];
  const log = (message: string, runs: readonly QueueEntry[]) => {
    const named = runs.map(({ run, name, step }) => `${run} (${name}, step ${step})`).join(", ");
    network.log.write("warn", `${message}: ${named}`, { actor: "mirror:0" });
  };
  try {
    const found = [...(await nats.queued()).values()].flatMap(({ value }) => {
      return decodeEntry(value) ?? [];
    });
    const open = found.filter(({ status }) => !isOverAt(status)).sort((a, b) => a.order - b.order);
    if (open.length === 0) return [];
    if (queue === "log") {
      log("JetStream has a copy of the queue, which this leader does not restore", open);
      return [];
    }
    if (await isServed(network)) {
      log("JetStream has the queue of another leader, which answers; no job is restored", open);
      return [];
    }
    const whole = open.filter((entry) => hasItsCheckpoint(entry, network));
    const cut = open.filter((entry) => !whole.includes(entry));
    if (cut.length > 0)
      log(
        "Jobs in JetStream have lost their checkpoints and are not restored; submit them again",
        cut,
      );
    if (whole.length > 0) log("The queue was lost; its jobs are restored from JetStream", whole);
    const runs = await Promise.all(whole.map((entry) => entriesOf(nats, network, entry)));
    return runs.flat();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message =
      "The copy of the queue in JetStream cannot be read, so the leader starts with an empty " +
      `queue: ${reason}`;
    network.log.write("warn", message, { actor: "mirror:0" });
    return [];
  }
}

/** Whether the checkpoint of a run that had one is still there. Z3 */
function hasItsCheckpoint({ step, job }: QueueEntry, { disk }: Network): boolean {
  if (step === 0) return true;
  try {
    const { directory } = (job as { checkpoint: { directory: string } }).checkpoint;
    return listCheckpoints(directory, { disk }).checkpoints.length > 0;
  } catch (error) {
    if (error instanceof TrainingError) return false;
    throw error;
  }
}

/** The journal entries of a run. Event numbers continue after the last published event. */
async function entriesOf(
  nats: NatsMirror,
  { cluster }: Network,
  { run, job, name, key, tenant, requests }: QueueEntry,
): Promise<JournalEntry<RunEvent>[]> {
  // The stream may not exist.
  const last = await nats.last(tenant, streamSubject(cluster, run, tenant)).catch(() => undefined);
  const published = last && (JSON.parse(new TextDecoder().decode(last.payload)) as RunEvent);
  const seq = published === undefined ? 0 : published.seq + 1;
  const event: RunEvent = { type: "run.queued", name, seq, run, generation: 0 };
  return [
    { kind: "run", run, job, key, tenant },
    ...requests.map((request) => ({ kind: "request", run, ...request }) as JournalEntry<RunEvent>),
    { kind: "event", run, event },
  ];
}
