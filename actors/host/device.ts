// Device: the actor of one thread that runs the step loop, window by window.
//
//              ready           device.run · evaluate · save
//   starting ────────▶ paused ─────────────────────────────▶ busy
//                        ▲                                     │
//                        └───────────── reported ──────────────┘
//   any ──thread ended──▶ error: the generation is over (law 3)
//   any ──a message to one of its shards──▶ the shard's actor starts (shard.ts)
//
// Takes   questions (questions.ts) · device.pause · device.dump; parts.saved from its writer, for
//         its shards; messages to its shards
// Emits   device.ready · answers (questions.ts); to the job supervisor: device.dumped
// Fails   with the thread's own error, or PeerLostError if the thread died silently
//
// Invariants
//   D1. Weights change only while `busy` with a run: a checkpoint taken in any other state is
//       between two steps.
//   D2. A command of another generation never arrives: the subject of the mailbox names the
//       generation.
//   D3. A device has one subscription for all its shards, which may be 10,000. A shard's actor
//       starts with the first message to it, and at most `shardActorsMax` shards have one.

import { assign, enqueueActions, setup } from "xstate";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import type { HeldShard } from "../../src/training/topology/held-shard.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { failureOf } from "../runtime/incident.ts";
import type { MessageEvent, Network } from "../runtime/mailbox.ts";
import type { DeviceCommand, DeviceReport } from "../threads/device-program.ts";
import { abort, type Generation, progressOver, wake } from "../threads/generation-memory.ts";
import { headOf, hostPlaceOf } from "../threads/generation-spec.ts";
import type { RowLease } from "../threads/kept-rows.ts";
import type { DeviceTask } from "../threads/thread-program.ts";
import { hearingShards, partsOf, type ShardMessage, shardId, shardOf } from "./device-shards.ts";
import {
  answeredWith,
  asked,
  coordinator,
  isQuestion,
  paused,
  type Question,
  type Questioned,
  questionGuards,
  sendAnswer,
  unasked,
} from "./questions.ts";
import { shardMachine } from "./shard.ts";
import { lossOf, type ThreadEnded, threadLogic } from "./thread-actor.ts";
import type { PartsSaved } from "./writer.ts";

export interface DeviceInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly generation: Generation;
  readonly device: number;
  /** Its share of the rows that outlive its thread. */
  readonly lease: RowLease;
}

type DeviceAnswer = Extract<DeviceReport, { type: "reached" | "evaluated" | "cut" }>;

type SurvivingState = Extract<DeviceReport, { type: "dumped" }>;

type DeviceEvent =
  | Question
  | MessageEvent<"device.pause" | "device.dump">
  | { readonly type: "thread.dumped"; readonly report: SurvivingState }
  | { readonly type: "thread.reported"; readonly report: DeviceReport }
  | PartsSaved
  | ShardMessage
  | ThreadEnded;

export interface DeviceContext extends DeviceInput, Questioned {
  readonly shards: readonly HeldShard[];
  /** The shards that have an actor, in the order in which these started. D3 */
  readonly actorsOf: readonly number[];
  /** The parts of the newest checkpoint written by this device. */
  readonly saved: PartsSaved | undefined;
  /** Number of the run command that was requested to pause. */
  readonly paused: number | undefined;
  readonly ready: Extract<DeviceReport, { type: "ready" }> | undefined;
  /** Surviving state of the failed generation. */
  readonly surviving: SurvivingState | undefined;
}

/** Most shards of a device with an actor; the oldest actor ends for the next. */
const shardActorsMax = 64;

