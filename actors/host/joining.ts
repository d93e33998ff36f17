// Joining: makes this process a host of a cluster that runs elsewhere, for the lifetime of the
// process.
//
//                host.welcome                          host.welcome of another index: joined again
//   announcing ───────────────▶ joined ── host ──────────▶ joined
//       ▲                         │
//       └── cluster unresponsive ─┘      its generations end: no coordinator is left to end them
//   any ──host.refused──▶ error
//
// Takes   host.welcome · host.refused
// Emits   host.announce, to the host registry, at every beat

import { type Actor, assign, createActor, fromCallback, setup } from "xstate";
import { RemoteError } from "../../src/errors/errors.ts";
import { beatMs } from "../../src/ports/deadlines.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import { actorClock, defineActor } from "../runtime/define-actor.ts";
import type { Incident } from "../runtime/incident.ts";
import {
  clusterScope,
  type Mailbox,
  type MessageEvent,
  type Network,
  openMailbox,
} from "../runtime/mailbox.ts";
import { type SupervisorInput, supervisorMachine } from "../runtime/supervisor.ts";
import { hostMachine } from "./host.ts";
import type { Announcement } from "./membership.ts";

export interface JoiningInput {
  readonly network: Network;
  readonly launcher: Launcher;
  /** Makes the announcement of this process, called at each beat; its key stays the same. */
  readonly announcement: () => Announcement;
  /** Called with the index in the cluster, or with undefined when the cluster is unreachable. */
  readonly onHost: (host: number | undefined) => void;
  /** Called when no run uses this host any more, after it announced that it is leaving. */
  readonly onMayLeave: () => void;
}

interface JoiningContext extends JoiningInput {
  readonly mailbox: Mailbox;
  readonly host: number | undefined;
}

type JoiningEvent = MessageEvent<"host.welcome" | "host.refused">;

/**
 * A cluster silent for this long has ended or is unreachable: its runs continued without this host
 * long before.
 */
const clusterSilenceMs = 10_000;

/** An answer to every such announcement is enough once the process has joined. */
const askingBeats = 4;

/**
 * Announces this process at every beat. It asks for answers at its first beats, as frames may be
 * lost, and while it is leaving.
 */
const announcing = fromCallback<{ type: string }, JoiningContext>(({ input }) => {
  const { network, mailbox, announcement } = input;
  let cancel = () => {};
  let beats = 0;
  const announce = () => {
    const own = announcement();
    const isAsking = own.isLeaving || beats < askingBeats || beats % askingBeats === 0;
    beats++;
    mailbox.send({ role: "hosts", index: 0 }, "host.announce", { ...own, isAsking });
    cancel = network.clock.after(beatMs, announce);
  };
  announce();
  return () => cancel();
});

const machine = setup({
  types: {} as { context: JoiningContext; input: JoiningInput; events: JoiningEvent },
  actors: { announcing, host: hostMachine },
  delays: { clusterSilenceMs },
  actions: {
    noteHost: assign({
      host: ({ context, event }) =>
        event.type === "host.welcome" ? event.body.host : context.host,
    }),
    clearHost: assign({ host: undefined }),
    reportHost: ({ context }) => context.onHost(context.host),
    reportMayLeave: ({ context, event }) => {
      if (event.type === "host.welcome" && event.body.mayLeave) context.onMayLeave();
    },
    fail: ({ event }) => {
      if (event.type === "host.refused") throw new RemoteError(event.body.error);
    },
  },
  guards: {
    isSame: ({ context, event }) =>
      event.type === "host.welcome" && event.body.host === context.host,
  },
}).createMachine({
  id: "joining",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, clusterScope, {
      role: "joining",
      index: input.announcement().key,
    }),
    host: undefined,
  }),
  invoke: { src: "announcing", input: ({ context }) => context },
  on: {
    "host.refused": { actions: "fail" },
  },
  initial: "announcing",
  states: {
    announcing: {
      on: { "host.welcome": { target: "joined", actions: ["noteHost", "reportHost"] } },
    },
    joined: {
      invoke: {
        src: "host",
        id: "host",
        input: ({ context }) => {
          const { network, launcher, host, announcement } = context;
          if (host === undefined) throw new RangeError("This host has no index");
          return { network, launcher, host, devices: announcement().devices };
        },
      },
      on: {
        "host.welcome": { target: "joined", reenter: true, actions: ["noteHost", "reportHost"] },
      },
      initial: "heard",
      states: {
        heard: {
          on: {
            "host.welcome": {
              guard: "isSame",
              target: "heard",
              reenter: true,
              actions: "reportMayLeave",
            },
          },
          after: {
            clusterSilenceMs: {
              target: "#joining.announcing",
              actions: ["clearHost", "reportHost"],
            },
          },
        },
      },
    },
  },
});

/** The state machine drawn in the header, as an actor. */
export const joiningMachine = defineActor(machine);

/** Restarts of the joining actor allowed within a minute, before the process gives up. */
const intensity = { restartsMax: 10, windowMs: 60_000 } as const;

/**
 * The actor tree of a host process, not yet started. `onIncident` receives each failure that the
 * tree handles by a restart.
 */
export function joiningTree(
  options: JoiningInput & { readonly onIncident: (incident: Incident) => void },
): Actor<typeof supervisorMachine> {
  const { onIncident: onRestart, ...joining } = options;
  const { network, announcement } = joining;
  const input: SupervisorInput = {
    name: "process",
    strategy: "one-for-one",
    intensity,
    clock: network.clock,
    mailbox: openMailbox(network, clusterScope, { role: "process", index: announcement().key }),
    onRestart,
    children: [
      {
        id: "joining",
        restart: "permanent",
        start: () => ({ logic: joiningMachine, input: joining }),
      },
    ],
  };
  return createActor(supervisorMachine, { input, clock: actorClock(network.clock) });
}
