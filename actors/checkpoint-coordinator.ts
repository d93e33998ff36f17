// Checkpoint coordinator: makes a cut into a checkpoint: asks the devices to save, collects the
// parts that they and their shards report, and commits the manifest last (law 2).
//
//   idle ──checkpoint.cut──▶ collecting ──all parts──▶ committing ──▶ idle
//                              (asks again until it has them)      checkpoint.committed is told
//
// Invariants
//   C1. The manifest is written when every part of the job is on disk, and only by this generation.
//   C2. Parts of another cut are not counted.

import { assign, fromPromise, setup } from "xstate";
import { StepTimeoutError } from "../src/errors.ts";
import type { JobSpec } from "../src/job.ts";
import { digestOf, missingParts } from "../src/training/part-names.ts";
import { needsBaseline } from "../storage/baselines.ts";
import type { CheckpointStore, Manifest } from "../storage/checkpoint-store.ts";
import type { SavedPart } from "../storage/saving.ts";
import { type ThrowEvent, throwInjected } from "./chaos-throw.ts";
import { downWithChildren } from "./down-with-children.ts";
import { listening, type MessageEvent } from "./listening.ts";
import { type Mailbox, type Network, openMailbox, type RunScope } from "./mailbox.ts";

export interface CheckpointCoordinatorInput {
  readonly network: Network;
  readonly scope: RunScope;
  readonly job: JobSpec;
  readonly devices: number;
  readonly store: CheckpointStore;
  /** The newest checkpoint of the chain. */
  readonly latest: Manifest | undefined;
  /** Who writes, for people. */
  readonly createdBy: string;
}

export interface CheckpointCoordinatorContext extends CheckpointCoordinatorInput {
  readonly mailbox: Mailbox;
  readonly cut: MessageEvent<"checkpoint.cut">["body"] | undefined;
  readonly parts: ReadonlyMap<string, SavedPart>;
  /** The last question, answered. */
  readonly committed: MessageEvent<"checkpoint.committed">["body"] | undefined;
}

type CheckpointEvent = MessageEvent<"checkpoint.cut" | "part.saved"> | ThrowEvent;

/** How often devices are asked again for parts that have not come. */
const repeatMs = 1000;

const committing = fromPromise<Manifest, CheckpointCoordinatorContext>(async ({ input }) => {
  const { store, scope, job, cut, parts, createdBy } = input;
  if (cut === undefined) throw new RangeError("There is no cut to commit");
  const saved = [...parts.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const leaves = new Map(saved.map((part) => [part.name, part.leaves]));
  const manifest = store.commit({
    run: scope.run,
    generation: scope.generation,
    cut: cut.cut,
    parts: saved.map(({ leaves: _leaves, ...part }) => part),
    modelDigest: digestOf(leaves, job.model.tables),
    arithmetic: cut.arithmetic,
    metrics: cut.metrics,
    position: { step: cut.cut },
    best: cut.best,
    createdBy,
  });
  store.collect({ generation: scope.generation, keep: job.checkpoint.keep });
  return manifest;
});

const machine = setup({
  types: {} as {
    context: CheckpointCoordinatorContext;
    input: CheckpointCoordinatorInput;
    events: CheckpointEvent;
  },
  actors: { listening, committing },
  delays: {
    repeatMs,
    // A checkpoint is many steps' worth of bytes, and a disk is slower than a step.
    deadlineMs: ({ context }) => 10 * context.job.stepDeadlineMs,
  },
  actions: {
    throwInjected,
    begin: assign({
      cut: ({ context, event }) => (event.type === "checkpoint.cut" ? event.body : context.cut),
      parts: new Map(),
    }),
    askDevices: ({ context }) => {
      const { mailbox, cut, devices, job, latest } = context;
      if (cut === undefined) return;
      const isBaseline = needsBaseline(job.checkpoint.differential, latest?.written);
      for (let index = 0; index < devices; index++) {
        const body = { command: cut.command, cut: cut.cut, isBaseline };
        mailbox.tell({ role: "device", index }, "device.save", body);
      }
    },
    collect: assign({
      parts: ({ context, event }) => {
        if (event.type !== "part.saved" || event.body.cut !== context.cut?.cut) {
          return context.parts; // C2
        }
        const { parts } = event.body;
        return new Map([...context.parts, ...parts.map((part) => [part.name, part] as const)]);
      },
    }),
    tellCommitted: ({ context }) => {
      if (context.committed === undefined) return;
      const to = { role: "coordinator" as const, index: 0 };
      context.mailbox.tell(to, "checkpoint.committed", context.committed);
    },
    giveUp: ({ context }) => {
      const missing = missingOf(context);
      const wait = `the parts ${missing.join(", ")} of cut ${context.cut?.cut}`;
      throw new StepTimeoutError(wait, 10 * context.job.stepDeadlineMs);
    },
  },
  guards: {
    isComplete: ({ context }) => missingOf(context).length === 0, // C1
    isAnswered: ({ context, event }) =>
      event.type === "checkpoint.cut" && event.body.command === context.committed?.command,
  },
}).createMachine({
  id: "checkpointCoordinator",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.scope, { role: "checkpoint", index: 0 }),
    cut: undefined,
    parts: new Map(),
    committed: undefined,
  }),
  invoke: { src: "listening", input: ({ context }) => context },
  on: { "chaos.throw": { actions: "throwInjected" } },
  initial: "idle",
  states: {
    idle: {
      on: {
        "checkpoint.cut": [
          { guard: "isAnswered", actions: "tellCommitted" },
          { target: "collecting", actions: "begin" },
        ],
      },
    },
    collecting: {
      initial: "waiting",
      always: { guard: "isComplete", target: "committing" },
      on: { "part.saved": { actions: "collect" } },
      after: { deadlineMs: { actions: "giveUp" } },
      states: {
        waiting: {
          entry: "askDevices",
          after: { repeatMs: { target: "waiting", reenter: true } },
        },
      },
    },
    committing: {
      invoke: {
        src: "committing",
        input: ({ context }) => context,
        onDone: {
          target: "idle",
          actions: [
            assign({
              latest: ({ event }) => event.output,
              committed: ({ context, event }) => ({
                command: context.cut?.command ?? 0,
                cut: event.output.cut,
                modelDigest: event.output.modelDigest,
                manifest: event.output.sha256,
                bytes: event.output.parts.reduce((sum, part) => sum + part.bytes, 0),
              }),
            }),
            "tellCommitted",
          ],
        },
      },
    },
  },
});

function missingOf({ parts, job }: CheckpointCoordinatorContext): string[] {
  return missingParts(parts.keys(), job.model.tables);
}

/** As drawn above; its children end with it. */
export const checkpointCoordinatorMachine = downWithChildren(machine);
