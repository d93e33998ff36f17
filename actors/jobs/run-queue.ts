// Run queue: allocates the cluster's devices to runs (run-allocation.ts), as many at once as fit,
// in the order of queue-order.ts.
//
//   serving ──a run waits, or devices are free──▶ serving     allocations start; others make room
//
// Invariants
//   Q1. An interrupted run (this actor, or one above it, was restarted) comes before others.
//   Q2. A waiting run that is cancelled or paused never starts, and its record says so.
//   Q3. The runs of a tenant never have more devices than its quota, also when they grow.
//   Q4. A run starts only if its paths are still allowed: links may have changed since submission.
//   Q5. A run that has twice crashed its leader's process before its first step is not started
//       again.

import { type DoneActorEvent, enqueueActions, fromCallback, setup } from "xstate";
import { RunCancelledError, RunSetAsideError, recordError } from "../../src/errors/errors.ts";
import type { Membership } from "../host/membership.ts";
import { devicesMax } from "../run/control/scaling.ts";
import type { Registry } from "../run/state/registry.ts";
import type { RunRecord } from "../run/state/run-record.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { clusterScope, type Mailbox, type Network, openMailbox } from "../runtime/mailbox.ts";
import { type Access, withinRoots } from "./allowed-paths.ts";
import { nextMove, quotaLeft } from "./queue-order.ts";
import { runAllocationMachine, watchingRegistry } from "./run-allocation.ts";

export interface RunQueueInput {
  readonly network: Network;
  readonly registry: Registry;
  /** Hosts of the cluster. */
  readonly membership: Membership;
  readonly access: Access;
}

export interface RunQueueContext extends RunQueueInput {
  readonly mailbox: Mailbox;
  /** Runs with an allocation. */
  readonly allocations: ReadonlySet<string>;
}

type RunQueueEvent = { readonly type: "queue.changed" } | DoneActorEvent<unknown, string>;

const watchingFree = fromCallback<{ type: string }, { membership: Membership }>(
  ({ input, sendBack }) => input.membership.onFree(() => sendBack({ type: "queue.changed" })),
);

const machine = setup({
  types: {} as { context: RunQueueContext; input: RunQueueInput; events: RunQueueEvent },
  actors: { watchingRegistry, watchingFree, allocation: runAllocationMachine },
  actions: {
    // One `enqueueActions` for everything: the effects of plain actions would only run after it.
    move: enqueueActions(({ context, enqueue }) => {
      const { network, registry, membership, access } = context;
      const allocations = new Set(context.allocations);
      const running = [...allocations].flatMap((run) => registry.get(run) ?? []);
      for (const record of registry.active.stopping())
        if (!allocations.has(record.run)) settle(record);
      for (;;) {
        const waiting = registry.active.inOrder();
        const state = { waiting, running, membership, tenants: access.tenants };
        const { start: record, preempt } = nextMove(state);
        if (preempt !== undefined) {
          for (const victim of preempt.victims) {
            victim.preemptedBy = preempt.for.run;
            enqueue.sendTo(allocationOf(victim) as never, { type: "queue.changed" } as never);
          }
        }
        if (record === undefined) break;
        const wrong = setAside(record, registry) ?? forbiddenPath(record, access); // Q4, Q5
        if (wrong !== undefined) {
          record.append(0, { type: "run.failed", error: recordError(wrong) });
          continue;
        }
        const failedAtMs = record.status === "running" ? network.clock.now() : undefined;
        registry.crashes.begin(record.run);
        membership.take(record.run, membership.sharesFor(record.run, devicesMax(record)));
        record.status = "running";
        allocations.add(record.run);
        running.push(record);
        const input = { network, registry, membership, record, failedAtMs };
        enqueue.spawnChild("allocation", { id: allocationOf(record), input });
      }
      enqueue.assign({ allocations });
    }),
    endAllocation: enqueueActions(({ context, event, enqueue }) => {
      if (!("actorId" in event)) return;
      const run = event.actorId.slice("allocation:".length);
      enqueue.stopChild(event.actorId);
      enqueue.assign({
        allocations: new Set([...context.allocations].filter((other) => other !== run)),
      });
      enqueue(({ context: { membership } }) => membership.letGo(run));
    }),
  },
}).createMachine({
  id: "runQueue",
  context: ({ input }) => {
    const { network, registry, membership, access } = input;
    // Allocations ended with the queue's former actor: their devices are free. Q1
    for (const record of registry.values()) {
      record.preemptedBy = undefined;
      membership.letGo(record.run);
    }
    const tenantOf = (run: string) => registry.get(run)?.tenant;
    const { tenants } = access;
    membership.bound((run) => quotaLeft(run, tenantOf, { membership, tenants })); // Q3
    const mailbox = openMailbox(network, clusterScope, { role: "queue", index: 0 });
    return { ...input, mailbox, allocations: new Set<string>() };
  },
  invoke: [
    { src: "watchingRegistry", input: ({ context }) => context },
    { src: "watchingFree", input: ({ context }) => context },
  ],
  initial: "serving",
  states: {
    serving: {
      entry: "move",
      on: {
        "queue.changed": { actions: "move" },
        "xstate.done.actor.*": { actions: ["endAllocation", "move"] },
      },
    },
  },
});

/** The actor of the run queue. */
export const runQueueMachine = defineActor(machine);

function allocationOf({ run }: RunRecord): string {
  return `allocation:${run}`;
}

/** Why a run is not started again; undefined: it may start. Q5 */
function setAside({ run }: RunRecord, { crashes }: Registry): RunSetAsideError | undefined {
  return crashes.isSetAside(run) ? new RunSetAsideError(run, crashes.of(run)) : undefined;
}

/** Why a run may not use its paths, given the current links; undefined: it may. Q4 */
function forbiddenPath({ job, tenant }: RunRecord, access: Access): unknown {
  try {
    withinRoots(job, access, tenant);
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Records the end or pause of a waiting run. Q2 */
function settle(record: RunRecord): void {
  const { status, isCancelRequested, isPauseRequested, savedStep: step, run } = record;
  if (isCancelRequested && (status === "queued" || status === "paused")) {
    record.append(0, { type: "run.failed", error: recordError(new RunCancelledError(run)) });
    return;
  }
  const isWaiting = status === "queued" || status === "running";
  if (isPauseRequested && isWaiting) record.append(0, { type: "run.paused", step });
}
