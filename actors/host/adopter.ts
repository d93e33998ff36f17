// Adopter: the actor of the thread that takes over the checkpoint parts of one device of a leaving
// host: it fetches them, after which that host may leave, and writes them to the store.
//
//   adopting ──thread ended──▶ error: the generation is over (law 3)
//
// Takes   parts.offered of its bridge; writer.save, in the place of the device's writer, which goes
// Emits   part.held · part.saved, to the checkpoint coordinator, repeated on writer.save

import { enqueueActions, setup } from "xstate";
import type { Launcher } from "../../src/ports/launcher.ts";
import type { ReplicaCache } from "../../storage/checkpoints/replicas/replica-cache.ts";
import type { SavedPart } from "../../storage/checkpoints/store/part-writer.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { type Mailbox, type MessageEvent, type Network, openMailbox } from "../runtime/mailbox.ts";
import type { AdopterCommand, AdopterReport } from "../threads/adopter-program.ts";
import type { Generation } from "../threads/generation-memory.ts";
import { headOf } from "../threads/generation-spec.ts";
import { lossOf, type ThreadEnded, threadLogic } from "./thread-actor.ts";
import { batchesOf } from "./writer.ts";

export interface AdopterInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly generation: Generation;
  readonly replicas: ReplicaCache;
  /** The device of the leaving host, and the number `of` of its parts of cut `cut`. */
  readonly device: number;
  readonly cut: number;
  readonly of: number;
}

/** Some parts to take over; a part may be offered again. */
export interface PartsOffered extends AdopterCommand {
  readonly type: "parts.offered";
}

type AdopterEvent =
  | PartsOffered
  | MessageEvent<"writer.save">
  | { readonly type: "thread.held"; readonly names: readonly string[] }
  | { readonly type: "thread.saved"; readonly parts: readonly SavedPart[] }
  | ThreadEnded;

export interface AdopterContext extends AdopterInput {
  readonly mailbox: Mailbox;
  /** Names of offered, held and saved parts. Filled in place as messages arrive. */
  readonly offered: Set<string>;
  readonly held: Set<string>;
  readonly saved: Map<string, SavedPart>;
}

const thread = threadLogic<AdopterContext, AdopterCommand, AdopterReport>((input) => {
  const { network, launcher, generation, device, replicas } = input;
  const { spec, memory } = generation;
  const { cluster, connection } = network;
  const roomBytes = Math.max(0, replicas.bytesMax - replicas.bytes);
  const place = { spec: headOf(spec), memory, index: device, cluster, connection, roomBytes };
  return {
    launcher,
    name: `adopter-${device}`,
    task: { program: "adopter", ...place },
    eventOf(report): AdopterEvent | undefined {
      switch (report.type) {
        case "copy":
          return void replicas.put(report.copy);
        case "held":
          return { type: "thread.held", names: report.names };
        case "saved":
          return { type: "thread.saved", parts: report.parts };
        default:
          return report satisfies never;
      }
    },
  };
});

const machine = setup({
  types: {} as { context: AdopterContext; input: AdopterInput; events: AdopterEvent },
  actors: { thread },
  actions: {
    adopt: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "parts.offered" || event.cut !== context.cut) return;
      const parts = event.parts.filter(({ name }) => !context.offered.has(name));
      for (const { name } of parts) context.offered.add(name);
      if (parts.length === 0) return;
      enqueue.sendTo("thread", { type: "command", command: { cut: event.cut, parts } });
    }),
    note: ({ context, event }) => {
      if (event.type === "thread.held") for (const name of event.names) context.held.add(name);
      if (event.type !== "thread.saved") return;
      for (const part of event.parts) context.saved.set(part.name, part);
    },
    sendHeld: ({ context: { mailbox, cut, device, of, held } }) => {
      const body = { cut, device, of, names: [...held] };
      mailbox.send({ role: "checkpoint", index: 0 }, "part.held", body);
    },
    sendSaved: ({ context: { mailbox, cut, device, of, saved } }) => {
      for (const parts of batchesOf([...saved.values()])) {
        mailbox.send({ role: "checkpoint", index: 0 }, "part.saved", { cut, device, of, parts });
      }
    },
    lose: ({ context, event }) => {
      if (event.type === "thread.ended") throw lossOf(event.end, `adopter:${context.device}`);
    },
  },
}).createMachine({
  id: "adopter",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.generation.spec, {
      role: "writer",
      index: input.device,
    }),
    offered: new Set(),
    held: new Set(),
    saved: new Map(),
  }),
  invoke: { src: "thread", id: "thread", input: ({ context }) => context },
  on: {
    "parts.offered": { actions: "adopt" },
    "writer.save": { actions: ["sendHeld", "sendSaved"] },
    "thread.held": { actions: ["note", "sendHeld"] },
    "thread.saved": { actions: ["note", "sendSaved"] },
    "thread.ended": { actions: "lose" },
  },
});

/** The state machine drawn in the header, as an actor. */
export const adopterMachine = defineActor(machine);
