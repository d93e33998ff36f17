// What a job supervisor decides when an actor of its run fails: whether the run begins again, after
// which delay, and from which checkpoint. One-for-all: a failure of one coordinator ends both (J1
// of job-supervisor.ts); restart-policy.ts has the limits. The record of the run is told
// the failure and the decision.

import {
  type ErrorRecord,
  LeadershipLostError,
  PeerLostError,
  RemoteError,
  recordError,
} from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { Membership } from "../host/membership.ts";
import type { RunRecord } from "../run-state/run-record.ts";
import { type ActorFailedError, failureOf } from "../runtime/incident.ts";
import type { Network } from "../runtime/mailbox.ts";
import { type Decision, decide, type RestartHistory } from "../runtime/restart-policy.ts";
import { backoff } from "../runtime/supervisor.ts";
import type { Claimed } from "./claim-generation.ts";

/** The run as its supervisor knows it when an actor fails. */
export interface FailingRun {
  readonly network: Network;
  readonly job: JobSpec;
  readonly record: RunRecord;
  readonly membership: Membership;
  /** The generation that has failed; undefined: the first one was not claimed yet. */
  readonly claimed: Claimed | undefined;
  readonly history: RestartHistory;
  /** Hashes of the manifests of checkpoints that could not be restored (J5). */
  readonly passedOver: readonly string[];
}

/** What changes for the supervisor: the run begins again, or is given up with a failure. */
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

/** Who is named when a promise of the supervisor fails: no actor answers for it. */
const offenders: Readonly<Record<string, string>> = {
  gathering: "membership",
  claiming: "checkpoint store",
};

/** `actorId` failed with `error`: tells the run's record, and decides. */
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
  tellDecision(run, decision, failure);
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

/** The decision, in the incident and in the log. */
function tellDecision(
  { network, record, claimed }: FailingRun,
  decision: Decision,
  failure: ActorFailedError,
): void {
  const generation = claimed?.generation ?? 0;
  const supervisor = supervisorOf(record);
  const act = (did: string) => record.incidents.act(supervisor, did, network.clock.date());
  if (generation > 0) act(`ended generation ${generation}, of all hosts`);
  const did = decision.escalate ? "gave the run up" : `begins again after ${decision.delayMs} ms`;
  act(did);
  const about = { run: record.run, actor: supervisor, ...(generation > 0 && { generation }) };
  network.log.write("warn", `${did}: ${failure.message}`, about);
}

/**
 * The error, marked as one that a restart mends where it is: a damaged checkpoint is passed over
 * (J5), while other damage in its directory is not; and under a lease a generation that a former
 * leader has claimed is followed by another (J7).
 */
function mendable(network: Network, error: ErrorRecord, actorId: string): ErrorRecord {
  const isDamaged = error.code === "CHECKPOINT_CORRUPT" && actorId !== "claiming";
  const isMendable = isDamaged || (error.code === "GENERATION_FENCED" && isLeading(network));
  return isMendable ? { ...error, recovery: "restore" } : error;
}

/** Whether there is a lease, and this process has it. */
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
 * Hashes of manifests to pass over after a failure (J5). The checkpoint coordinator reads parts
 * that it has written; every other actor reads parts that it restores.
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
