// Device: the actor of one thread that runs the step loop, window by window.
//
//              ready           device.run · evaluate · save
//   starting ────────▶ paused ─────────────────────────────▶ busy
//                        ▲                                     │
//                        └───────────── reported ──────────────┘
//   any ──thread ended──▶ error: the generation is over (law 3)
//
// Takes   device.run { command, toStep, lossSum, plateau } · device.evaluate · device.save ·
//         device.pause · device.dump; parts.saved from its writer, for its shards
// Emits   device.ready · device.reached · device.evaluated · device.cut; to the job supervisor:
//         device.dumped
// Fails   with the thread's own error, or PeerLostError if the thread died silently
//
// Invariants
//   D1. Weights change only while `busy` with a run: a checkpoint taken in any other state is
//       between two steps.
//   D2. A command of another generation never arrives: the subject of the mailbox names the
//       generation.
//   D3. A repeated command is executed once; its answer is sent again. A command older than the
//       last answered one arrived late and is not executed.

import { assign, enqueueActions, setup } from "xstate";
import type { Launcher } from "../../src/ports/launcher.ts";
import { partNameOf } from "../../src/training/checkpoint/part-names.ts";
import type { HeldShard } from "../../src/training/topology/held-shard.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { failureOf } from "../runtime/incident.ts";
import {
  type Address,
  type Mailbox,
  type MessageEvent,
  type Network,
  openMailbox,
} from "../runtime/mailbox.ts";
import type { DeviceCommand, DeviceReport } from "../threads/device-program.ts";
import { abort, type Generation, progressOver, wake } from "../threads/generation-memory.ts";
import { hostPlaceOf } from "../threads/generation-spec.ts";
import { type ShardPart, shardMachine } from "./shard.ts";
import { lossOf, type ThreadEnded, threadLogic } from "./thread-actor.ts";
import type { PartsSaved } from "./writer.ts";

export interface DeviceInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly generation: Generation;
  readonly device: number;
}

/** Numbered requests; the answer has the same number. */
type Question = MessageEvent<"device.run" | "device.evaluate" | "device.save">;

type SurvivingState = Extract<DeviceReport, { type: "dumped" }>;

type DeviceEvent =
  | Question
  | MessageEvent<"device.pause" | "device.dump">
  | { readonly type: "thread.dumped"; readonly report: SurvivingState }
  | { readonly type: "thread.reported"; readonly report: DeviceReport }
  | PartsSaved
  | ThreadEnded;

export interface DeviceContext extends DeviceInput {
  readonly mailbox: Mailbox;
  readonly shards: readonly HeldShard[];
  /** The command that the thread executes, for the incident if it fails. */
  readonly doing: string;
  /** Number of the request in progress, and the last answer. */
  readonly command: number | undefined;
  readonly requestedAtMs: number;
  readonly answered: { readonly command: number; readonly report: DeviceReport } | undefined;
  /** Number of the run command that was requested to pause. */
  readonly paused: number | undefined;
  readonly ready: Extract<DeviceReport, { type: "ready" }> | undefined;
  /** Surviving state of the failed generation. */
  readonly surviving: SurvivingState | undefined;
}

/** Interval at which an unanswered `device.ready` is repeated. */
const readyAgainMs = 500;

const idle = "between two commands";
const coordinator: Address = { role: "coordinator", index: 0 };
const checkpoint: Address = { role: "checkpoint", index: 0 };

const thread = threadLogic<DeviceInput, DeviceCommand, DeviceReport>((input) => {
  const { launcher, generation, device } = input;
  const { spec, memory } = generation;
  return {
    launcher,
    name: `device-${device}`,
    task: { program: "device", spec, memory, index: device },
    eventOf: (report): DeviceEvent =>
      report.type === "dumped"
        ? { type: "thread.dumped", report }
        : { type: "thread.reported", report },
    wake({ type }) {
      // A device that dumps its state is in the middle of a step: its wait must be aborted.
      if (type === "dump") abort(generation);
      else wake(generation, device);
    },
  };
});

/** D3. Transitions of a request: answered before, too late, or new. */
const questionTaken = [
  { guard: "isAnswered", actions: "sendAnswer" },
  { guard: "isLate" },
  { target: "busy" },
] as const;

