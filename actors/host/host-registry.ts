// Host registry: admits processes that announce themselves as hosts of this cluster, gives each its
// index, and detects lost hosts. The list of hosts is in membership.ts.
//
//   listening ──every `beatMs`──▶ listening     a host silent for too long is removed
//
// Takes   host.announce · host.leave
// Emits   host.welcome · host.refused, to the joining process
//
// A host announces itself at every beat, and asks for an answer at every fourth one: the next
// message makes up for a lost one, and each side knows that the other is alive.

import { setup } from "xstate";
import { type ErrorRecord, recordError } from "../../src/errors/errors.ts";
import { beatMs } from "../../src/ports/deadlines.ts";
import { defineActor } from "../runtime/define-actor.ts";
import {
  clusterScope,
  type Mailbox,
  type MessageEvent,
  type Network,
  openMailbox,
} from "../runtime/mailbox.ts";
import type { Announcement, Membership } from "./membership.ts";

export interface HostsInput {
  readonly network: Network;
  readonly membership: Membership;
  /** Called with a process that may not join, and the reason. */
  readonly onRefused: (who: Announcement, error: ErrorRecord) => void;
}

type HostsEvent = MessageEvent<"host.announce" | "host.leave">;

const machine = setup({
  types: {} as {
    context: HostsInput & { readonly mailbox: Mailbox };
    input: HostsInput;
    events: HostsEvent;
  },
  delays: { beatMs },
  actions: {
    answer: ({ context: { membership, mailbox, onRefused }, event }) => {
      if (event.type !== "host.announce") return;
      const to = { role: "joining" as const, index: event.body.key };
      const { isAsking, ...announcement } = event.body;
      try {
        const host = membership.announce(announcement);
        if (!isAsking) return;
        mailbox.send(to, "host.welcome", { host, mayLeave: membership.mayLeave(host) });
      } catch (cause) {
        const error = recordError(cause);
        mailbox.send(to, "host.refused", { error });
        onRefused(event.body, error);
      }
    },
    leave: ({ context, event }) => {
      if (event.type === "host.leave") context.membership.leave(event.body.key);
    },
    beat: ({ context: { network, membership } }) => {
      if (network.connectedForMs() >= 4 * beatMs) membership.beat();
    },
  },
}).createMachine({
  id: "hosts",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, clusterScope, { role: "hosts", index: 0 }),
  }),
  on: {
    "host.announce": { actions: "answer" },
    "host.leave": { actions: "leave" },
  },
  initial: "listening",
  states: {
    listening: { after: { beatMs: { target: "listening", reenter: true, actions: "beat" } } },
  },
});

/** The state machine drawn in the header, as an actor. */
export const hostsMachine = defineActor(machine);
