// Ways to break a running cluster from outside: end a thread once a run has come so far, and make
// any actor throw. What breaks a thread at an exact point is breakable-launcher.ts's `plan`.

import type { Run } from "../../actors/client/run.ts";
import type { Cluster } from "../../actors/cluster/cluster.ts";
import type { RunEvent } from "../../actors/run-state/run-events.ts";
import { clusterScope, type Role, type RunScope } from "../../actors/runtime/mailbox.ts";
import { orderFault } from "../../actors/runtime/order-fault.ts";
import type { BreakableLauncher } from "./breakable-launcher.ts";

/**
 * Kills the thread of `actor` (`device:1`) as soon as the run has told of `step` or a later step.
 * Resolves with the step at which it was killed; undefined where the run was over before.
 */
export async function killAt(
  run: Run,
  actor: string,
  at: { readonly step: number; readonly threads: Pick<BreakableLauncher, "kill"> },
): Promise<number | undefined> {
  for await (const event of run.events()) {
    const step = stepOf(event);
    if (step !== undefined && step >= at.step && at.threads.kill(actor)) return step;
  }
  return undefined;
}

function stepOf(event: RunEvent): number | undefined {
  if (event.type === "run.started") return event.fromStep;
  const tells = ["run.progress", "run.checkpointed", "run.evaluated"];
  return "step" in event && tells.includes(event.type) ? event.step : undefined;
}

/** An actor to break. `run` is left out for actors of no run: cluster, jobs, queue. */
export interface Target {
  readonly role: Role;
  /** @default 0 */
  readonly index?: number;
  /** The run and its present generation; generation 0 for role `job`. */
  readonly scope?: RunScope;
}

/**
 * Makes an actor throw. Nothing happens where the cluster does not allow faults, or the actor is
 * not there. Resolves when the broker has the order.
 */
export async function throwIn(cluster: Cluster, target: Target, reason: string): Promise<void> {
  const { role, index = 0, scope = clusterScope } = target;
  await orderFault(cluster.network, scope, { role, index }, reason);
}
