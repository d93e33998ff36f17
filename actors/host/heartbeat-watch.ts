// Host watch: fails when one host of a generation sends no more heartbeats. The coordinator passes
// them on to the watch. The membership also tells of a host process that is gone, even before the
// first heartbeat of that host.
//
//   alive ──`silenceMs`──▶ doubting ──`doubtMs`──▶ error
//     ▲ └──host.progress─────┘  └── the broker is away: doubting, anew

import { fromCallback, setup } from "xstate";
import { PeerLostError } from "../../src/errors/errors.ts";
import { beatMs } from "../../src/ports/deadlines.ts";
import { defineActor } from "../runtime/define-actor.ts";
import type { MessageEvent } from "../runtime/listening.ts";
import type { Network } from "../runtime/mailbox.ts";
import { waiting } from "../runtime/wait-graph.ts";
import type { HostShare, Membership } from "./membership.ts";

export interface HostWatchInput {
  readonly network: Network;
  readonly host: number;
  readonly run: string;
  /** The silence after which the membership gives a host up; here it counts a beat less. */
  readonly hostSilenceMs: number;
}

/** The longest silence of a host that trains. */
function boundOf({ hostSilenceMs }: HostWatchInput): number {
  return hostSilenceMs - beatMs;
}

const machine = setup({
  types: {} as {
    context: HostWatchInput;
    input: HostWatchInput;
    events: MessageEvent<"host.progress">;
  },
  actors: { waiting },
  delays: {
    silenceMs: ({ context }) => boundOf(context) - beatMs,
    doubtMs: beatMs,
  },
  actions: {
    fail: ({ context }) => {
      throw new PeerLostError(`host:${context.host}`, `no heartbeat for ${boundOf(context)} ms`);
    },
  },
  guards: {
    couldBeHeard: ({ context }) => context.network.connectedForMs() >= boundOf(context),
  },
}).createMachine({
  id: "hostWatch",
  context: ({ input }) => input,
  initial: "alive",
  states: {
    alive: {
      after: { silenceMs: "doubting" },
      on: { "host.progress": { target: "alive", reenter: true } },
    },
    // A busy thread first reads the heartbeats that have come; only then does the silence count.
    doubting: {
      invoke: {
        src: "waiting",
        input: ({ context, context: { network, host, run } }) => ({
          ...{ network, run, who: "coordinator:0", whom: [`host:${host}`], what: "a heartbeat" },
          sinceMs: network.clock.now() - boundOf(context) + beatMs,
        }),
      },
      after: {
        doubtMs: [
          { guard: "couldBeHeard", actions: "fail" },
          { target: "doubting", reenter: true },
        ],
      },
      on: { "host.progress": "alive" },
    },
  },
});

/** As drawn above. */
export const hostWatchMachine = defineActor(machine, { hears: "nothing" });

/** Raises host.gone for a host of the generation that is not in the cluster, now or later. */
export const watchingMembership = fromCallback<
  { type: string },
  { readonly membership: Membership; readonly hosts: readonly HostShare[] }
>(({ input: { membership, hosts }, sendBack }) => {
  const look = () => {
    const gone = hosts.find(({ host }) => !membership.has(host));
    if (gone !== undefined) sendBack({ type: "host.gone", host: gone.host });
  };
  look();
  return membership.onChange(look);
});
