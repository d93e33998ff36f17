// Reader: answers for one thread that reads batches into the ring. It holds no state of the run, so
// it alone is restarted when it fails; the devices wait a little longer for their batch.
//
//   reading ──thread ended──▶ error: its supervisor starts another
//
// Invariants
//   R1. Its thread starts when the exit of the one before it has been seen: two never write into
//       one ring (law 3).

import { fromCallback, setup } from "xstate";
import type { Launcher, Thread, ThreadEnd } from "../../src/ports/launcher.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { type Mailbox, type Network, openMailbox } from "../runtime/mailbox.ts";
import type { Generation } from "../threads/generation-memory.ts";
import { threadFile } from "../threads/thread-file.ts";
import { lossOf } from "./thread-end.ts";

export interface ReaderInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly generation: Generation;
  readonly reader: number;
  readonly place: ReaderPlace;
}

/** What a reader leaves to the one that takes its place. */
export interface ReaderPlace {
  /** Resolves when the last thread here is gone. */
  lastEnded: Promise<unknown>;
}

type ReaderEvent = { readonly type: "thread.ended"; readonly end: ThreadEnd };

const threadLogic = fromCallback<{ type: string }, ReaderInput>(({ input, sendBack }) => {
  const { generation, reader, launcher, place } = input;
  const { spec, memory } = generation;
  const task = { program: "reader", spec, memory, index: reader };
  let thread: Thread<never, never> | undefined;
  let isStopped = false;
  void place.lastEnded.then(() => {
    if (isStopped) return;
    thread = launcher.start<never, never>(threadFile, task, `reader-${reader}`); // R1
    place.lastEnded = thread.ended;
    void thread.ended.then((end) => sendBack({ type: "thread.ended", end }));
  });
  return () => {
    isStopped = true;
    thread?.kill();
  };
});

const machine = setup({
  types: {} as {
    context: ReaderInput & { readonly mailbox: Mailbox };
    input: ReaderInput;
    events: ReaderEvent;
  },
  actors: { thread: threadLogic },
  actions: {
    lose: ({ context, event }) => {
      if (event.type === "thread.ended") throw lossOf(event.end, `reader:${context.reader}`);
    },
  },
}).createMachine({
  id: "reader",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.generation.spec, {
      role: "reader",
      index: input.reader,
    }),
  }),
  invoke: { src: "thread", input: ({ context }) => context },
  on: {
    "thread.ended": { actions: "lose" },
  },
  initial: "reading",
  states: { reading: {} },
});

/** As drawn above. */
export const readerMachine = defineActor(machine);
