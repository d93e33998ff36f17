// Failures of a generation, as its training coordinator detects them: a host reports a failure, a
// host leaves the cluster, or no step completes. Each becomes one error that names the actor to
// blame (law 7); the job supervisor decides what follows (restart-decision.ts).

import {
  PeerLostError,
  RemoteError,
  recordError,
  StepTimeoutError,
} from "../../../src/errors/errors.ts";
import { deadlinesOf } from "../../../src/ports/deadlines.ts";
import { devicesOf } from "../../host/membership.ts";
import { ActorFailedError, type Incident } from "../../runtime/incident.ts";
import type { MessageEvent } from "../../runtime/mailbox.ts";
import { unresponsiveIn, type Wait } from "../../runtime/wait-graph.ts";
import type { TrainingCoordinatorContext } from "./coordinator-context.ts";

/** Name of the coordinator in the wait graph. */
export const coordinatorName = "coordinator:0";

/**
 * The incident of a failure that a host reported. An actor that lost another actor, or waited for
 * it in vain, only noticed the failure: the offender is the actor that does not answer.
 */
export function incidentOf(
  context: TrainingCoordinatorContext,
  failed: MessageEvent<"host.failed">["body"],
): Incident {
  const { host, actor, context: doing, error, step } = failed;
  const waits = waitsOf({ ...context, waits: new Map([...context.waits, [host, failed.waits]]) });
  const isWaiting = error.code === "STEP_TIMEOUT";
  const offender =
    error.actor ?? (isWaiting ? unresponsiveIn(waits, actor)[0] : undefined) ?? actor;
  const where = { offender, supervisor: `host:${host}`, context: doing, reason: error, step };
  return { ...where, ...(offender === actor ? { host } : { noticedBy: actor }), waits };
}

/** The waits of all threads and actors of the generation. */
export function waitsOf({ waits, network, scope }: TrainingCoordinatorContext): Wait[] {
  return [...[...waits.values()].flat(), ...network.waits.waits(scope.run)];
}

type Failure =
  | MessageEvent<"host.failed">
  | { readonly type: "host.gone"; readonly host: number }
  | { readonly type: string; readonly error: unknown };

/** Ends a generation: a host reported a failure, or left the cluster, or an actor failed. */
export function failBy(context: TrainingCoordinatorContext, event: Failure): never {
  if ("error" in event) throw event.error;
  if ("host" in event) {
    const reason = "the host is no longer a member of the cluster";
    throw new PeerLostError(`host:${event.host}`, reason);
  }
  const incident = incidentOf(context, event.body);
  throw new ActorFailedError(incident, { cause: new RemoteError(incident.reason) });
}

/** The error of a generation that completed no step for twice its deadline. */
export function stallOf(context: TrainingCoordinatorContext): Error {
  const { hosts, seenStep, job, scope } = context;
  const waits = waitsOf(context);
  const unresponsive = unresponsiveIn(waits, coordinatorName);
  const names =
    unresponsive.length > 0 ? unresponsive : hosts.map(({ host }) => `the devices of host:${host}`);
  const wait = `a step after step ${seenStep} of ${names.join(", ")}`;
  const error = new StepTimeoutError(wait, deadlinesOf(job).stall);
  const [offender] = unresponsive;
  if (offender === undefined) return error;
  return new ActorFailedError(
    {
      ...{ offender, noticedBy: coordinatorName, supervisor: `job:${scope.run}` },
      ...{ context: "training", reason: recordError(error), step: seenStep, waits },
    },
    { cause: error },
  );
}

/** The coordinator's wait for the next step, starting now. */
export function stepWait({ network, scope, hosts, seenStep }: TrainingCoordinatorContext) {
  const awaited = Array.from({ length: devicesOf(hosts) }, (_, rank) => `device:${rank}`);
  const what = `a step after step ${seenStep}`;
  return {
    network,
    run: scope.run,
    waiter: coordinatorName,
    awaited,
    what,
    sinceMs: network.clock.now(),
  };
}

/** Throws, which ends the coordinator and with it the generation. */
export function raise(failure: unknown): never {
  throw failure;
}
