// Run queue: gives the cluster's devices to one run at a time, in the order of submission.
//
//   idle ──a run waits──▶ working ──its supervisor ended──▶ idle
//
// Invariants
//   Q1. A run that was interrupted (this actor, or one above it, was restarted) comes before others.
//   Q2. However a run ends, its record says so, once.

import { assign, fromCallback, sendTo, setup } from "xstate";
import { recordError, RunCancelledError } from "../src/errors.ts";
import { throwInjected, type ThrowEvent } from "./chaos-throw.ts";
import { jobSupervisorMachine } from "./job-supervisor.ts";
import { listening } from "./listening.ts";
import { clusterScope, type Mailbox, type Network, openMailbox } from "./mailbox.ts";
import type { Registry } from "./registry.ts";
import type { RunRecord, RunResult } from "./run-record.ts";

export interface RunQueueInput {
  readonly network: Network;
  readonly registry: Registry;
  /** Devices of the cluster. */
  readonly devices: number;
  readonly createdBy: string;
}

export interface RunQueueContext extends RunQueueInput {
  readonly mailbox: Mailbox;
  readonly record: RunRecord | undefined;
}

type RunQueueEvent = { readonly type: "queue.changed" } | ThrowEvent;

const watching = fromCallback<{ type: string }, { registry: Registry }>(({ input, sendBack }) =>
  input.registry.onChange(() => sendBack({ type: "queue.changed" })),
);

export const runQueueMachine = setup({
  types: {} as { context: RunQueueContext; input: RunQueueInput; events: RunQueueEvent },
  actors: { listening, watching, job: jobSupervisorMachine },
  actions: {
    throwInjected,
    take: assign({ record: ({ context }) => context.registry.next() }),
    cancelQueued: ({ context }) => {
      for (const record of context.registry.all()) {
        if (record.status !== "queued" || !record.isCancelAsked) continue;
        record.append(0, { type: "run.failed", error: recordError(new RunCancelledError(record.run)) });
        record.status = "cancelled";
      }
    },
    noteFinished: ({ context, event }) => {
      const { record } = context;
      const result = (event as unknown as { output: RunResult | undefined }).output;
      if (record === undefined || result === undefined) return;
      record.append(result.generation, { type: "run.finished", result }); // Q2
    },
    noteFailed: ({ context, event }) => {
      const { error } = event as unknown as { error: unknown };
      context.record?.append(0, { type: "run.failed", error: recordError(error) }); // Q2
    },
  },
  guards: {
    hasNext: ({ context }) => context.registry.next() !== undefined,
    isCancelled: ({ context }) => context.record?.isCancelAsked === true,
  },
}).createMachine({
  id: "runQueue",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, clusterScope, { role: "queue", index: 0 }),
    record: undefined,
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
          const { network, record, devices, createdBy } = context;
          if (record === undefined) throw new RangeError("There is no run to work on");
          const wanted = record.job.devices;
          return { network, record, devices: wanted === 0 ? devices : wanted, createdBy };
        },
        onDone: { target: "idle", actions: "noteFinished" },
        onError: { target: "idle", actions: "noteFailed" },
      },
      on: {
        "queue.changed": [
          { guard: "isCancelled", actions: [sendTo("job", { type: "run.cancel" }), "cancelQueued"] },
          { actions: "cancelQueued" },
        ],
      },
    },
  },
});
