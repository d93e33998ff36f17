// Faults of a running cluster, injected from outside: kill a thread once a run has reached a step,
// and make any actor throw. Faults at an exact point of a thread: `plan` of breakable-launcher.ts.

import type { Run } from "../../actors/client/run.ts";
import type { Cluster } from "../../actors/cluster/cluster.ts";
import type { RunEvent } from "../../actors/run/state/run-events.ts";
import {
  clusterScope,
  orderFault,
  type Role,
  type RunScope,
} from "../../actors/runtime/mailbox.ts";
import type { BreakableLauncher } from "./breakable-launcher.ts";

/**
 * Kills the thread of `actor` (`device:1`) once the run has reported `step` or a later step.
 * Resolves to the step at which it was killed; undefined if the run ended before.
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

/** The actor that throws. `scope` is left out for actors of no run: cluster, jobs, queue. */
export interface Target {
  readonly role: Role;
  /** @default 0 */
  readonly index?: number;
  /** The run and its present generation; generation 0 for role `job`. */
  readonly scope?: RunScope;
}

/**
 * Makes an actor throw. Nothing happens where the cluster does not allow faults, or where there is
 * no such actor. Resolves when the broker has received the order.
 */
export async function throwIn(cluster: Cluster, target: Target, reason: string): Promise<void> {
  const { role, index = 0, scope = clusterScope } = target;
  await orderFault(cluster.network, scope, { role, index }, reason);
}
