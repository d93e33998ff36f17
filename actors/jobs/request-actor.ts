// Sends a request to one actor of a run's newest generation over NATS: a shard or a tier, by its
// number. The actor itself answers.

import { RunStateError, StepTimeoutError } from "../../src/errors/errors.ts";
import { expected } from "../../src/ports/check-options.ts";
import { devicesOf } from "../host/membership.ts";
import type { Registry } from "../run/state/registry.ts";
import type { RunRecord } from "../run/state/run-record.ts";
import { type ActorMessage, type Network, openMailbox, request } from "../runtime/mailbox.ts";

/** Longest wait for an answer that takes no work. */
const actorMs = 1000;

/** Number of the last request of this process. */
let lastCommand = 0;

/** A request to an actor. */
export interface ActorQuestion<Answer> {
  readonly record: RunRecord;
  readonly type: "shard.inspect" | "tier.inspect" | "tier.flush";
  readonly index: number;
  /** Extracts the answer from a message; undefined: the message is not the answer. */
  readonly answerIn: (message: ActorMessage, command: number) => Answer | undefined;
  readonly deadlineMs?: number;
}

/**
 * Sends the request, and resolves to the answer. @throws StepTimeoutError if the actor does not
 * answer, RunStateError
 */
export async function requestActor<Answer>(
  network: Network,
  { record, type, index, answerIn, deadlineMs = actorMs }: ActorQuestion<Answer>,
): Promise<Answer> {
  const command = ++lastCommand;
  const { run, status, shards } = record;
  if (status !== "running" || shards === undefined) {
    throw new RunStateError(run, "inspect an actor of", "running on devices", status);
  }
  const role = type === "shard.inspect" ? "shard" : "tier";
  const scope = { run, generation: shards.generation };
  using ended = endOf(record);
  const [answer] = await request({
    network,
    mailbox: openMailbox(network, scope, { role: "inspector", index: 0 }),
    to: [{ role, index }],
    type,
    body: { command },
    answer: (message) => {
      const given = answerIn(message, command);
      return given === undefined ? undefined : { from: 0, answer: given };
    },
    deadlineMs,
    signal: ended.signal,
  });
  if (answer === undefined) throw new StepTimeoutError(`${role}:${index}`, deadlineMs);
  return answer;
}

/** A signal that aborts once the actors of the run's generation are gone and cannot answer. */
function endOf(record: RunRecord): Disposable & { readonly signal: AbortSignal } {
  const ended = new AbortController();
  const forget = record.onEvent((event) => {
    const isFailure = event.type === "run.incident" && event.end === undefined;
    if (!isFailure && event.type !== "run.started" && record.status === "running") return;
    const { run, status } = record;
    const now = isFailure ? "recovering" : status;
    ended.abort(new RunStateError(run, "inspect an actor of", "running without interruption", now));
  });
  return { signal: ended.signal, [Symbol.dispose]: forget };
}

/** Looks up a run of this cluster. @throws InvalidOptionError */
export function runNamed(registry: Registry, run: string): RunRecord {
  const record = registry.get(run);
  if (record === undefined) throw expected("run", "the name of a run of this cluster", run);
  return record;
}

/** Checks that a device has a tier. @throws InvalidOptionError */
export function checkTier({ shards }: RunRecord, device: number): void {
  const devices = devicesOf(shards?.hosts ?? []);
  const hasTier = shards?.shards.some((one) => one.device === device && one.isCached) === true;
  if (hasTier || shards === undefined) return;
  const which = `one of the run's devices, 0 to ${devices - 1}, with rows below its memory`;
  throw expected("device", which, device);
}
