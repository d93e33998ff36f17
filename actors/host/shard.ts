// Shard: answers for one logical embedding shard on the device where it is placed.
//
//   restoring ──shard.restored──▶ serving
//
// Takes   shard.restored
// Fails   when told to; the device goes down with it, and with that the generation (law 3)

import { setup } from "xstate";
import { defineActor } from "../runtime/define-actor.ts";
import { type Mailbox, type Network, openMailbox, type RunScope } from "../runtime/mailbox.ts";

export interface ShardInput {
  readonly network: Network;
  readonly scope: RunScope;
  readonly shard: number;
  /** The device that holds it. */
  readonly device: number;
}

type ShardEvent = { readonly type: "shard.restored" };

export interface ShardContext extends ShardInput {
  readonly mailbox: Mailbox;
}

const machine = setup({
  types: {} as { context: ShardContext; input: ShardInput; events: ShardEvent },
}).createMachine({
  id: "shard",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.scope, { role: "shard", index: input.shard }),
  }),
  initial: "restoring",
  states: {
    restoring: { on: { "shard.restored": "serving" } },
    serving: {},
  },
});

/** As drawn above. */
export const shardMachine = defineActor(machine);
