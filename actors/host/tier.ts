// Tier: answers for the thread that keeps the rows which one device has no room for: in host memory
// (DDR) and, below that, on disk (SSD). The device's own cache (HBM) is in the device's thread.
//
//   opening ──▶ serving ◀──────────────▶ paused   the disk is full: it waits for room
//                  ▲ └──▶ slow ──┐                the disk takes long: noted, and it goes on
//                  └─────────────┘
//   any ──thread ended──▶ error: the generation is over (law 3)
//
// Takes   tier.rest { manifest }
// Tells   tier.rested; its host generation tier.told
//
// Invariants
//   T1. The rows here belong to one generation: they are gone once the thread's exit has been seen,
//       except for rows that tables with `keep: "durable"` laid to rest at a checkpoint.
//   T2. A question asked twice is carried out once; its answer is told again.

import { assign, enqueueActions, sendParent, setup } from "xstate";
import type { Launcher } from "../../src/ports/launcher.ts";
import type { TierCommand, TierReport, TierState } from "../../storage/tiers/serve.ts";
import { type FoundRows, removeLeftover, tierDirectory } from "../../storage/tiers/tier-store.ts";
import { defineActor } from "../runtime/define-actor.ts";
import type { MessageEvent } from "../runtime/listening.ts";
import { type Mailbox, type Network, openMailbox } from "../runtime/mailbox.ts";
import { type Generation, wake } from "../threads/generation-memory.ts";
import { tierPlace } from "../threads/tier-program.ts";
import { lossOf, type ThreadEnded, threadLogic } from "./thread-actor.ts";

export interface TierInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly generation: Generation;
  /** The device that keeps rows here. */
  readonly device: number;
}

/** What a tier tells its host generation, which tells the coordinator with each heartbeat. */
export type TierNews = MessageEvent<"host.progress">["body"]["tiers"][number];

type TierEvent = MessageEvent<"tier.rest"> | ThreadEvent | ThreadEnded;

type Opened = Extract<TierReport, { readonly type: "opened" }>;

/** What the thread reports. */
type ThreadEvent =
  | { readonly type: `thread.${TierState}`; readonly state: TierState }
  | ({ readonly type: "thread.opened" } & Omit<Opened, "type">)
  | { readonly type: "thread.rested"; readonly kept: FoundRows };

export interface TierContext extends TierInput {
  readonly mailbox: Mailbox;
  readonly news: TierNews;
  /** The number of the question, and its answer. */
  readonly asked: number | undefined;
  readonly kept: FoundRows | undefined;
}

const thread = threadLogic<TierInput, TierCommand, TierReport>((input) => {
  const { network, launcher, generation, device } = input;
  const { spec, layout, memory } = generation;
  return {
    launcher,
    name: `tier-${device}`,
    task: { program: "tier", spec, memory, index: device },
    eventOf(report) {
      const type = `thread.${report.type}` as const;
      return { ...report, state: report.type, type };
    },
    wake: () => wake(generation, layout.tierOf(device)),
    onEnded: () => removeLeftover(network.disk, tierDirectory(tierPlace(spec, device))), // T1
  };
});

const machine = setup({
  types: {} as { context: TierContext; input: TierInput; events: TierEvent },
  actors: { thread },
  actions: {
    noteOpened: assign(({ context, event }) => {
      if (event.type !== "thread.opened") return {};
      const { store, found } = event;
      return { news: { ...context.news, store, ...(found === undefined ? {} : { found }) } };
    }),
    noteKept: assign({
      kept: ({ context, event }) => (event.type === "thread.rested" ? event.kept : context.kept),
    }),
    noteState: assign(({ context, event }) =>
      "state" in event ? { news: { ...context.news, state: event.state } } : {},
    ),
    tellNews: sendParent(({ context }) => ({ type: "tier.told", news: context.news })),
    begin: enqueueActions(({ event, enqueue }) => {
      if (event.type !== "tier.rest") return;
      const command: TierCommand = { type: "rest", stamp: event.body.manifest };
      enqueue.assign({ asked: event.body.command });
      enqueue.sendTo("thread", { type: "command", command });
    }),
    tellRested: ({ context }) => {
      const { mailbox, device, asked, kept } = context;
      if (asked === undefined || kept === undefined) return;
      const body = { command: asked, device, kept };
      mailbox.tell({ role: "coordinator", index: 0 }, "tier.rested", body);
    },
    lose: ({ context, event }) => {
      if (event.type === "thread.ended") throw lossOf(event.end, `tier:${context.device}`);
    },
  },
  guards: {
    isUnasked: ({ context }) => context.asked === undefined,
  },
}).createMachine({
  id: "tier",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.generation.spec, {
      role: "tier",
      index: input.device,
    }),
    news: { device: input.device, state: "serving" },
    asked: undefined,
    kept: undefined,
  }),
  invoke: { src: "thread", id: "thread", input: ({ context }) => context },
  on: {
    "thread.ended": { actions: "lose" },
    "tier.rest": [{ guard: "isUnasked", actions: "begin" }, { actions: "tellRested" }], // T2
    "thread.opened": { actions: ["noteOpened", "tellNews"] },
    "thread.rested": { actions: ["noteKept", "tellRested"] },
    "thread.serving": { target: ".serving" },
    "thread.paused": { target: ".paused" },
    "thread.slow": { target: ".slow" },
  },
  initial: "opening",
  states: {
    opening: {},
    serving: { entry: ["noteState", "tellNews"] },
    paused: { entry: ["noteState", "tellNews"] },
    slow: { entry: ["noteState", "tellNews"] },
  },
});

/** As drawn above. */
export const tierMachine = defineActor(machine);
