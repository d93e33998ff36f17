// Run allocation: the period in which a run has devices, from its start until it is over or
// releases them.
//
//   working ──the run is over, or has released its devices──▶ done
//    ▲   │
//    └───┘ its supervisor failed: restarted after a backoff
//
// Invariants
//   U1. The end of a run is recorded exactly once, however it ends; if the run only released its
//       devices, the reason is recorded.

import { assign, type ErrorActorEvent, fromCallback, sendTo, setup } from "xstate";
import { RemoteError, recordError } from "../../src/errors/errors.ts";
import type { Membership } from "../host/membership.ts";
import { jobSupervisorMachine } from "../run/control/job-supervisor.ts";
import type { Registry } from "../run/state/registry.ts";
import type { RunRecord } from "../run/state/run-record.ts";
import type { RunResult } from "../run/state/run-result.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { failureOf } from "../runtime/incident.ts";
import type { Network } from "../runtime/mailbox.ts";
import { decide, emptyHistory, type RestartHistory } from "../runtime/restart-policy.ts";
import { backoff } from "../runtime/supervisor.ts";

export interface RunAllocationInput {
  readonly network: Network;
  readonly registry: Registry;
  /** Hosts of the cluster. */
  readonly membership: Membership;
  readonly record: RunRecord;
  /** When the interruption of the run was noticed; undefined: it was not interrupted. */
  readonly failedAtMs: number | undefined;
}

export interface RunAllocationContext extends RunAllocationInput {
  /** Failures of the supervisor of this run. */
  readonly history: RestartHistory;
  readonly delayMs: number;
  /** Why the run cannot continue. */
  readonly failure?: unknown;
}

/** Emits queue.changed whenever a request for a run arrives. */
export const watchingRegistry = fromCallback<{ type: string }, { registry: Registry }>(
  ({ input, sendBack }) => input.registry.onChange(() => sendBack({ type: "queue.changed" })),
);

const machine = setup({
  types: {} as {
    context: RunAllocationContext;
    input: RunAllocationInput;
    events: { readonly type: "queue.changed" };
  },
  actors: { watchingRegistry, job: jobSupervisorMachine },
  actions: {
    noteDone: ({ context: { record } }, result: RunResult | undefined) => {
      if (result === undefined) noteYielded(record);
      else record.append(result.generation, { type: "run.finished", result }); // U1
    },
    jobFailed: assign(({ context }, error: unknown) => {
      const { record, network, history } = context;
      const child = `job:${record.run}`;
      const atMs = network.clock.now();
      const end = { child, atMs, reason: "error" as const, error: recordError(error) };
      const children = [{ id: child, restart: "transient" as const }];
      const intensity = record.job.restarts;
      const policy = { supervisor: "queue", strategy: "one-for-one" as const, children };
      const decision = decide({ ...policy, intensity, backoff }, history, end);
      if (decision.escalate) {
        const isOwn = decision.cause.code === "RESTART_LIMIT" && end.error.code !== "RESTART_LIMIT";
        return { failure: isOwn ? new RemoteError(decision.cause) : error };
      }
      const at = { offender: child, supervisor: "queue", context: "running" };
      const now = network.clock.date();
      record.fail(0, failureOf(error, at).incident, now);
      record.incidents.act("queue", `restarts ${child} after ${decision.delayMs} ms`, now);
      return { history: decision.history, delayMs: decision.delayMs, failedAtMs: atMs };
    }),
    noteFailed: ({ context: { record, failure } }) => {
      record.append(0, { type: "run.failed", error: recordError(failure) }); // U1
    },
  },
  delays: { delayMs: ({ context }) => context.delayMs },
  guards: {
    hasFailed: ({ context }) => context.failure !== undefined,
    isCancelRequested: ({ context }) => context.record.isCancelRequested,
    isYieldRequested: ({ context }) => context.record.isYieldRequested,
  },
}).createMachine({
  id: "runAllocation",
  context: ({ input }) => ({ ...input, history: emptyHistory, delayMs: 0 }),
  invoke: { src: "watchingRegistry", input: ({ context }) => context },
  initial: "working",
  states: {
    working: {
      invoke: {
        src: "job",
        id: "job",
        input: ({ context }) => context,
        onDone: {
          target: "done",
          actions: { type: "noteDone", params: ({ event }) => event.output },
        },
        onError: {
          target: "restarting",
          actions: {
            type: "jobFailed",
            params: ({ event }: { event: ErrorActorEvent }) => event.error,
          },
        },
      },
      on: {
        "queue.changed": [
          { guard: "isCancelRequested", actions: sendTo("job", { type: "run.cancel" }) },
          { guard: "isYieldRequested", actions: sendTo("job", { type: "run.yield" }) },
        ],
      },
    },
    restarting: {
      always: { guard: "hasFailed", target: "done", actions: "noteFailed" },
      after: { delayMs: "working" },
    },
    done: { type: "final" },
  },
});

/** The state machine of an allocation. */
export const runAllocationMachine = defineActor(machine, { receives: "nothing" });

/** Records that the run released its devices, and why. U1 */
function noteYielded(record: RunRecord): void {
  const { savedStep: step, preemptedBy: by } = record;
  record.preemptedBy = undefined;
  if (record.isPauseRequested) record.append(0, { type: "run.paused", step });
  else if (by !== undefined) record.append(0, { type: "run.preempted", step, by });
  else record.append(0, { type: "run.resumed" }); // Resumed before the release.
}
