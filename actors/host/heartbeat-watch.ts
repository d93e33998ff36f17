// Host watch: hears the heartbeats of one host of a generation, and fails when they stay out. A
// host process that is gone is told by the membership too, also before its first heartbeat.
//
//   alive ──`silenceMs`──▶ doubting ──`doubtMs`──▶ error
//     ▲ └──host.progress─────┘  └── the broker is away: doubting, anew

import { fromCallback, setup } from "xstate";
import { PeerLostError } from "../../src/errors/errors.ts";
import type { MessageEvent } from "../runtime/listening.ts";
import type { Network } from "../runtime/mailbox.ts";
import { waiting } from "../runtime/wait-graph.ts";
import { beatMs } from "./host-generation.ts";
import type { HostShare, Membership } from "./membership.ts";

export interface HostWatchInput {
  readonly network: Network;
  readonly host: number;
  readonly run: string;
}

/** As drawn above. */
export const hostWatchMachine = setup({
  types: {} as {
    context: HostWatchInput;
    input: HostWatchInput;
    events: MessageEvent<"host.progress">;
  },
  actors: { waiting },
  delays: { silenceMs: 3 * beatMs, doubtMs: beatMs },
  actions: {
    fail: ({ context }) => {
      throw new PeerLostError(`host:${context.host}`, `no heartbeat for ${4 * beatMs} ms`);
    },
  },
  guards: {
    couldBeHeard: ({ context }) => context.network.connectedForMs() >= 4 * beatMs,
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
    // What this thread was too busy to read is read before the silence counts.
    doubting: {
      invoke: {
        src: "waiting",
        input: ({ context: { network, host, run } }) => ({
          ...{ network, run, who: "coordinator:0", whom: [`host:${host}`], what: "a heartbeat" },
          sinceMs: network.clock.now() - 3 * beatMs,
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

/** Tells of a host of the generation that the cluster has no more, as of now and from now on. */
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
