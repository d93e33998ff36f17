// Trainer: the actor of a device of asynchronous training. It drives the threads of one trainer,
// and reports the saved parts of the parameter servers on its device, as a device of synchronous
// training reports those of its rows; so the coordinators treat both kinds alike.
//
//              all threads ready      device.run · evaluate · save
//   starting ────────────────▶ paused ─────────────────────────────▶ busy
//                                ▲                                     │
//                                └────────────── answered ─────────────┘
//   any ──a thread ended──▶ error: the generation replaces the trainer (generation.ts)
//
// Takes   questions (../questions.ts) · device.pause; writer.save, as the writer of its parts;
//         servers.saved of its generation
// Emits   device.ready · answers (../questions.ts) · part.saved; servers.save, to its generation
//
// Invariants
//   F1. A cut is taken between two windows: no thread trains and no push is on its way, so that all
//       servers save the updates of the same batches.
//   F2. A pause takes effect after the furthest batch that a thread of the trainer has begun: the
//       others train up to it, so that all stop at the same step (M1 of trainer-memory.ts).
//   F3. Batches and samples are counted in the memory of the trainer, also those of threads that
//       were killed.

import { assign, enqueueActions, fromCallback, sendParent, setup } from "xstate";
import type {
  ReachedWindow,
  TrainerCommand,
  TrainerReport,
} from "../../../src/asynchronous/parameter-servers.ts";
import { beginWindow, pauseTrainer } from "../../../src/asynchronous/trainer-memory.ts";
import { ringDoorbell } from "../../../src/exchange/cells.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import type { Launcher } from "../../../src/ports/launcher.ts";
import { inTurns, type Steps } from "../../../src/ports/turns.ts";
import type { SavedPart } from "../../../storage/checkpoints/store/part-writer.ts";
import { defineActor } from "../../runtime/define-actor.ts";
import {
  type Mailbox,
  type MessageEvent,
  type Network,
  openMailbox,
} from "../../runtime/mailbox.ts";
import type { GenerationSpec } from "../../threads/generation-spec.ts";
import type { ThreadTask } from "../../threads/thread-program.ts";
import {
  type Answer,
  answeredWith,
  asked,
  checkpoint,
  coordinator,
  paused,
  type Question,
  type Questioned,
  questionGuards,
  sendAnswer,
  unasked,
} from "../questions.ts";
import { lossOf, type ThreadEnded, threadLogic } from "../thread-actor.ts";
import { batchesOf } from "../writer.ts";
import type { TrainerSeat } from "./trainer-seat.ts";

export interface TrainerInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly spec: GenerationSpec;
  /** The trainer's memory and counts, which outlive the actor. */
  readonly seat: TrainerSeat;
  /** Tasks of its threads, those that train first. */
  readonly tasks: readonly { readonly name: string; readonly task: ThreadTask }[];
  /** Bytes of the checkpoint that the servers on its device have restored. */
  readonly storeBytes: number;
}

/** The servers on the trainer's device have saved their parts of a cut; `parts`: of all of them. */
export interface ServersSaved {
  readonly type: "servers.saved";
  readonly cut: number;
  readonly parts: readonly SavedPart[];
}

/** Requests from the generation that the servers on a device save a cut. */
export interface SaveServers {
  readonly type: "servers.save";
  readonly device: number;
  readonly cut: number;
}

export interface TrainerContext extends TrainerInput, Questioned {
  /** The answers of its threads to the command in progress; at the start, that they are ready. */
  readonly reports: ReadonlyMap<number, TrainerReport>;
  /** How its first thread computes. */
  readonly kernels: { readonly arithmetic: string; readonly set: string };
  /** The newest parts of its servers. */
  readonly saved: ServersSaved | undefined;
}

type TrainerEvent =
  | Question
  | MessageEvent<"device.pause" | "writer.save">
  | ServersSaved
  | { readonly type: "thread.reported"; readonly thread: number; readonly report: TrainerReport }
  | ThreadEnded;

const thread = threadLogic<
  Pick<TrainerInput, "launcher" | "seat"> & {
    readonly thread: number;
  } & TrainerInput["tasks"][number],
  TrainerCommand,
  TrainerReport
