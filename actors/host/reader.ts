// Reader: the actor of one thread that reads batches into the ring. A reader holds no state of the
// run, so its supervisor restarts it alone; the devices wait somewhat longer for their batch.
//
//   reading ──reader.drain──▶ draining ──its thread has ended, or takes too long──▶ reading, with
//      │                          │                                                 a new thread
//      └──────thread failed───────┴──▶ error: its supervisor starts a new reader
//
// Takes   reader.rate · reader.drain; reader.beat from its supervisor
// Emits   reader.limited · reader.drained, to the coordinator
//
// Invariants
//   R1. Its thread starts only after the exit of the previous thread was seen: two threads never
//       write into one ring (law 3).
//   R2. Its commands are stored on its board (../threads/data/reader-board.ts): a replacement obeys
//       the same limit, and a repeated request is executed once.

import { assign, setup } from "xstate";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import { defineActor } from "../runtime/define-actor.ts";
import {
  type Address,
  type Mailbox,
  type MessageEvent,
  type Network,
  openMailbox,
} from "../runtime/mailbox.ts";
import { boardOf } from "../threads/data/reader-board.ts";
import { type Generation, wake } from "../threads/generation-memory.ts";
import { headOf } from "../threads/generation-spec.ts";
import { readerPosition } from "./reader-report.ts";
import { lossOf, type ThreadEnded, type ThreadPlace, threadLogic } from "./thread-actor.ts";

export interface ReaderInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly generation: Generation;
  readonly reader: number;
  /** Passed from a reader to its replacement. R1 */
  readonly place: ThreadPlace;
}

export interface ReaderContext extends ReaderInput {
  readonly mailbox: Mailbox;
  /** Drain requests that are not yet executed. */
  readonly draining: readonly number[];
  /** Samples served at each of the last beats, oldest first. */
  readonly recent: readonly Served[];
}

interface Served {
  readonly atMs: number;
  readonly samples: number;
}

type ReaderEvent =
  | ThreadEnded
  | MessageEvent<"reader.rate" | "reader.drain">
  | { readonly type: "reader.beat" };

const coordinator: Address = { role: "coordinator", index: 0 };

/** Beats of the host, about two seconds, over which a reader's rate is averaged. */
const beatsMax = 9;

const thread = threadLogic<ReaderInput>(({ network, launcher, generation, reader, place }) => {
  const { spec, memory } = generation;
  const { cluster, connection } = network;
  const service = spec.job.preprocessing && { cluster, connection };
  return {
    launcher,
    name: `reader-${reader}`,
    task: { program: "reader", spec: headOf(spec), memory, index: reader, service },
    place,
    eventOf: () => undefined,
  };
});

const machine = setup({
  types: {} as { context: ReaderContext; input: ReaderInput; events: ReaderEvent },
  actors: { thread },
  delays: { drainMs: ({ context }) => deadlinesOf(context.generation.spec.job).drain },
  actions: {
    lose: ({ context, event }) => {
      count(context, "failures");
      if (event.type === "thread.ended") throw lossOf(event.end, `reader:${context.reader}`);
    },
    obey: ({ context, event }) => {
      if (event.type !== "reader.rate") return;
      const { command, samplesPerSecond } = event.body;
      const board = ownBoard(context);
      if (command > board.get("limitCommand")) {
        board.set("limitCommand", command); // R2
        board.set("limit", samplesPerSecond);
        ring(context);
      }
      const { mailbox, reader } = context;
      mailbox.send(coordinator, "reader.limited", { command, reader });
    },
    noteDrain: assign({
      draining: ({ context, event }) => {
        if (event.type !== "reader.drain") return context.draining;
        return [...new Set([...context.draining, event.body.command])];
      },
    }),
    readOn: ({ context }) => {
      ownBoard(context).set("isDraining", 0);
    },
    drain: ({ context }) => {
      ownBoard(context).set("isDraining", 1);
      ring(context);
    },
    noteDrained: assign(({ context, event }) => {
      const board = ownBoard(context);
      count(context, "drains");
      board.set("wasForced", event.type === "thread.ended" ? 0 : 1);
      board.set("drainCommand", Math.max(board.get("drainCommand"), ...context.draining)); // R2
      for (const command of context.draining) sendDrained(context, command);
      return { draining: [] };
    }),
    sendDrained: ({ context, event }) => {
      if (event.type === "reader.drain") sendDrained(context, event.body.command);
    },
    noteBeat: assign({
      recent: ({ context }) => {
        const { samples } = ownBoard(context).figures;
        const now = { atMs: context.network.clock.now(), samples };
        return [...context.recent, now].slice(-beatsMax);
      },
    }),
  },
  guards: {
    isDone: ({ context, event }) =>
      event.type === "reader.drain" && event.body.command <= ownBoard(context).get("drainCommand"),
    hasFinished: ({ event }) => event.type === "thread.ended" && event.end.kind === "finished",
  },
}).createMachine({
  id: "reader",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.generation.spec, {
      role: "reader",
      index: input.reader,
    }),
    draining: [],
    recent: [],
  }),
  on: {
    "reader.rate": { actions: "obey" },
    "reader.beat": { actions: "noteBeat" },
    "reader.drain": { guard: "isDone", actions: "sendDrained" },
    "thread.ended": { actions: "lose" },
  },
  initial: "working",
  states: {
    working: {
      entry: "readOn",
      invoke: { src: "thread", input: ({ context }) => context },
      initial: "reading",
      states: {
        reading: {
          on: {
            "reader.drain": [
              { guard: "isDone", actions: "sendDrained" },
              { target: "draining", actions: "noteDrain" },
            ],
          },
        },
        draining: {
          entry: "drain",
          on: {
            "reader.drain": { actions: "noteDrain" },
            "thread.ended": {
              guard: "hasFinished",
              target: "#reader.working",
              reenter: true,
              actions: "noteDrained",
            },
          },
          after: {
            drainMs: { target: "#reader.working", reenter: true, actions: "noteDrained" },
          },
        },
      },
    },
  },
});

/** The state machine drawn in the header, as an actor. */
export const readerMachine = defineActor(machine);

function ownBoard({ generation, reader }: ReaderInput) {
  const { memory, spec } = generation;
  return boardOf(memory.readers, reader % spec.job.readers);
}

function count(context: ReaderInput, what: "failures" | "drains"): void {
  const board = ownBoard(context);
  board.set(what, board.get(what) + 1);
}

/** Wakes the thread to read its board. */
function ring({ generation, reader }: ReaderInput): void {
  const { devices, job } = generation.spec;
  wake(generation, devices + (reader % job.readers));
}

function sendDrained(context: ReaderContext, command: number): void {
  const { mailbox, reader, generation } = context;
  const isForced = ownBoard(context).get("wasForced") === 1;
  const body = { command, reader, isForced, position: readerPosition(generation, reader) };
  mailbox.send(coordinator, "reader.drained", body);
}
