// Tier: answers for the thread that holds what lies below one device's memory: host memory (DDR)
// and, below that, the disk (SSD). The device's own cache (HBM) is in its thread.
//
//   opening ──▶ serving ◀──────────────▶ paused   the disk is full: it waits for room
//                  ▲ └──▶ slow ──┐                the disk takes long: noted, and it goes on
//                  └─────────────┘
//   any ──thread ended──▶ error: the generation is over (law 3)
//
// Invariants
//   T1. What lies here belongs to one generation: it is gone once the thread's exit has been seen,
//       but for what tables with `keep: "durable"` left at a cut.

import { fromCallback, setup } from "xstate";
import type { Launcher, ThreadEnd } from "../src/launcher.ts";
import type { Assembly, GenerationMemory } from "./assembly.ts";
import { type ThrowEvent, throwInjected } from "./chaos-throw.ts";
import { downWithChildren } from "./down-with-children.ts";
import { listening } from "./listening.ts";
import { type Mailbox, type Network, openMailbox } from "./mailbox.ts";
import { lossOf } from "./thread-end.ts";
import { type TierReport, tierDirectory } from "./tier-program.ts";

export interface TierInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly assembly: Assembly;
  readonly memory: GenerationMemory;
  /** Whose memory it lies below. */
  readonly device: number;
}

type TierEvent =
  | { readonly type: `tier.${TierReport["type"]}` }
  | { readonly type: "thread.ended"; readonly end: ThreadEnd }
  | ThrowEvent;

const entry = new URL("./thread-entry.js", import.meta.url);

const threadLogic = fromCallback<{ type: string }, TierInput>(({ input, sendBack }) => {
  const { network, assembly, memory, device, launcher } = input;
  const task = { program: "tier", assembly, memory, index: device };
  const thread = launcher.start<never, TierReport>(entry, task, `tier-${device}`);
  thread.onReport(({ type }) => sendBack({ type: `tier.${type}` }));
  void thread.ended.then((end) => {
    network.disk.remove(tierDirectory(assembly, device)); // T1
    sendBack({ type: "thread.ended", end });
  });
  return () => thread.kill();
});

const machine = setup({
  types: {} as {
    context: TierInput & { readonly mailbox: Mailbox };
    input: TierInput;
    events: TierEvent;
  },
  actors: { listening, thread: threadLogic },
  actions: {
    throwInjected,
    lose: ({ context, event }) => {
      if (event.type === "thread.ended") throw lossOf(event.end, `tier:${context.device}`);
    },
  },
}).createMachine({
  id: "tier",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.assembly, { role: "tier", index: input.device }),
  }),
  invoke: [
    { src: "listening", input: ({ context }) => context },
    { src: "thread", input: ({ context }) => context },
  ],
  on: {
    "thread.ended": { actions: "lose" },
    "chaos.throw": { actions: "throwInjected" },
    "tier.serving": { target: ".serving" },
    "tier.paused": { target: ".paused" },
    "tier.slow": { target: ".slow" },
  },
  initial: "opening",
  states: { opening: {}, serving: {}, paused: {}, slow: {} },
});

/** As drawn above; its children end with it. */
export const tierMachine = downWithChildren(machine);