>(({ launcher, seat, name, task, thread }) => ({
  launcher,
  name,
  task,
  wake: () => ringDoorbell(new Int32Array(seat.memory.words), thread),
  eventOf: (report) => ({ type: "thread.reported", thread, report }) as TrainerEvent,
}));

/** Receives requests to the device's writer: a trainer has no separate writer. */
const hearingWriter = fromCallback<{ type: string }, TrainerContext>(({ input, sendBack }) => {
  const { network, spec, seat } = input;
  const mailbox = openMailbox(network, spec, { role: "writer", index: seat.device });
  const subscription = mailbox.listen((message) => sendBack(message as { type: string }));
  return () => subscription.unsubscribe();
});

const machine = setup({
  types: {} as { context: TrainerContext; input: TrainerInput; events: TrainerEvent },
  actors: { thread, hearingWriter },
  actions: {
    startThreads: enqueueActions(({ context, enqueue }) => {
      const { launcher, seat, tasks } = context;
      for (const [i, task] of tasks.entries()) {
        enqueue.spawnChild("thread", {
          id: `thread:${i}`,
          input: { launcher, seat, thread: i, ...task },
        });
      }
    }),
    noteReport: assign({
      reports: ({ context, event }) =>
        event.type === "thread.reported"
          ? new Map(context.reports).set(event.thread, event.report)
          : context.reports,
      kernels: ({ context, event }) => {
        if (event.type !== "thread.reported" || event.thread !== 0) return context.kernels;
        const { report } = event;
        if (report.type !== "ready") return context.kernels;
        return { arithmetic: report.arithmetic, set: report.set };
      },
    }),
    sendReady: ({ context: { mailbox, seat, spec, kernels, storeBytes } }) => {
      const restored = { memoryBytes: 0, storeBytes, keptBytes: 0 };
      const body = { device: seat.device, step: spec.fromStep, ...kernels, restored };
      mailbox.send(coordinator, "device.ready", body);
    },
    note: assign(({ context, event }) => {
      return { ...asked(event, context.network.clock.now()), reports: new Map() };
    }),
    begin: enqueueActions(({ context, enqueue }) => {
      const { question, seat, spec } = context;
      if (question === undefined) return;
      if (question.type === "device.save") {
        const { cut } = question.body;
        const save: SaveServers = { type: "servers.save", device: seat.device, cut };
        enqueue(sendParent(save)); // F1
        return;
      }
      if (question.type === "device.run") {
        const { command, toStep } = question.body;
        // A pause requested for an earlier command does not count for this one. A pause requested
        // before its window leaves each thread a batch: a requested checkpoint waits for a step.
        const isPaused = seat.pausedBy === command;
        const batches = isPaused ? seat.threads * spec.devices : 0;
        beginWindow(seat.memory, seat.begin(toStep) + batches, isPaused);
      }
      // The first thread of the first trainer evaluates.
      const evaluates = seat.device === 0 ? 1 : 0;
      const threads = question.type === "device.run" ? seat.threads : evaluates;
      for (let i = 0; i < threads; i++) {
        const command = commandOf(context, question, i);
        enqueue.sendTo(`thread:${i}` as never, { type: "command", command } as never);
      }
    }),
    pause: ({ context: { seat }, event }) => {
      if (event.type !== "device.pause") return;
      seat.pausedBy = event.body.command;
      pauseTrainer(seat.memory); // F2
    },
    answer: assign(({ context }) => {
      const { question } = context;
      return question === undefined ? {} : answeredWith(context, answerOf(context, question));
    }),
    sendAnswer: ({ context }) => sendAnswer(context),
    noteSaved: assign({
      saved: ({ context, event }) => (event.type === "servers.saved" ? event : context.saved),
    }),
    sendSaved: ({ context: { network, mailbox, saved, seat } }) => {
      if (saved !== undefined) sendParts(network.clock, mailbox, seat.device, saved);
    },
    lose: ({ context, event }) => {
      if (event.type === "thread.ended") throw lossOf(event.end, `device:${context.seat.device}`);
    },
  },
  guards: {
    isReady: ({ context: { reports, tasks } }) => reports.size === tasks.length,
    ...questionGuards,
    isDone: ({ context }) => isDone(context),
    isOfCut: ({ context, event }) =>
      event.type === "writer.save" && event.body.cut === context.saved?.cut,
  },
}).createMachine({
  id: "trainer",
  context: ({ input }) => ({
    ...input,
    ...unasked(input.network, input.spec, input.seat.device),
    reports: new Map(),
    kernels: { arithmetic: "", set: "" },
    saved: undefined,
  }),
  entry: "startThreads",
  invoke: { src: "hearingWriter", input: ({ context }) => context },
  on: {
    "thread.ended": { actions: "lose" },
    "device.pause": { actions: "pause" },
    "writer.save": { guard: "isOfCut", actions: "sendSaved" },
    "thread.reported": { actions: "noteReport" },
  },
  initial: "starting",
  states: {
    starting: { always: { guard: "isReady", target: "paused", actions: "sendReady" } },
    paused,
    busy: {
      entry: "begin",
      always: { guard: "isDone", target: "paused", actions: ["answer", "sendAnswer"] },
      on: { "servers.saved": { actions: ["noteSaved", "sendSaved"] } },
    },
  },
});

