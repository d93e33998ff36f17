// Tier: the actor of one device's storage tiers: its cache of rows (HBM), on which the device's
// thread works, and the backing store in host memory (DDR) and on disk (SSD), which a separate
// thread serves. Contents and hit rates: tier-report.ts.
//
//   opening ──▶ serving ◀──────────────▶ paused   the disk is full: the tier waits for room
//                  ▲ └──▶ slow ──┐                the disk is slow: reported, and it continues
//                  └─────────────┘
//   any ──thread ended──▶ error: the generation is over (law 3)
//
// Takes   tier.persist { manifest } · tier.flush { command } · tier.inspect { command }
// Emits   tier.persisted · tier.flushed · tier.inspected; to its host generation tier.changed
//
// Invariants
//   T1. The rows belong to one generation: they are deleted once the thread's exit was seen, except
//       rows of tables with `keep: "durable"` that were persisted at a checkpoint.
//   T2. A repeated request is executed once; its answer is sent again.

import { assign, enqueueActions, sendParent, setup } from "xstate";
import type { Launcher } from "../../src/ports/launcher.ts";
import type { TierCommand, TierReport, TierState } from "../../storage/tiers/serve.ts";
import { type FoundRows, removeLeftover, tierDirectory } from "../../storage/tiers/tier-store.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { type Mailbox, type MessageEvent, type Network, openMailbox } from "../runtime/mailbox.ts";
import { type Generation, wake } from "../threads/generation-memory.ts";
import { headOf } from "../threads/generation-spec.ts";
import { tierPlace } from "../threads/tier-program.ts";
import { lossOf, type ThreadEnded, threadLogic } from "./thread-actor.ts";
import { reportTier, type TierStatus } from "./tier-report.ts";

export interface TierInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly generation: Generation;
  /** The device whose rows the tier stores. */
  readonly device: number;
}

export type { TierStatus } from "./tier-report.ts";

type TierEvent =
  | MessageEvent<"tier.persist" | "tier.flush" | "tier.inspect">
  | ThreadEvent
  | ThreadEnded;

type Opened = Extract<TierReport, { readonly type: "opened" }>;

/** Reports of the thread, as events. */
type ThreadEvent =
  | { readonly type: `thread.${TierState}`; readonly state: TierState }
  | ({ readonly type: "thread.opened" } & Omit<Opened, "type">)
  | { readonly type: "thread.persisted"; readonly kept: FoundRows }
  | { readonly type: "thread.flushed"; readonly rows: number };

export interface TierContext extends TierInput {
  readonly mailbox: Mailbox;
  readonly status: TierStatus;
  /** Number of the tier.persist request, and its answer. */
  readonly persistCommand: number | undefined;
  readonly kept: FoundRows | undefined;
  /** The last flush request, and the number of flushed rows once it is done. */
  readonly flush: { readonly command: number; readonly rows: number | undefined } | undefined;
}

const inspector = { role: "inspector", index: 0 } as const;

const thread = threadLogic<TierInput, TierCommand, TierReport>((input) => {
  const { network, launcher, generation, device } = input;
  const { spec, layout, memory } = generation;
  return {
    launcher,
    name: `tier-${device}`,
    task: { program: "tier", spec: headOf(spec), memory, index: device },
    eventOf(report) {
      const type = `thread.${report.type}` as const;
      return { ...report, state: report.type, type };
    },
    wake: () => wake(generation, layout.tierOf(device)),
    onEnded: () => {
      const isOnDisk = spec.job.tiers.ssd !== "none";
      if (isOnDisk) removeLeftover(network.disk, tierDirectory(tierPlace(spec, device))); // T1
    },
  };
});

const machine = setup({
  types: {} as { context: TierContext; input: TierInput; events: TierEvent },
  actors: { thread },
  actions: {
    noteOpened: assign(({ context, event }) => {
      if (event.type !== "thread.opened") return {};
      const { store, found } = event;
      return { status: { ...context.status, store, ...(found === undefined ? {} : { found }) } };
    }),
    noteKept: assign({
      kept: ({ context, event }) => (event.type === "thread.persisted" ? event.kept : context.kept),
    }),
    noteState: assign(({ context, event }) =>
      "state" in event ? { status: { ...context.status, state: event.state } } : {},
    ),
    reportStatus: sendParent(({ context }) => ({ type: "tier.changed", status: context.status })),
    begin: enqueueActions(({ event, enqueue }) => {
      if (event.type !== "tier.persist") return;
      const command: TierCommand = { type: "persist", stamp: event.body.manifest };
      enqueue.assign({ persistCommand: event.body.command });
      enqueue.sendTo("thread", { type: "command", command });
    }),
    sendPersisted: ({ context }) => {
      const { mailbox, device, persistCommand: command, kept } = context;
      if (command === undefined || kept === undefined) return;
      const body = { command, device, kept };
      mailbox.send({ role: "coordinator", index: 0 }, "tier.persisted", body);
    },
    beginFlush: enqueueActions(({ context, event, enqueue }) => {
      const { flush } = context;
      if (event.type !== "tier.flush" || event.body.command === flush?.command) return; // T2
      if (flush !== undefined && flush.rows === undefined) return; // The request will be repeated.
      enqueue.assign({ flush: { command: event.body.command, rows: undefined } });
      enqueue.sendTo("thread", { type: "command", command: { type: "flush" } });
    }),
    noteFlushed: assign(({ context: { flush }, event }) =>
      event.type === "thread.flushed" && flush !== undefined
        ? { flush: { ...flush, rows: event.rows } }
        : {},
    ),
    sendFlushed: ({ context: { flush, mailbox, device } }) => {
      if (flush?.rows === undefined) return;
      mailbox.send(inspector, "tier.flushed", { command: flush.command, device, rows: flush.rows });
    },
    sendReport: ({ context, event, self }) => {
      if (event.type !== "tier.inspect") return;
      const report = reportTier(context, self.getSnapshot().value as TierState | "opening");
      const { command } = event.body;
      context.mailbox.send(inspector, "tier.inspected", {
        command,
        device: context.device,
        report,
      });
    },
    lose: ({ context, event }) => {
      if (event.type === "thread.ended") throw lossOf(event.end, `tier:${context.device}`);
    },
  },
  guards: {
    isNew: ({ context }) => context.persistCommand === undefined,
  },
}).createMachine({
  id: "tier",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.generation.spec, {
      role: "tier",
      index: input.device,
    }),
    status: { device: input.device, state: "serving" },
    persistCommand: undefined,
    kept: undefined,
    flush: undefined,
  }),
  invoke: { src: "thread", id: "thread", input: ({ context }) => context },
  on: {
    "thread.ended": { actions: "lose" },
    "tier.persist": [{ guard: "isNew", actions: "begin" }, { actions: "sendPersisted" }], // T2
    "tier.flush": { actions: ["beginFlush", "sendFlushed"] },
    "tier.inspect": { actions: "sendReport" },
    "thread.flushed": { actions: ["noteFlushed", "sendFlushed"] },
    "thread.opened": { actions: ["noteOpened", "reportStatus"] },
    "thread.persisted": { actions: ["noteKept", "sendPersisted"] },
    "thread.serving": { target: ".serving" },
    "thread.paused": { target: ".paused" },
    "thread.slow": { target: ".slow" },
  },
  initial: "opening",
  states: {
    opening: {},
    serving: { entry: ["noteState", "reportStatus"] },
    paused: { entry: ["noteState", "reportStatus"] },
    slow: { entry: ["noteState", "reportStatus"] },
  },
});

/** The state machine drawn in the header, as an actor. */
export const tierMachine = defineActor(machine);
