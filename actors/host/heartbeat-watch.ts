// Heartbeat watch: fails when one host of a generation stops sending heartbeats. The coordinator
// passes the heartbeats on to the watch. The membership reports a host whose announcements are
// missing, also before the host's first heartbeat.
//
//   alive ──`silenceMs`──▶ doubting ──`doubtMs`──▶ error
//     ▲ └──host.progress─────┘  └── no broker connection: doubting again

import { fromCallback, setup } from "xstate";
import { PeerLostError } from "../../src/errors/errors.ts";
import { beatMs } from "../../src/ports/deadlines.ts";
import { defineActor } from "../runtime/define-actor.ts";
import type { MessageEvent, Network } from "../runtime/mailbox.ts";
import { waiting } from "../runtime/wait-graph.ts";
import type { HostShare, Membership } from "./membership.ts";

export interface HostWatchInput {
  readonly network: Network;
  readonly host: number;
  readonly run: string;
  /** The silence after which the membership removes a host; the watch waits one beat less. */
  readonly hostSilenceMs: number;
}

/** Longest silence of a host that is training. */
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
    isBrokerConnected: ({ context }) => context.network.connectedForMs() >= boundOf(context),
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
    // A busy coordinator first reads the heartbeats already received; only then does silence count.
    doubting: {
      invoke: {
        src: "waiting",
        input: ({ context, context: { network, host, run } }) => ({
          ...{
            network,
            run,
            waiter: "coordinator:0",
            awaited: [`host:${host}`],
            what: "a heartbeat",
          },
          sinceMs: network.clock.now() - boundOf(context) + beatMs,
        }),
      },
      after: {
        doubtMs: [
          { guard: "isBrokerConnected", actions: "fail" },
          { target: "doubting", reenter: true },
        ],
      },
      on: { "host.progress": "alive" },
    },
  },
});

/** The state machine drawn in the header, as an actor. */
export const hostWatchMachine = defineActor(machine, { receives: "nothing" });

/**
 * Raises host.gone for each host of the generation that has left the cluster; rechecks on every
 * change of the membership.
 */
export const watchingMembership = fromCallback<
  { type: string },
  { readonly membership: Membership; readonly hosts: readonly HostShare[] }
>(({ input: { membership, hosts }, sendBack }) => {
  const look = () => {
    for (const { host } of hosts) {
      if (!membership.has(host)) sendBack({ type: "host.gone", host });
    }
  };
  look();
  return membership.onChange(look);
});
