// Run queue: gives the cluster's devices to one run at a time, in the order of submission.
//
//   idle ──a run waits──▶ working ──the run is over──▶ idle
//                          ▲   │
//                          └───┘ its supervisor itself failed: another, after a backoff
//
// Invariants
//   Q1. A run that was interrupted (this actor, or one above it, was restarted) comes before
//       others.
//   Q2. However a run ends, its record says so, once.

import { assign, fromCallback, sendTo, setup } from "xstate";
import { RemoteError, RunCancelledError, recordError } from "../src/errors.ts";
import { type ThrowEvent, throwInjected } from "./chaos-throw.ts";
import { downWithChildren } from "./down-with-children.ts";
import { failureOf } from "./incident.ts";
import { jobSupervisorMachine } from "./job-supervisor.ts";
import { listening } from "./listening.ts";
import { clusterScope, type Mailbox, type Network, openMailbox } from "./mailbox.ts";
import type { Membership } from "./membership.ts";
import type { Registry } from "./registry.ts";
import { decide, emptyHistory, type RestartHistory } from "./restart-policy.ts";
import type { RunResult } from "./run-events.ts";
import type { RunRecord } from "./run-record.ts";
import { backoff } from "./supervisor.ts";

export interface RunQueueInput {
  readonly network: Network;
  readonly registry: Registry;
  /** Hosts of the cluster. */
  readonly membership: Membership;
  readonly createdBy: string;
}

export interface RunQueueContext extends RunQueueInput {
  readonly mailbox: Mailbox;
  readonly record: RunRecord | undefined;
  /** Failures of the supervisor of this run. */
  readonly history: RestartHistory;
  readonly failedAtMs: number | undefined;
  readonly delayMs: number;
  /** Why the run cannot be gone on with. */
  readonly failure?: unknown;
}

type RunQueueEvent = { readonly type: "queue.changed" } | ThrowEvent;

const watching = fromCallback<{ type: string }, { registry: Registry }>(({ input, sendBack }) =>
  input.registry.onChange(() => sendBack({ type: "queue.changed" })),
);

const machine = setup({
  types: {} as { context: RunQueueContext; input: RunQueueInput; events: RunQueueEvent },
  actors: { listening, watching, job: jobSupervisorMachine },
  actions: {
    throwInjected,
    take: assign(({ context: { registry, network } }) => {
      const record = registry.next();
      const isInterrupted = record?.status === "running";
      const failedAtMs = isInterrupted ? network.clock.now() : undefined;
      return { record, history: emptyHistory, failedAtMs, failure: undefined };
    }),
    cancelQueued: ({ context }) => {
      for (const record of context.registry.all()) {
        if (record.status !== "queued" || !record.isCancelAsked) continue;
        record.append(0, {
          type: "run.failed",
          error: recordError(new RunCancelledError(record.run)),
        });
        record.status = "cancelled";
      }
    },
    noteFinished: ({ context, event }) => {
      const { record } = context;
      const result = (event as unknown as { output: RunResult | undefined }).output;
      if (record === undefined || result === undefined) return;
      record.append(result.generation, { type: "run.finished", result }); // Q2
    },
    jobFailed: assign(({ context, event }) => {
      const { record, network, history } = context;
      if (record === undefined) return {};
      const { error } = event as unknown as { error: unknown };
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
      const { reason, ...where } = failureOf(error, at).incident;
      record.append(0, { type: "run.incident", ...where, error: reason });
      return { history: decision.history, delayMs: decision.delayMs, failedAtMs: atMs };
    }),
    noteFailed: ({ context: { record, failure } }) => {
      const error = recordError(failure);
      record?.append(0, { type: "run.failed", error }); // Q2
      if (record !== undefined && error.code === "RUN_CANCELLED") record.status = "cancelled";
    },
  },
  delays: { delayMs: ({ context }) => context.delayMs },
  guards: {
    hasNext: ({ context }) => context.registry.next() !== undefined,
    hasFailed: ({ context }) => context.failure !== undefined,
    isCancelled: ({ context }) => context.record?.isCancelAsked === true,
  },
}).createMachine({
  id: "runQueue",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, clusterScope, { role: "queue", index: 0 }),
    record: undefined,
    history: emptyHistory,
    failedAtMs: undefined,
    delayMs: 0,
  }),
  invoke: [
    { src: "listening", input: ({ context }) => context },
    { src: "watching", input: ({ context }) => context },
  ],
  on: { "chaos.throw": { actions: "throwInjected" } },
  initial: "idle",
  states: {
    idle: {
      entry: "cancelQueued",
      always: { guard: "hasNext", target: "working", actions: "take" }, // Q1
      on: { "queue.changed": { target: "idle", reenter: true } },
    },
    working: {
      entry: ({ context }) => {
        if (context.record !== undefined) context.record.status = "running";
      },
      invoke: {
        src: "job",
        id: "job",
        input: ({ context }) => {
          const { network, record, membership, createdBy, failedAtMs } = context;
          if (record === undefined) throw new RangeError("There is no run to work on");
          return { network, record, membership, createdBy, failedAtMs };
        },
        onDone: { target: "idle", actions: "noteFinished" },
        onError: { target: "restarting", actions: "jobFailed" },
      },
      on: {
        "queue.changed": [
          {
            guard: "isCancelled",
            actions: [sendTo("job", { type: "run.cancel" }), "cancelQueued"],
          },
          { actions: "cancelQueued" },
        ],
      },
    },
    restarting: {
      always: { guard: "hasFailed", target: "idle", actions: "noteFailed" },
      after: { delayMs: "working" },
    },
  },
});

/** As drawn above; its children end with it. */
export const runQueueMachine = downWithChildren(machine);
