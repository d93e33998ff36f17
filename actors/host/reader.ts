// Reader: answers for one thread that reads batches into the ring. A reader holds no state of the
// run, so its supervisor restarts it alone; the devices wait a little longer for their batch.
//
//   reading ──thread ended──▶ error: its supervisor starts another
//
// Invariants
//   R1. Its thread starts when the exit of the thread before it has been seen: two threads never
//       write into one ring (law 3).

import { setup } from "xstate";
import type { Launcher } from "../../src/ports/launcher.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { type Mailbox, type Network, openMailbox } from "../runtime/mailbox.ts";
import type { Generation } from "../threads/generation-memory.ts";
import { lossOf, type ThreadEnded, type ThreadPlace, threadLogic } from "./thread-actor.ts";

export interface ReaderInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly generation: Generation;
  readonly reader: number;
  /** Passes from a reader to the reader that replaces it. R1 */
  readonly place: ThreadPlace;
}

const thread = threadLogic<ReaderInput>(({ launcher, generation, reader, place }) => {
  const { spec, memory } = generation;
  return {
    launcher,
    name: `reader-${reader}`,
    task: { program: "reader", spec, memory, index: reader },
    place,
    eventOf: () => undefined,
  };
});

const machine = setup({
  types: {} as {
    context: ReaderInput & { readonly mailbox: Mailbox };
    input: ReaderInput;
    events: ThreadEnded;
  },
  actors: { thread },
  actions: {
    lose: ({ context, event }) => {
      throw lossOf(event.end, `reader:${context.reader}`);
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
