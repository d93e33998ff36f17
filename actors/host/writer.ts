// Writer: answers for the thread that writes what one device saves, while the device trains on.
//
//   idle ──a cut came──▶ writing ──its parts are on disk──▶ idle
//                         ▲ └──▶ paused   the disk is full: it waits for room
//                         └───────┘
//   any ──thread ended──▶ error: the generation is over (law 3)
//
// Takes   writer.save { cut }
// Tells   the checkpoint coordinator: part.saved, also when it is asked again
//
// Invariants
//   W1. A part is told when it is on disk, and its hash is known.

import { assign, fromCallback, setup } from "xstate";
import type { Launcher, ThreadEnd } from "../../src/ports/launcher.ts";
import type { Copies } from "../../storage/replicas/replica-cache.ts";
import { defineActor } from "../runtime/define-actor.ts";
import type { MessageEvent } from "../runtime/listening.ts";
import { type Mailbox, type Network, openMailbox } from "../runtime/mailbox.ts";
import type { Generation } from "../threads/generation-memory.ts";
import { threadFile } from "../threads/thread-file.ts";
import type { WriterReport } from "../threads/writer-program.ts";
import { lossOf } from "./thread-end.ts";

export interface WriterInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly generation: Generation;
  /** Whose parts it writes. */
  readonly device: number;
  /** Those of the host: files pass into them, and through no event. */
  readonly copies: Copies;
}

type Saved = Extract<WriterReport, { type: "saved" }>;

type WriterEvent =
  | MessageEvent<"writer.save">
  | { readonly type: "thread.writing" | "thread.paused" }
  | { readonly type: "thread.saved"; readonly report: Saved }
  | { readonly type: "thread.ended"; readonly end: ThreadEnd };

const threadLogic = fromCallback<{ type: string }, WriterInput>(({ input, sendBack }) => {
  const { generation, device, launcher, copies } = input;
  const { spec, memory } = generation;
  const task = { program: "writer", spec, memory, index: device };
  const thread = launcher.start<never, WriterReport>(threadFile, task, `writer-${device}`);
  thread.onReport((report) => {
    if (report.type === "copy") copies.put(report.copy);
    else sendBack({ type: `thread.${report.type}`, report });
  });
  void thread.ended.then((end) => sendBack({ type: "thread.ended", end }));
  return () => thread.kill();
});

const machine = setup({
  types: {} as {
    context: WriterInput & { readonly mailbox: Mailbox; readonly saved: Saved | undefined };
    input: WriterInput;
    events: WriterEvent;
  },
  actors: { thread: threadLogic },
  actions: {
    noteSaved: assign({
      saved: ({ context, event }) => (event.type === "thread.saved" ? event.report : context.saved),
    }),
    // One message a part: they have room in it, however many parts there are. W1
    tellSaved: ({ context: { mailbox, saved, device } }) => {
      for (const part of saved?.parts ?? []) {
        const body = { cut: saved?.cut ?? 0, device, parts: [part] };
        mailbox.tell({ role: "checkpoint", index: 0 }, "part.saved", body);
      }
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
    "writer.save": { guard: "isSaved", actions: "tellSaved" },
    "thread.writing": { target: ".writing" },
    "thread.paused": { target: ".paused" },
    "thread.saved": { target: ".idle", actions: ["noteSaved", "tellSaved"] },
  },
  initial: "idle",
  states: { idle: {}, writing: {}, paused: {} },
});

/** As drawn above. */
export const writerMachine = defineActor(machine);