const thread = threadLogic<DeviceInput, DeviceCommand, DeviceReport>((input) => {
  const { launcher, generation, device, lease } = input;
  const { spec, memory } = generation;
  const task: DeviceTask = {
    ...{ program: "device", spec: headOf(spec), memory, index: device },
    rows: lease.rows,
  };
  return {
    launcher,
    name: `device-${device}`,
    task,
    later: afterExits(input, task),
    onEnded: lease.end,
    eventOf(report): DeviceEvent | undefined {
      if (report.type === "rows") return void lease.put(report.tiles);
      return report.type === "dumped"
        ? { type: "thread.dumped", report }
        : { type: "thread.reported", report };
    },
    wake({ type }) {
      // A device that dumps its state is in the middle of a step: its wait must be aborted.
      if (type === "dump") abort(generation);
      else wake(generation, device);
    },
  };
});

/**
 * Resolves to the task once the former threads of its rows have exited; without these rows if one
 * of them does not exit in time. Undefined: there is none.
 */
function afterExits({ network, generation, lease }: DeviceInput, task: DeviceTask) {
  const { exits } = lease;
  if (exits === undefined) return undefined;
  return new Promise<DeviceTask>((resolve) => {
    const forget = network.clock.after(deadlinesOf(generation.spec.job).rowsFree, () => {
      lease.giveUp();
      resolve({ ...task, rows: { ...task.rows, tiles: [] } });
    });
    void exits.then(() => {
      forget();
      resolve(task);
    });
  });
}

const machine = setup({
  types: {} as { context: DeviceContext; input: DeviceInput; events: DeviceEvent },
  actors: { thread, hearingShards, shard: shardMachine },
  actions: {
    /** D3. An actor that exists has received the message from its own mailbox. */
    startShard: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "shard.message" || context.actorsOf.includes(event.shard)) return;
      const shard = context.shards.find((one) => one.shard === event.shard);
      if (shard === undefined) return;
      const all = [...context.actorsOf, event.shard];
      for (const one of all.slice(0, -shardActorsMax)) enqueue.stopChild(shardId(one));
      enqueue.spawnChild("shard", { id: shardId(event.shard), input: shardOf(context, shard) });
      enqueue.sendTo(shardId(event.shard) as never, event.message as never);
      enqueue.assign({ actorsOf: all.slice(-shardActorsMax) });
    }),
    note: assign(({ context, event }) => asked(event, context.network.clock.now())),
    begin: enqueueActions(({ context, event, enqueue }) => {
      if (!isQuestion(event)) return;
      // A pause requested for an earlier command does not count for this one.
      if (context.paused !== event.body.command) Atomics.store(pauseOf(context), 0, -1);
      enqueue.sendTo("thread", { type: "command", command: commandOf(event) });
    }),
    pause: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "device.pause") return;
      Atomics.store(pauseOf(context), 0, event.body.afterStep);
      enqueue.assign({ paused: event.body.command });
    }),
    dump: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "device.dump") return;
      const isFirst = event.body.first === context.device;
      enqueue.sendTo("thread", { type: "command", command: { type: "dump", isFirst } });
    }),
    noteParts: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "parts.saved") return;
      enqueue.assign({ saved: event });
      const partOf = partsOf({ ...context, saved: event });
      for (const shard of context.shards) {
        if (!context.actorsOf.includes(shard.shard)) continue;
        const part = partOf(shard);
        if (part === undefined) continue;
        enqueue.sendTo(shardId(shard.shard) as never, { type: "shard.saved", part } as never);
      }
    }),
    noteSurvivingState: assign({
      surviving: ({ context, event }) =>
        event.type === "thread.dumped" ? event.report : context.surviving,
    }),
    sendSurvivingState: ({ context: { surviving, device, mailbox } }) => {
      if (surviving === undefined) return;
      const { step, steps } = surviving;
      const body = { device, step, steps, parts: [...surviving.parts] };
      mailbox.send({ role: "job", index: 0 }, "device.dumped", body);
    },
    noteReady: assign({
      ready: ({ context, event }) =>
        event.type === "thread.reported" && event.report.type === "ready"
          ? event.report
          : context.ready,
    }),
    sendReady: enqueueActions(({ context, enqueue }) => {
      if (context.ready === undefined) return;
      const { step, arithmetic, set, restored } = context.ready;
      const body = { device: context.device, step, arithmetic, set, restored };
      context.mailbox.send(coordinator, "device.ready", body);
      for (const shard of context.actorsOf) {
        enqueue.sendTo(shardId(shard) as never, { type: "shard.restored" } as never);
      }
    }),
    noteAnswer: assign(({ context, event }) => {
      return isAnswer(event) ? answeredWith(context, event.report) : {};
    }),
    sendAnswer: ({ context }) => sendAnswer(context),
    lose: ({ context, event }) => {
      if (event.type !== "thread.ended") return;
      const { device, generation } = context;
      const [offender, supervisor] = [
        `device:${device}`,
        `host:${hostPlaceOf(generation.spec, device).host}`,
      ];
      throw failureOf(lossOf(event.end, offender), {
        offender,
        supervisor,
        context: doingOf(context),
      });
    },
  },
  guards: {
    isLeft: ({ context }) => context.surviving !== undefined,
    ...questionGuards,
  },
}).createMachine({
  id: "device",
  context: ({ input }) => {
    const { spec, layout } = input.generation;
    return {
      ...input,
      ...unasked(input.network, spec, input.device),
      shards: [layout.topology.heldBy, layout.topology.distinctBy].flatMap(
        (by) => by[input.device] ?? [],
      ),
      actorsOf: [],
      saved: undefined,
      paused: undefined,
      ready: undefined,
      surviving: undefined,
    };
  },
  invoke: [
    { src: "thread", id: "thread", input: ({ context }) => context },
    { src: "hearingShards", input: ({ context }) => context },
  ],
  on: {
    "thread.ended": [{ guard: "isLeft" }, { actions: "lose" }],
    "thread.dumped": { actions: ["noteSurvivingState", "sendSurvivingState"] },
    "device.dump": [{ guard: "isLeft", actions: "sendSurvivingState" }, { actions: "dump" }],
    "device.pause": { actions: "pause" },
    "parts.saved": { actions: "noteParts" },
    "shard.message": { actions: "startShard" },
  },
  initial: "starting",
  states: {
    starting: {
      on: { "thread.reported": { target: "paused", actions: ["noteReady", "sendReady"] } },
    },
    paused,
    busy: {
      entry: "begin",
      on: { "thread.reported": { target: "paused", actions: ["noteAnswer", "sendAnswer"] } },
    },
  },
});

