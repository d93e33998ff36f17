// Bridge: answers for the thread that carries frames between this host and the others of its
// generation, so that no device's thread turns an event loop.
//
//   opening ──it listens──▶ carrying
//   any ──thread ended──▶ error: the generation is over (law 3)

import { fromCallback, sendParent, setup } from "xstate";
import type { Launcher, ThreadEnd } from "../src/launcher.ts";
import type { Assembly, GenerationMemory } from "./assembly.ts";
import type { BridgeReport } from "./bridge-program.ts";
import { type ThrowEvent, throwInjected } from "./chaos-throw.ts";
import { downWithChildren } from "./down-with-children.ts";
import { listening } from "./listening.ts";
import { type Mailbox, type Network, openMailbox } from "./mailbox.ts";
import { lossOf } from "./thread-end.ts";

export interface BridgeInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly assembly: Assembly;
  readonly memory: GenerationMemory;
  /** Of this host among those of the generation. */
  readonly position: number;
}

export interface BridgeContext extends BridgeInput {
  readonly mailbox: Mailbox;
  readonly name: string;
}

type BridgeEvent =
  | { readonly type: "thread.ready" }
  | { readonly type: "thread.ended"; readonly end: ThreadEnd }
  | ThrowEvent;

const entry = new URL("./thread-entry.js", import.meta.url);

const threadLogic = fromCallback<{ type: string }, BridgeContext>(({ input, sendBack }) => {
  const { network, assembly, memory, position, launcher, name } = input;
  const { cluster, connection } = network;
  const task = { program: "bridge", assembly, memory, index: position, cluster, connection };
  const thread = launcher.start<never, BridgeReport>(entry, task, name.replace(":", "-"));
  thread.onReport(() => sendBack({ type: "thread.ready" }));
  void thread.ended.then((end) => sendBack({ type: "thread.ended", end }));
  return () => thread.kill();
});

const machine = setup({
  types: {} as { context: BridgeContext; input: BridgeInput; events: BridgeEvent },
  actors: { listening, thread: threadLogic },
  actions: {
    throwInjected,
    lose: ({ context, event }) => {
      if (event.type === "thread.ended") throw lossOf(event.end, context.name);
    },
  },
}).createMachine({
  id: "bridge",
  context: ({ input }) => {
    const host = input.assembly.hosts[input.position]?.host ?? 0;
    return {
      ...input,
      name: `bridge:${host}`,
      mailbox: openMailbox(input.network, input.assembly, { role: "bridge", index: host }),
    };
  },
  invoke: [
    { src: "listening", input: ({ context }) => context },
    { src: "thread", input: ({ context }) => context },
  ],
  on: {
    "thread.ended": { actions: "lose" },
    "chaos.throw": { actions: "throwInjected" },
  },
  initial: "opening",
  states: {
    opening: {
      on: { "thread.ready": { target: "carrying", actions: sendParent({ type: "bridge.ready" }) } },
    },
    carrying: {},
  },
});

/** As drawn above; its children end with it. */
export const bridgeMachine = downWithChildren(machine);
