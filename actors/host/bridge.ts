// Bridge: the actor of the thread that carries frames between this host and the other hosts of its
// generation, so that no device's thread runs an event loop for them.
//
//   opening ──thread listens──▶ carrying
//   any ──thread ended──▶ error: the generation is over (law 3)
//
// Takes   buddy.keep · buddy.left · part.offered, for which it starts an adopter
// Emits   buddy.kept, to the checkpoint coordinator

import { type ErrorActorEvent, enqueueActions, sendParent, setup } from "xstate";
import { FrameCorruptError } from "../../src/errors/errors.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import type { LinkReport } from "../../src/wire/messages/fields.ts";
import type { ReplicaCache } from "../../storage/checkpoints/replicas/replica-cache.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { type Mailbox, type MessageEvent, type Network, openMailbox } from "../runtime/mailbox.ts";
import type { BridgeReport } from "../threads/bridge-program.ts";
import { type Generation, wake } from "../threads/generation-memory.ts";
import { headOf, hostPlaceOf, hostPlaces } from "../threads/generation-spec.ts";
import type { ReplicaCommand } from "../threads/replica-service.ts";
import { adopterMachine } from "./adopter.ts";
import { lossOf, type ThreadEnded, threadLogic } from "./thread-actor.ts";

export interface BridgeInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly generation: Generation;
  /** Index of this host among the hosts of the generation. */
  readonly position: number;
  /**
   * The replica cache of this host. Files pass through the thread's port and never through an
   * event.
   */
  readonly replicas: ReplicaCache;
}

export interface BridgeContext extends BridgeInput {
  readonly mailbox: Mailbox;
  readonly name: string;
}

type Kept = Extract<BridgeReport, { type: "kept" }>;

type BridgeEvent =
  | { readonly type: "thread.ready" }
  | { readonly type: "thread.links"; readonly links: LinkReport }
  | { readonly type: "thread.kept"; readonly kept: Pick<Kept, "manifest" | "missing"> }
  | MessageEvent<"buddy.keep" | "buddy.left" | "part.offered">
  | ErrorActorEvent<unknown, string>
  | ThreadEnded;

const thread = threadLogic<BridgeContext, ReplicaCommand, BridgeReport>((input) => {
  const { network, launcher, generation, position, name, replicas } = input;
  const { spec, layout, memory } = generation;
  const { cluster, connection } = network;
  const { hostLinks: links = { linkEncryption: "auto" } } = network;
  const place = { spec: headOf(spec), memory, index: position, cluster, connection, links };
  return {
    launcher,
    name: name.replace(":", "-"),
    task: { program: "bridge", ...place, replicas: replicas.all() },
    eventOf(report): BridgeEvent | undefined {
      switch (report.type) {
        case "ready":
          return { type: "thread.ready" };
        case "links":
          return { type: "thread.links", links: report.links };
        case "copy":
          return void replicas.put(report.copy);
        case "kept": {
          const { files, cut, manifest, missing } = report;
          replicas.retain(files, cut - 1); // Parts of this cut that were handed over stay.
          return { type: "thread.kept", kept: { manifest, missing } };
        }
        case "corrupt":
          return void network.onCorrupt(new FrameCorruptError("buddy.keep", report.reason));
        default:
          return report satisfies never;
      }
    },
    wake: () => wake(generation, layout.bridge),
    feed: (send) => replicas.onPut((copy) => send({ type: "copy", copy })),
  };
});

const machine = setup({
  types: {} as { context: BridgeContext; input: BridgeInput; events: BridgeEvent },
  actors: { thread, adopter: adopterMachine },
  actions: {
    adopt: enqueueActions(({ context, event, self, enqueue }) => {
      if (event.type !== "part.offered") return;
      const { cut, device, of, parts } = event.body;
      const { spec } = context.generation;
      const isOwn =
        device < spec.devices && hostPlaceOf(spec, device).position === context.position;
      if (device >= spec.devices || isOwn) return; // No device of another host.
      const id = `adopter:${device}`;
      if (self.getSnapshot().children[id as never] === undefined) {
        enqueue.spawnChild("adopter", { id, input: { ...context, device, cut, of } });
      }
      enqueue.sendTo(id as never, { type: "parts.offered", cut, parts } as never);
    }),
    letGo: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "buddy.left") return;
      const places = hostPlaces(context.generation.spec);
      const gone = places.filter(({ host }) => event.body.hosts.includes(host));
      const command = { type: "left", positions: gone.map(({ position }) => position) } as const;
      enqueue.sendTo("thread", { type: "command", command });
    }),
    // The thread reads the manifest: with 10,000 tables that takes long.
    keep: enqueueActions(({ event, enqueue }) => {
      if (event.type !== "buddy.keep") return;
      const { manifest } = event.body;
      enqueue.sendTo("thread", { type: "command", command: { type: "keep", manifest } });
    }),
    sendKept: ({ context: { mailbox, replicas }, event }) => {
      if (event.type !== "thread.kept") return;
      const body = { host: mailbox.self.index, bytes: replicas.bytes, ...event.kept };
      mailbox.send({ role: "checkpoint", index: 0 }, "buddy.kept", body);
    },
    lose: ({ context, event }) => {
      if (event.type === "thread.ended") throw lossOf(event.end, context.name);
      if ("error" in event) throw event.error;
    },
  },
}).createMachine({
  id: "bridge",
  context: ({ input }) => {
    const { spec } = input.generation;
    const host = spec.hosts[input.position]?.host ?? 0;
    return {
      ...input,
      name: `bridge:${host}`,
      mailbox: openMailbox(input.network, spec, { role: "bridge", index: host }),
    };
  },
  invoke: { src: "thread", id: "thread", input: ({ context }) => context },
  on: {
    "thread.ended": { actions: "lose" },
    "xstate.error.actor.*": { actions: "lose" },
    "thread.kept": { actions: "sendKept" },
    "thread.links": {
      actions: sendParent(({ event }) => ({ type: "links.changed", links: event.links })),
    },
    "part.offered": { actions: "adopt" },
    "buddy.left": { actions: "letGo" },
    "buddy.keep": { actions: "keep" },
  },
  initial: "opening",
  states: {
    opening: {
      on: { "thread.ready": { target: "carrying", actions: sendParent({ type: "bridge.ready" }) } },
    },
    carrying: {},
  },
});

/** The state machine drawn in the header, as an actor. */
export const bridgeMachine = defineActor(machine);
