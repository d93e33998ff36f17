// Shard: answers for one logical embedding shard on the device where it is placed.
//
//   restoring ──shard.restored──▶ serving ──shard.saved──▶ serving
//
// Takes   shard.restored · shard.saved { cut, part }
// Tells   the checkpoint coordinator: part.saved
// Fails   when told to; the device goes down with it, and with that the generation (law 3)

import { assign, setup } from "xstate";
import type { SavedPart } from "../storage/saving.ts";
import { type ThrowEvent, throwInjected } from "./chaos-throw.ts";
import { downWithChildren } from "./down-with-children.ts";
import { listening } from "./listening.ts";
import { type Mailbox, type Network, openMailbox, type RunScope } from "./mailbox.ts";

export interface ShardInput {
  readonly network: Network;
  readonly scope: RunScope;
  readonly shard: number;
  /** The device that holds it. */
  readonly device: number;
}

type ShardEvent =
  | { readonly type: "shard.restored" }
  | { readonly type: "shard.saved"; readonly cut: number; readonly part: SavedPart }
  | ThrowEvent;

export interface ShardContext extends ShardInput {
  readonly mailbox: Mailbox;
  /** The last cut that is on disk. */
  readonly savedCut: number | undefined;
}

const machine = setup({
  types: {} as { context: ShardContext; input: ShardInput; events: ShardEvent },
  actors: { listening },
  actions: {
    throwInjected,
    tellSaved: ({ context, event }) => {
      if (event.type !== "shard.saved") return;
      const { mailbox, device } = context;
      const body = { cut: event.cut, device, parts: [event.part] };
      mailbox.tell({ role: "checkpoint", index: 0 }, "part.saved", body);
    },
    remember: assign({
      savedCut: ({ context, event }) =>
        event.type === "shard.saved" ? event.cut : context.savedCut,
    }),
  },
}).createMachine({
  id: "shard",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.scope, { role: "shard", index: input.shard }),
    savedCut: undefined,
  }),
  invoke: { src: "listening", input: ({ context }) => context },
  on: { "chaos.throw": { actions: "throwInjected" } },
  initial: "restoring",
  states: {
    restoring: { on: { "shard.restored": "serving" } },
    serving: { on: { "shard.saved": { actions: ["tellSaved", "remember"] } } },
  },
});

/** As drawn above; its children end with it. */
export const shardMachine = downWithChildren(machine);
