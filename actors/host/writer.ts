// Writer: the actor of the thread that writes the checkpoint parts of one device to disk while the
// device trains on.
//
//   idle ──a cut came──▶ writing ──its parts are on disk──▶ idle
//                         ▲ └──▶ paused   the disk is full: the writer waits for room
//                         └───────┘
//   any ──thread ended──▶ error: the generation is over (law 3)
//
// Takes   writer.save { cut }
// Emits   to the checkpoint coordinator part.saved and, of a host that leaves, to the bridge of
//         another one part.offered, both repeated on writer.save; to the training coordinator
//         writer.room; to its host generation parts.saved
//
// Invariants
//   W1. A part is reported as saved, with its hash, only after it is on disk.

import { assign, sendParent, setup } from "xstate";
import type { Launcher } from "../../src/ports/launcher.ts";
import { inTurns, type Steps } from "../../src/ports/turns.ts";
import { isInMemory } from "../../storage/checkpoints/replicas/parts-in-memory.ts";
import type { ReplicaCache } from "../../storage/checkpoints/replicas/replica-cache.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { type Mailbox, type MessageEvent, type Network, openMailbox } from "../runtime/mailbox.ts";
import type { Generation } from "../threads/generation-memory.ts";
import { headOf } from "../threads/generation-spec.ts";
import type { WriterReport } from "../threads/writer-program.ts";
import { lossOf, type ThreadEnded, threadLogic } from "./thread-actor.ts";

export interface WriterInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly generation: Generation;
  /** The device that saves the parts. */
  readonly device: number;
  /** The replica cache of the host. Files go there directly and never through an event. */
  readonly replicas: ReplicaCache;
}

type Saved = Extract<WriterReport, { type: "saved" }>;

/**
 * The event with which a writer reports the saved parts of `device` to its host generation, which
 * passes it to the device.
 */
export interface PartsSaved extends Pick<Saved, "cut" | "parts"> {
  readonly type: "parts.saved";
  readonly device: number;
}

type WriterEvent =
  | MessageEvent<"writer.save">
  | { readonly type: "thread.writing" | "thread.paused" }
  | { readonly type: "thread.saved"; readonly report: Saved }
  | ThreadEnded;

const checkpoint = { role: "checkpoint", index: 0 } as const;

const thread = threadLogic<WriterInput, never, WriterReport>((input) => {
  const { launcher, generation, device, replicas } = input;
  const { spec, memory } = generation;
  return {
    launcher,
    name: `writer-${device}`,
    task: { program: "writer", spec: headOf(spec), memory, index: device },
    eventOf(report): WriterEvent | undefined {
      switch (report.type) {
        case "copy":
          return void replicas.put(report.copy);
        case "saved":
          return { type: "thread.saved", report };
        case "writing":
        case "paused":
          return { type: `thread.${report.type}` };
        default:
          return report satisfies never;
      }
    },
  };
});

const machine = setup({
  types: {} as {
    context: WriterInput & { readonly mailbox: Mailbox; readonly saved: Saved | undefined };
    input: WriterInput;
    events: WriterEvent;
  },
  actors: { thread },
  actions: {
    noteSaved: assign({
      saved: ({ context, event }) => (event.type === "thread.saved" ? event.report : context.saved),
    }),
    // Sending many part reports in one turn would delay heartbeats, so it takes several turns. If
    // reports are lost, the checkpoint coordinator requests the missing ones again.
    sendSaved: ({ context: { network, mailbox, saved, device } }) => {
      if (saved === undefined) return;
      const { cut, parts: all, to = 0 } = saved;
      const of = all.length;
      const sending = function* (): Steps<void> {
        // A device without parts reports that too: its leaving host may then end.
        if (of === 0) mailbox.send(checkpoint, "part.saved", { cut, device, of, parts: [] });
        for (const parts of batchesOf(all.filter((part) => !isInMemory(part)))) {
          const body = { cut, device, of, parts }; // W1
          mailbox.send(checkpoint, "part.saved", body);
          yield;
        }
        for (const parts of batchesOf(all.filter(isInMemory))) {
          const body = { cut, device, of, parts };
          mailbox.send({ role: "bridge", index: to }, "part.offered", body);
          yield;
        }
      };
      inTurns(network.clock, sending()).catch(() => {});
    },
    notifyParent: sendParent(({ context: { saved, device } }): PartsSaved => {
      return { type: "parts.saved", device, cut: saved?.cut ?? 0, parts: saved?.parts ?? [] };
    }),
    sendRoom: ({ context: { mailbox, device } }, isAwaited: boolean) => {
      mailbox.send({ role: "coordinator", index: 0 }, "writer.room", { device, isAwaited });
    },
    lose: ({ context, event }) => {
      if (event.type === "thread.ended") throw lossOf(event.end, `writer:${context.device}`);
    },
  },
  guards: {
    isSaved: ({ context, event }) =>
      event.type === "writer.save" && event.body.cut === context.saved?.cut,
  },
}).createMachine({
  id: "writer",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.generation.spec, {
      role: "writer",
      index: input.device,
    }),
    saved: undefined,
  }),
  invoke: { src: "thread", input: ({ context }) => context },
  on: {
    "thread.ended": { actions: "lose" },
    "writer.save": { guard: "isSaved", actions: "sendSaved" },
    "thread.writing": { target: ".writing" },
    "thread.paused": { target: ".paused" },
    "thread.saved": { target: ".idle", actions: ["noteSaved", "sendSaved", "notifyParent"] },
  },
  initial: "idle",
  states: {
    idle: {},
    writing: {},
    paused: {
      entry: { type: "sendRoom", params: true },
      exit: { type: "sendRoom", params: false },
    },
  },
});

/** Most hashes in a message of several parts: a tenth of the bytes that a message may have. */
const hashesMax = 1000;

/** The parts in order, several a message: neither messages nor their number grow without limit. */
export function* batchesOf(parts: Saved["parts"]): Generator<Saved["parts"]> {
  let [batch, hashes]: [Saved["parts"][number][], number] = [[], 0];
  for (const part of parts) {
    const more = 1 + part.base.length + part.leaves.length;
    if (batch.length > 0 && hashes + more > hashesMax) {
      yield batch;
      [batch, hashes] = [[], 0];
    }
    batch.push(part);
    hashes += more;
  }
  if (batch.length > 0) yield batch;
}

/** The state machine drawn in the header, as an actor. */
export const writerMachine = defineActor(machine);
