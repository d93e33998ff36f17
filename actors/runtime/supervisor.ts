// The supervisor: starts children in order and, when a child ends, follows the restart policy.
//
//   supervising ──child ended──▶ (decide) ──▶ supervising     stopped and started after a backoff
//                                   │
//                                   └──▶ error      escalated: a restart cannot repair it
//
// restart-policy.ts decides; this file carries the decision out in xstate.

import {
  type AnyActorLogic,
  type DoneActorEvent,
  type ErrorActorEvent,
  enqueueActions,
  setup,
} from "xstate";
import { RemoteError, recordError } from "../../src/errors/errors.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { defineActor } from "./define-actor.ts";
import { failureOf, type Incident } from "./incident.ts";
import type { Mailbox } from "./mailbox.ts";
import {
  type Child,
  decide,
  emptyHistory,
  type RestartHistory,
  type RestartPolicy,
} from "./restart-policy.ts";

/** A child, with the factory of its logic and input, called for each start. */
export interface ChildSpec extends Child {
  readonly start: () => { readonly logic: AnyActorLogic; readonly input: unknown };
}

export interface SupervisorInput {
  readonly name: string;
  readonly strategy: RestartPolicy["strategy"];
  readonly intensity: RestartPolicy["intensity"];
  readonly children: readonly ChildSpec[];
  readonly clock: Clock;
  /** Called for each failure handled by a restart, when the restart begins. */
  readonly onRestart?: (incident: Incident, children: readonly string[]) => void;
  /** The mailbox from which the supervisor receives. */
  readonly mailbox: Mailbox;
}

export interface SupervisorContext extends SupervisorInput {
  readonly history: RestartHistory;
  /** A failure to escalate. */
  readonly failure?: unknown;
}

export type SupervisorEvent =
  | { readonly type: "supervisor.restart"; readonly ids: readonly string[] }
  | ErrorActorEvent<unknown, string>
  | DoneActorEvent<unknown, string>;

/** The k-th restart waits 50 ms * 2^(k-1), at most 5 s: long enough for a port to become free. */
export const backoff = { baseMs: 50, factor: 2, maxMs: 5000 } as const;

const machine = setup({
  types: {} as {
    context: SupervisorContext;
    input: SupervisorInput;
    events: SupervisorEvent;
  },
  actions: {
    startAll: enqueueActions(({ context, enqueue }) => {
      for (const { id, start } of context.children) {
        const { logic, input } = start();
        enqueue.spawnChild(logic as never, { id, input } as never);
      }
    }),
    restart: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "supervisor.restart") return;
      for (const { id, start } of context.children) {
        if (!event.ids.includes(id)) continue;
        const { logic, input } = start();
        enqueue.spawnChild(logic as never, { id, input } as never);
      }
    }),
    childEnded: enqueueActions(({ context, event, enqueue }) => {
      if (!("actorId" in event)) return;
      const { name, strategy, intensity, children, clock } = context;
      const child = event.actorId;
      if (!children.some(({ id }) => id === child)) return;
      enqueue.stopChild(child);
      const policy = { supervisor: name, strategy, children, intensity, backoff };
      const at = { child, atMs: clock.now() };
      const error = "error" in event ? event.error : undefined;
      const failure = failureOf(error, { offender: child, supervisor: name, context: "running" });
      const end =
        "error" in event
          ? { ...at, reason: "error" as const, error: recordError(failure) }
          : { ...at, reason: "normal" as const };
      const decision = decide(policy, context.history, end);
      if (decision.escalate) {
        const isOwn = decision.cause.code === "RESTART_LIMIT";
        enqueue.assign({ failure: isOwn ? new RemoteError(decision.cause) : failure });
        return;
      }
      enqueue.assign({ history: decision.history });
      for (const id of decision.stop) enqueue.stopChild(id);
      if (decision.start.length === 0) return;
      context.onRestart?.(failure.incident, decision.start);
      const delay = decision.delayMs;
      enqueue.raise({ type: "supervisor.restart", ids: decision.start }, { delay });
    }),
    handUp: ({ context }) => {
      throw context.failure;
    },
  },
  guards: {
    hasFailed: ({ context }) => context.failure !== undefined,
  },
}).createMachine({
  id: "supervisor",
  context: ({ input }) => ({ ...input, history: emptyHistory }),
  entry: "startAll",
  initial: "supervising",
  states: {
    supervising: {
      always: { guard: "hasFailed", target: "failed" },
      on: {
        "supervisor.restart": { actions: "restart" },
        "xstate.error.actor.*": { actions: "childEnded" },
        "xstate.done.actor.*": { actions: "childEnded" },
      },
    },
    failed: { entry: "handUp" },
  },
});

/** The state machine drawn in the header, as an actor. */
export const supervisorMachine = defineActor(machine);