const machine = setup({
  types: {} as { context: DeviceContext; input: DeviceInput; events: DeviceEvent },
  actors: { thread, shard: shardMachine },
  actions: {
    startShards: enqueueActions(({ context, enqueue }) => {
      const { network, generation, device } = context;
      for (const shard of context.shards) {
        const input = { network, generation, shard, device };
        enqueue.spawnChild("shard", { id: `shard:${shard.shard}`, input });
      }
    }),
    begin: enqueueActions(({ context, event, enqueue }) => {
      if (!isQuestion(event)) return;
      const { command } = event.body;
      // A pause requested for an earlier command does not count for this one.
      if (context.paused !== command) Atomics.store(pauseOf(context), 0, -1);
      const requestedAtMs = context.network.clock.now();
      enqueue.assign({ command, requestedAtMs, doing: doingOf(event) });
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
    notifyShards: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "parts.saved") return;
      const { tables } = context.generation.spec.job.model;
      const byName = new Map(event.parts.map((part) => [part.name, part]));
      for (const shard of context.shards) {
        const saved = byName.get(partNameOf(shard, tables));
        if (saved === undefined) continue;
        const { name, bytes, sha256 } = saved;
        const part: ShardPart = { cut: event.cut, name, bytes, sha256 };
        enqueue.sendTo(`shard:${shard.shard}` as never, { type: "shard.saved", part } as never);
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
      doing: idle,
    }),
    sendReady: enqueueActions(({ context, enqueue }) => {
      if (context.ready === undefined) return;
      const { step, arithmetic, restored } = context.ready;
      const body = { device: context.device, step, arithmetic, restored };
      context.mailbox.send(coordinator, "device.ready", body);
      for (const { shard } of context.shards) {
        enqueue.sendTo(`shard:${shard}` as never, { type: "shard.restored" } as never);
      }
    }),
    noteAnswer: assign({
      answered: ({ context, event }) =>
        event.type === "thread.reported" && context.command !== undefined
          ? { command: context.command, report: event.report }
          : context.answered,
      command: undefined,
      doing: idle,
    }),
    sendAnswer: ({ context }) => {
      if (context.answered === undefined) return;
      const { command, report } = context.answered;
      const { mailbox, device } = context;
      if (report.type === "reached") {
        mailbox.send(coordinator, "device.reached", { ...report, command, device });
      } else if (report.type === "evaluated") {
        const { metrics } = report;
        mailbox.send(coordinator, "device.evaluated", { command, device, metrics });
      } else if (report.type === "cut") {
        const { cut, stallMs } = report;
        mailbox.send(checkpoint, "device.cut", { command, device, cut, stallMs });
      }
    },
    lose: ({ context, event }) => {
      if (event.type !== "thread.ended") return;
      const { device, generation, doing } = context;
      const [offender, supervisor] = [
        `device:${device}`,
        `host:${hostPlaceOf(generation.spec, device).host}`,
      ];
      throw failureOf(lossOf(event.end, offender), { offender, supervisor, context: doing });
    },
  },
  guards: {
    isLeft: ({ context }) => context.surviving !== undefined,
    isUnasked: ({ context }) => context.answered === undefined,
    isAnswered: ({ context, event }) =>
      isQuestion(event) && event.body.command === context.answered?.command,
    isLate: ({ context, event }) =>
      isQuestion(event) && event.body.command < (context.answered?.command ?? 0),
  },
}).createMachine({
  id: "device",
  context: ({ input }) => {
    const { spec, layout } = input.generation;
    return {
      ...input,
      mailbox: openMailbox(input.network, spec, { role: "device", index: input.device }),
      shards: [layout.topology.heldBy, layout.topology.distinctBy].flatMap(
        (by) => by[input.device] ?? [],
      ),
      doing: "restoring",
      command: undefined,
      requestedAtMs: 0,
      answered: undefined,
      paused: undefined,
      ready: undefined,
      surviving: undefined,
    };
  },
  entry: "startShards",
  invoke: { src: "thread", id: "thread", input: ({ context }) => context },
  on: {
    "thread.ended": [{ guard: "isLeft" }, { actions: "lose" }],
    "thread.dumped": { actions: ["noteSurvivingState", "sendSurvivingState"] },
    "device.dump": [{ guard: "isLeft", actions: "sendSurvivingState" }, { actions: "dump" }],
    "device.pause": { actions: "pause" },
    "parts.saved": { actions: "notifyShards" },
  },
  initial: "starting",
  states: {
    starting: {
      on: { "thread.reported": { target: "paused", actions: ["noteReady", "sendReady"] } },
    },
    paused: {
      on: {
        "device.run": questionTaken,
        "device.evaluate": questionTaken,
        "device.save": questionTaken,
      },
      // device.ready may have been lost: it is repeated until the first request arrives.
      after: {
        [readyAgainMs]: {
          guard: "isUnasked",
          target: "paused",
          reenter: true,
          actions: "sendReady",
        },
      },
    },
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

function isQuestion(event: DeviceEvent): event is Question {
  return "body" in event && "command" in event.body && event.type !== "device.pause";
}

function doingOf(event: Question): string {
  switch (event.type) {
    case "device.run":
      return `device.run to step ${event.body.toStep}`;
    case "device.evaluate":
      return `device.evaluate${event.body.part === "test" ? " of the test" : ""}`;
    case "device.save":
      return `device.save of cut ${event.body.cut}`;
    default:
      return event satisfies never;
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
      return { type: "save", cut: event.body.cut, isBaseline: event.body.isBaseline };
    default:
      return event satisfies never;
  }
}