/** The state machine drawn in the header, as an actor. */
export const trainerMachine = defineActor(machine);

function commandOf(
  { seat }: TrainerContext,
  question: Exclude<Question, { type: "device.save" }>,
  thread: number,
) {
  if (question.type === "device.evaluate") {
    return { type: "evaluate", part: question.body.part } satisfies TrainerCommand;
  }
  const { toStep, plateau } = question.body;
  const fromStep = seat.fromSteps[thread] ?? 0;
  return { type: "run", fromStep, toStep, plateau } satisfies TrainerCommand;
}

function isDone({ question, reports, saved, seat }: TrainerContext): boolean {
  switch (question?.type) {
    case "device.run":
      return reports.size === seat.threads;
    case "device.evaluate":
      return seat.device > 0 || reports.size > 0;
    case "device.save":
      return saved?.cut === question.body.cut;
    default:
      return false;
  }
}

function answerOf(context: TrainerContext, question: Question): Answer {
  const { reports, seat, network, askedAtMs } = context;
  if (question.type === "device.save") {
    return { type: "cut", cut: question.body.cut, stallMs: network.clock.now() - askedAtMs };
  }
  if (question.type === "device.evaluate") {
    const [report] = reports.values();
    return { type: "evaluated", metrics: report?.type === "evaluated" ? report.metrics : null };
  }
  const windows = [...reports.values()].filter((report) => report.type === "reached");
  return windowOf(seat, windows);
}

/** F3. The trainer's work since its last answer, by its counters. */
function windowOf(seat: TrainerSeat, windows: readonly ReachedWindow[]): Answer {
  const step = Math.min(...windows.map((one) => one.step));
  const { batches: steps, samples } = seat.reach(step);
  // The losses of killed threads are unknown: the mean of the other threads replaces them.
  const trained = windows.reduce((sum, one) => sum + one.batches, 0);
  const lossSum = windows.reduce((sum, one) => sum + one.lossSum, 0);
  const repairedIds = windows
    .map((one) => one.repairedIds)
    .reduce((sum, one) => sum.map((ids, table) => ids + (one[table] ?? 0)));
  return {
    ...{ type: "reached", step, steps, samples, repairedIds },
    lossSum: trained === 0 ? 0 : (lossSum / trained) * steps,
    isPaused: windows.some((one) => one.isPaused),
    staleRows: [],
    dynamicIds: { admitted: [], evicted: [], dropped: [] },
  };
}

/** Sends the parts in several turns, as a writer does; they are requested again if one is lost. */
function sendParts(clock: Clock, mailbox: Mailbox, device: number, saved: ServersSaved): void {
  const sending = function* (): Steps<void> {
    for (const parts of batchesOf(saved.parts)) {
      mailbox.send(checkpoint, "part.saved", {
        cut: saved.cut,
        device,
        of: saved.parts.length,
        parts,
      });
      yield;
    }
  };
  inTurns(clock, sending()).catch(() => {});
}