/** The state machine drawn in the header, as an actor. */
export const deviceMachine = defineActor(machine);

/** The pause word in shared memory: the step after which device 0 pauses. */
function pauseOf({ generation: { memory, spec } }: DeviceContext): Int32Array {
  return progressOver(memory, spec.devices).pause;
}

function isAnswer(
  event: DeviceEvent,
): event is { readonly type: "thread.reported"; readonly report: DeviceAnswer } {
  return (
    event.type === "thread.reported" && ["reached", "evaluated", "cut"].includes(event.report.type)
  );
}

/** The command that the thread executes, for the incident if it fails. */
function doingOf({ ready, question }: DeviceContext): string {
  switch (question?.type) {
    case "device.run":
      return `device.run to step ${question.body.toStep}`;
    case "device.evaluate":
      return `device.evaluate${question.body.part === "test" ? " of the test" : ""}`;
    case "device.save":
      return `device.save of cut ${question.body.cut}`;
    default:
      return ready === undefined ? "restoring" : "between two commands";
  }
}

function runOf({ toStep, lossSum, plateau }: MessageEvent<"device.run">["body"]): DeviceCommand {
  return { type: "run", toStep, lossSum, plateau };
}

function commandOf(event: Question): DeviceCommand {
  switch (event.type) {
    case "device.run":
      return runOf(event.body);
    case "device.evaluate":
      return { type: "evaluate", part: event.body.part };
    case "device.save":
      return { ...event.body, type: "save" };
    default:
      return event satisfies never;
  }
}
