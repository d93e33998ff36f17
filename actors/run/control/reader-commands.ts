// Carries a user's requests to the readers of a run while its generation trains: the rate limit, to
// all of them, and drain requests, to single readers (../state/reader-requests.ts).
//
//   limit     reader.rate to every reader      reader.limited of all    run.limited
//   drain     reader.drain to one              reader.drained           run.drained
//
// A message is repeated until it is answered, or until the generation ends: the next generation
// then starts with the limit and takes up the pending requests.

import { fromCallback } from "xstate";
import type { JobSpec } from "../../../src/job/job.ts";
import type { HostShare } from "../../host/membership.ts";
import {
  type ActorMessage,
  type Address,
  type Mailbox,
  type Network,
  type RunScope,
  request,
} from "../../runtime/mailbox.ts";
import type { DrainedThread, ReaderRequest } from "../state/reader-requests.ts";
import type { RunRecord } from "../state/run-record.ts";

export interface ReaderCommandsInput {
  readonly network: Network;
  readonly mailbox: Mailbox;
  readonly scope: RunScope;
  readonly job: JobSpec;
  readonly hosts: readonly HostShare[];
  readonly record: RunRecord;
  readonly seenStep: number;
  /** The limit with which the readers of the generation started. */
  readonly readerLimit: number;
}

/** Runs while the generation trains. */
export const commandingReaders = fromCallback<{ type: string }, ReaderCommandsInput>(
  ({ input }) => {
    const { record, hosts, job } = input;
    const readers = hosts.length * job.readers;
    const taken = new Set<ReaderRequest>();
    const end = new AbortController();
    let pacing = new AbortController();
    let [limit, command] = [input.readerLimit, 0];
    const recheck = () => {
      if (record.readers.limit !== limit) {
        limit = record.readers.limit;
        pacing.abort(); // A newer limit replaces one that is still being sent.
        pacing = new AbortController();
        void setLimit(input, readers, { limit, command: ++command, signal: pacing.signal });
      }
      for (const request of record.readers.requests) {
        if (taken.has(request)) continue;
        taken.add(request);
        void carryOut(input, readers, { drain: request, command: ++command, signal: end.signal });
      }
    };
    const stop = record.onRequest(recheck);
    recheck();
    return () => {
      stop();
      pacing.abort();
      end.abort();
    };
  },
);

async function setLimit(
  { network, mailbox, record, scope }: ReaderCommandsInput,
  readers: number,
  { limit, command, signal }: { limit: number; command: number; signal: AbortSignal },
): Promise<void> {
  const answers = request({
    network,
    mailbox,
    to: Array.from({ length: readers }, (_, index) => readerAt(index)),
    type: "reader.rate",
    body: { command, samplesPerSecond: limit },
    answer: (message) =>
      message.type === "reader.limited" && message.body.command === command
        ? { from: message.body.reader, answer: true }
        : undefined,
    deadlineMs: Number.POSITIVE_INFINITY, // The heartbeat watch ends the generation of a lost host.
    signal,
  });
  if ((await unlessOver(answers)) === undefined) return;
  const { step = 0 } = record.progress ?? {};
  record.append(scope.generation, { type: "run.limited", samplesPerSecond: limit, step });
}

async function carryOut(
  { network, mailbox, record, scope }: ReaderCommandsInput,
  readers: number,
  { drain, command, signal }: { drain: ReaderRequest; command: number; signal: AbortSignal },
): Promise<void> {
  const { reader } = drain;
  if (reader >= readers) return record.readers.answer(drain, { kind: "missing" });
  const answers = request({
    network,
    mailbox,
    to: [readerAt(reader)],
    type: "reader.drain",
    body: { command },
    answer: (message) => answerIn(message, command),
    deadlineMs: Number.POSITIVE_INFINITY, // The client and the heartbeat watch have one.
    signal,
  });
  const answer = (await unlessOver(answers))?.[0];
  if (answer === undefined) return;
  const { isForced, position } = answer;
  record.append(scope.generation, { type: "run.drained", reader, isForced, step: position.step });
  record.readers.answer(drain, answer);
}

function answerIn(
  { type, body }: ActorMessage,
  command: number,
): { readonly from: 0; readonly answer: DrainedThread } | undefined {
  if (type !== "reader.drained" || body.command !== command) return undefined;
  const { isForced, position } = body;
  return { from: 0, answer: { kind: "drained", isForced, position } };
}

/** The answers; undefined where the generation or the connection has ended. */
async function unlessOver<Answer>(answers: Promise<Answer[]>): Promise<Answer[] | undefined> {
  try {
    return await answers;
  } catch {
    return undefined;
  }
}

function readerAt(index: number): Address {
  return { role: "reader", index };
}
