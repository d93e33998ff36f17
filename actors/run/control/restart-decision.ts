// Restart decision of a job supervisor when an actor of its run fails: whether the run restarts,
// after which delay, and from which checkpoint. One-for-all: a failure of one coordinator ends both
// (J1 of job-supervisor.ts); restart-policy.ts has the limits. The failure and the decision are
// added to the run's record.

import { fromCallback } from "xstate";
import {
  type ErrorRecord,
  LeadershipLostError,
  PeerLostError,
  RemoteError,
  recordError,
} from "../../../src/errors/errors.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import type { Membership } from "../../host/membership.ts";
import { type ActorFailedError, failureOf } from "../../runtime/incident.ts";
import { type Network, subscribe } from "../../runtime/mailbox.ts";
import { type Decision, decide, type RestartHistory } from "../../runtime/restart-policy.ts";
import { backoff } from "../../runtime/supervisor.ts";
import type { RunRecord } from "../state/run-record.ts";
import type { Claimed } from "./claim-generation.ts";

/** State of the run when an actor fails. */
export interface FailingRun {
  readonly network: Network;
  readonly job: JobSpec;
  readonly record: RunRecord;
  readonly membership: Membership;
  /** The generation that failed; undefined before the first claim. */
  readonly claimed: Claimed | undefined;
  readonly history: RestartHistory;
  /** Hashes of the manifests of checkpoints that could not be restored (J5). */
  readonly passedOver: readonly string[];
}

/** Changes of the supervisor's context: the run restarts, or fails with `failure`. */
export type AfterFailure =
  | {
      readonly offender: string;
      readonly history: RestartHistory;
      readonly delayMs: number;
      readonly failedAtMs: number;
      readonly passedOver: readonly string[];
    }
  | { readonly failure: Error };

const coordinators = [
  { id: "checkpoint", restart: "permanent" },
  { id: "training", restart: "transient" },
] as const;

/** Offender to name when a promise of the supervisor fails: no actor runs the promise. */
const offenders: Readonly<Record<string, string>> = {
  gathering: "membership",
  claiming: "checkpoint store",
};

/** Records the failure of `actorId` with `error`, and decides. */
export function afterFailure(run: FailingRun, error: unknown, actorId: string): AfterFailure {
  const { network, job, record, membership, claimed, history } = run;
  const lost = error instanceof PeerLostError ? error.actor : undefined;
  if (lost?.startsWith("host:")) membership.doubt(Number(lost.slice("host:".length)));
  const supervisor = supervisorOf(record);
  const failure = failureOf(error, {
    offender: lost ?? offenders[actorId] ?? actorId,
    supervisor,
    context: `generation ${claimed?.generation ?? 0}`,
  });
  record.fail(claimed?.generation ?? 0, failure.incident, network.clock.date());
  const end = {
    child: "training",
    atMs: network.clock.now(),
    reason: "error" as const,
    error: mendable(network, recordError(failure), actorId),
  };
  const intensity = job.restarts;
  const children = coordinators;
  const policy = { supervisor, strategy: "one-for-all" as const, children, intensity, backoff };
  const decision = decide(policy, history, end); // J1
  recordDecision(run, decision, failure);
  if (decision.escalate) {
    const isLimit = decision.cause.code === "RESTART_LIMIT";
    return { failure: isLimit ? new RemoteError(decision.cause) : failure };
  }
  return {
    offender: failure.incident.offender,
    history: decision.history,
    delayMs: decision.delayMs,
    failedAtMs: end.atMs,
    passedOver: passedOverAfter(run, failure),
  };
}

/** Records the decision in the incident and in the log. */
function recordDecision(
  { network, record, claimed }: FailingRun,
  decision: Decision,
  failure: ActorFailedError,
): void {
  const generation = claimed?.generation ?? 0;
  const supervisor = supervisorOf(record);
  const act = (did: string) => record.incidents.act(supervisor, did, network.clock.date());
  if (generation > 0) act(`ended generation ${generation} on all hosts`);
  const did = decision.escalate
    ? "ended the run as failed"
    : `restarts the run after ${decision.delayMs} ms`;
  act(did);
  const about = { run: record.run, actor: supervisor, ...(generation > 0 && { generation }) };
  network.log.write("warn", `${did}: ${failure.message}`, about);
}

/**
 * Marks an error as recoverable where a restart repairs it: a damaged checkpoint is skipped (J5),
 * while damage found when claiming is other damage in the directory, which no restart repairs; and
 * under a lease, a generation claimed by a former leader is followed by the next (J7).
 */
function mendable(network: Network, error: ErrorRecord, actorId: string): ErrorRecord {
  const isDamaged = error.code === "CHECKPOINT_CORRUPT" && actorId !== "claiming";
  const isMendable = isDamaged || (error.code === "GENERATION_FENCED" && isLeading(network));
  return isMendable ? { ...error, recovery: "restore" } : error;
}

/** Whether there is a lease and this process holds it. */
function isLeading({ assertLeading }: Network): boolean {
  try {
    assertLeading?.();
    return assertLeading !== undefined;
  } catch (error) {
    if (error instanceof LeadershipLostError) return false;
    throw error;
  }
}

/**
 * Hashes of manifests to skip after a failure (J5). Damage that the checkpoint coordinator finds is
 * in parts just written; damage that any other actor finds is in the restored checkpoint, which is
 * added.
 */
function passedOverAfter(
  { claimed, passedOver }: FailingRun,
  { code, incident }: ActorFailedError,
): readonly string[] {
  const { latest } = claimed ?? {};
  const isItsOwn = incident.offender === "checkpoint";
  if (code !== "CHECKPOINT_CORRUPT" || isItsOwn || latest === undefined) return passedOver;
  return [...passedOver, latest.sha256];
}

function supervisorOf({ run }: RunRecord): string {
  return `job:${run}`;
}

// Secondary failures: actors fail because their generation has ended. Their hosts report to the
// training coordinator, which has stopped by then; the job supervisor receives the messages instead
// and records them in the incident that ended the generation (I1 of incident-log.ts).

/** Receives host.failed of the last generation while it is invoked. */
export const receivingSecondaryFailures = fromCallback<
  { type: string },
  {
    readonly network: Network;
    readonly record: RunRecord;
    readonly claimed: { readonly generation: number } | undefined;
  }
>(({ input }) => {
  const { network, record, claimed } = input;
  if (claimed === undefined || record.incidents.open.length === 0) return;
  const { generation } = claimed;
  const address = { run: record.run, generation, role: "coordinator" as const, index: 0 };
  const subscription = subscribe(network, address, (message) => {
    if (message.type !== "host.failed") return;
    const { actor: offender, context, error: reason, host } = message.body;
    const incident = { offender, supervisor: `host:${host}`, context, reason };
    record.incidents.follow(generation, incident, network.clock.date());
  });
  return () => subscription.unsubscribe();
});
