// Shard: answers for one logical embedding shard on the device where it is placed.
//
//   restoring ──shard.restored──▶ serving
//
// Takes   shard.restored
// Fails   when told to; the device goes down with it, and with that the generation (law 3)

import { setup } from "xstate";
import { type ThrowEvent, throwInjected } from "../runtime/injected-fault.ts";
import { listening } from "../runtime/listening.ts";
import { type Mailbox, type Network, openMailbox, type RunScope } from "../runtime/mailbox.ts";
import { downWithChildren } from "../runtime/stop-children.ts";

export interface ShardInput {
  readonly network: Network;
  readonly scope: RunScope;
  readonly shard: number;
  /** The device that holds it. */
  readonly device: number;
}

type ShardEvent = { readonly type: "shard.restored" } | ThrowEvent;

export interface ShardContext extends ShardInput {
  readonly mailbox: Mailbox;
}

const machine = setup({
  types: {} as { context: ShardContext; input: ShardInput; events: ShardEvent },
  actors: { listening },
  actions: {
    throwInjected,
  },
}).createMachine({
  id: "shard",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.scope, { role: "shard", index: input.shard }),
  }),
  invoke: { src: "listening", input: ({ context }) => context },
  on: { "chaos.throw": { actions: "throwInjected" } },
  initial: "restoring",
  states: {
    restoring: { on: { "shard.restored": "serving" } },
    serving: {},
  },
});

/** As drawn above; its children end with it. */
export const shardMachine = downWithChildren(machine);
