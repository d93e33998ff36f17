// Training coordinator: the step clock of one generation: its participants and their next step.
//
//   preparing ─▶ prepared ─▶ assembling ─▶ training ─▶ reporting ─▶ finished
//
//   training, three parallel regions:
//     work      deciding ─┬─▶ running ────────────▶ deciding    a window, up to the next cut
//                         ├─▶ indexing ───────────▶ deciding    files of the next step
//                         ├─▶ evaluating, testing ▶ deciding    the last model, each kept best
//                         ├─▶ waiting ▶ cutting ──▶ deciding    after the previous checkpoint
//                         ├─▶ cutMade ────────────▶ deciding    the next cut is chosen
//                         └─▶ ending ▶ persisting ▶ releasing   after the last commit
//     writing   nothing ◀─▶ cut                                 while the devices train on
//     watch     receives heartbeats
//
//   state        repeats                                   until it receives
//   preparing    host.prepare, to the first host           host.prepared (progress: host.preparing)
//                host.cache, to the other hosts            host.cached (progress likewise)
//   assembling   host.assemble, to all hosts               device.ready of all, host.progress
//   running      device.run, to all devices                device.reached; device.pause ends it
//   evaluating, testing  device.evaluate, to all devices   device.evaluated
//   cutting      checkpoint.cut, to checkpoint:0           checkpoint.taken
//   cut          checkpoint.commit, to checkpoint:0        checkpoint.committed
//   persisting   tier.persist, to durable tiers            tier.persisted
//   releasing    host.release, to all hosts                host.released
//   reporting    (the checkpoint store)                    the checkpoints of the result
//
// In every state it receives host.progress, .mended, .failed and .gone, checkpoint.handed and
// writer.room; run.cancel, .rescale, .yield and .checkpoint of its children and job supervisor.
//
// See coordinator-context.ts (context), next-action.ts (decisions), coordinator-requests.ts and
// reader-commands.ts (requests), heartbeat-progress.ts and coordinator-{failures,events}.ts.
//
// Invariants
//   T1. Decisions follow from the checkpoint at the start and the devices' reports alone.
//   T2. Evaluation and test come before the checkpoint of their cut, which stores their metrics.
//   T3. A failure of any participant ends this generation; nothing is retried (law 3).
//   T4. At most one checkpoint is being written, and none when the run ends.

import { assign, enqueueActions, not, setup } from "xstate";
import { deadlinesOf } from "../../../src/ports/deadlines.ts";
import { hostWatchMachine, watchingMembership } from "../../host/heartbeat-watch.ts";
import { defineActor } from "../../runtime/define-actor.ts";
import type { MessageEvent } from "../../runtime/mailbox.ts";
import { supervisorMachine } from "../../runtime/supervisor.ts";
import { waiting } from "../../runtime/wait-graph.ts";
import { afterWindow, withEvaluation, withTest } from "../state/run-metrics.ts";
import type { RunResult } from "../state/run-result.ts";
import { isPaused } from "../state/tier-watch.ts";
import { adaptingPlan } from "./adapting-plan.ts";
import {
  beforeCutting,
  contextOf,
  hostWatchesOf,
  supervisedMaster,
  type TrainingCoordinatorContext,
  type TrainingCoordinatorInput,
  takenOf,
} from "./coordinator-context.ts";
import * as events from "./coordinator-events.ts";
import { failBy, raise, stallOf, stepWait } from "./coordinator-failures.ts";
import * as requests from "./coordinator-requests.ts";
import { placesOf } from "./follow-pins.ts";
import { hasLeft, isWatched, letGo } from "./hand-over.ts";
import {
  afterHeartbeat,
  afterProgress,
  afterRelease,
  findStragglers,
  hasMoved,
} from "./heartbeat-progress.ts";
import { afterPrepared, afterPreparing, indexWait, unindexedOf } from "./indexing.ts";
import { type Action, cutAfter, isOver, isRunDone, nextAction } from "./next-action.ts";
import * as scaling from "./scaling.ts";

type CoordinatorEvent =
  | MessageEvent<"host.progress" | "host.mended" | "host.failed" | "host.preparing" | "writer.room">
  | MessageEvent<"checkpoint.handed">
  | { readonly type: "host.gone"; readonly host: number }
  | { readonly type: "run.cancel" | "run.rescale" | "run.yield" | "run.checkpoint" };

const machine = setup({
  types: {} as {
    context: TrainingCoordinatorContext;
    input: TrainingCoordinatorInput;
    events: CoordinatorEvent;
    output: RunResult | undefined;
  },
  actors: {
    ...{ watchingMembership, ...scaling.watching, adaptingPlan, waiting },
    ...{ hostWatch: hostWatchMachine, preprocessing: supervisorMachine },
    ...requests,
  },
  delays: {
    stallMs: ({ context: { job } }) => deadlinesOf(job).stall,
    indexMs: ({ context: { job } }) => deadlinesOf(job).index,
  },
  actions: {
    nextCommand: assign({ command: ({ context }) => context.command + 1 }),
    chooseCut: assign({ cut: ({ context }) => context.cut ?? cutAfter(context) }),
    watchHosts: enqueueActions(({ context, enqueue }) => {
      for (const input of hostWatchesOf(context)) {
        enqueue.spawnChild("hostWatch", { id: `watch:${input.host}`, input });
      }
    }),
    serveSplits: enqueueActions(({ context, enqueue }) => {
      const input = supervisedMaster(context);
      if (input !== undefined) enqueue.spawnChild("preprocessing", { id: "preprocessing", input });
    }),
    forward: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "host.progress") return;
      const watch = `watch:${event.body.host}`;
      if (isWatched(context, event.body.host)) enqueue.sendTo(watch, event);
      enqueue.sendTo("adaptingPlan", event);
    }),
    watch: assign(({ context, event }) =>
      event.type === "host.progress" ? afterHeartbeat(context, event.body) : {},
    ),
    watchStragglers: enqueueActions(({ context, enqueue }) => {
      const { isUneven, stragglers } = findStragglers(context);
      enqueue.assign({ stragglers });
      if (isUneven) enqueue.raise({ type: "run.rescale" });
    }),
    publishProgress: assign(({ context, event }) =>
      event.type === "host.progress" ? afterProgress(context, event.body) : {},
    ),
    publishFirstStep: assign(({ context }) => events.publishFirstStep(context)),
    takePreparing: assign(({ context, event }) =>
      event.type === "host.preparing" ? afterPreparing(context, event.body) : {},
    ),
    requestPause: ({ context }) => scaling.requestPause(context),
    noteCancel: assign({ isCancelRequested: true }),
    noteScale: assign(({ context }) => scaling.noteScaling(context)),
    noteYield: assign({ isScaleRequested: true }),
    requestPauseToSave: ({ context }) => scaling.requestPauseToSave(context),
    fail: ({ context, event }) => failBy(context, event as Parameters<typeof failBy>[1]),
    letGo: enqueueActions(({ context, event, enqueue }) => {
      const left = letGo(context, event);
      for (const host of left) enqueue.stopChild(`watch:${host}`);
      enqueue.assign({ left });
    }),
  },
  guards: {
    isNext: ({ context }, action: Action) => nextAction(context) === action,
    isIndexed: ({ context }) => nextAction(context) !== "index",
    isOver: ({ context }) => isOver(context),
    isUndone: ({ context }) => !isRunDone(context),
    isBeingCommitted: ({ context }) => context.taken !== undefined,
    hasLeft: ({ context, event }) => hasLeft(context, event),
    waitsForRoom: ({ context }) => isPaused(context.tierWatch),
    hasMoved: ({ context, event }) =>
      event.type === "host.progress" && hasMoved(context, event.body),
  },
}).createMachine({
  id: "trainingCoordinator",
  context: ({ input }) => contextOf(input),
  invoke: [
    { src: "watchingMembership", input: ({ context }) => context },
    { src: "watchingCheckpoint", input: ({ context }) => context },
    { src: "watchingScale", input: ({ context }) => context },
  ],
  on: {
    "checkpoint.handed": { actions: "letGo" },
    "host.gone": [{ guard: "hasLeft" }, { actions: "fail" }], // T3
    "host.failed": [{ guard: "hasLeft" }, { actions: "fail" }], // T3
    "host.mended": {
      actions: assign(({ context, event }) => events.publishMended(context, event.body)),
    },
    "writer.room": { actions: ({ context, event }) => events.publishRoom(context, event.body) },
    "xstate.error.actor.preprocessing": { actions: "fail" },
    "host.preparing": { actions: "takePreparing" },
    "host.progress": { actions: "watch" },
    "run.cancel": { actions: ["noteCancel", "requestPause"] },
    "run.rescale": { actions: ["noteScale", "requestPause"] },
    "run.yield": { actions: ["noteYield", "requestPause"] },
    "run.checkpoint": { actions: "requestPause" },
  },
  output: ({ context }) => (isRunDone(context) ? events.resultOfRun(context) : undefined),
  initial: "preparing",
  states: {
    preparing: {
      on: { "run.yield": "reporting" },
      invoke: {
        src: "preparing",
        input: ({ context }) => context,
        onDone: {
          target: "prepared",
          actions: assign(({ context, event }) => {
            return { ...event.output, ...afterPrepared(context, event.output) };
          }),
        },
      },
    },
    prepared: {
      entry: ["nextCommand", ({ context }) => events.publishPrepared(context)],
      // A run that has already finished needs no devices.
      always: [{ guard: "isOver", target: "reporting" }, { target: "assembling" }],
    },
    assembling: {
      entry: "serveSplits",
      always: { guard: "isOver", target: "reporting" },
      invoke: {
        src: "assembling",
        input: ({ context }) => context,
        onDone: {
          target: "training",
          actions: [
            assign(({ context, event }) => {
              return { ...event.output, startedAtMs: context.network.clock.now() };
            }),
            ({ context }) => events.publishStarted(context),
            ({ context }) => context.record.place(placesOf(context)),
          ],
        },
      },
    },
    training: {
      type: "parallel",
      invoke: [
        { src: "commandingReaders", input: ({ context }) => context },
        { src: "adaptingPlan", id: "adaptingPlan", input: ({ context }) => context },
      ],
      states: {
        watch: {
          entry: "watchHosts",
          on: {
            "host.progress": {
              actions: [
                "forward",
                "watch",
                "watchStragglers",
                "publishProgress",
                "publishFirstStep",
              ],
            },
          },
        },
        work: {
          initial: "deciding",
          states: {
            deciding: {
              entry: ["nextCommand", "chooseCut"],
              always: [
                { guard: { type: "isNext", params: "run" }, target: "running" },
                { guard: { type: "isNext", params: "index" }, target: "indexing" },
                { guard: { type: "isNext", params: "evaluate" }, target: "evaluating" }, // T2
                { guard: { type: "isNext", params: "test" }, target: "testing" }, // T2
                { guard: { type: "isNext", params: "checkpoint" }, target: "waiting" },
                { guard: { type: "isNext", params: "end" }, target: "ending" },
                { guard: { type: "isNext", params: "pass" }, target: "cutMade" },
              ],
            },
            // The cut is done, and the next one is chosen.
            cutMade: {
              entry: assign(({ context }) => {
                return { cut: undefined, isCancelled: context.isCancelRequested };
              }),
              always: [{ guard: "isOver", target: "ending" }, { target: "deciding" }],
            },
            running: {
              entry: "requestPauseToSave",
              invoke: {
                src: "running",
                input: ({ context }) => context,
                onDone: {
                  target: "deciding",
                  actions: [
                    assign(({ context, event }) => ({
                      step: event.output.step,
                      ahead: event.output.ahead,
                      metrics: afterWindow(context.metrics, event.output),
                    })),
                    "publishFirstStep",
                  ],
                },
              },
              initial: "moving",
              states: {
                moving: {
                  invoke: { src: "waiting", input: ({ context }) => stepWait(context) },
                  after: {
                    stallMs: [
                      { guard: "waitsForRoom", target: "moving", reenter: true },
                      { actions: ({ context }) => raise(stallOf(context)) },
                    ],
                  },
                  on: { "host.progress": { guard: "hasMoved", target: "moving", reenter: true } },
                },
              },
            },
            // Each report of progress from an indexing host restarts the deadline.
            indexing: {
              invoke: { src: "waiting", input: ({ context }) => indexWait(context) },
              always: { guard: "isIndexed", target: "deciding" },
              after: { indexMs: { actions: ({ context }) => raise(unindexedOf(context)) } },
              on: {
                "host.preparing": { target: "indexing", reenter: true, actions: "takePreparing" },
              },
            },
            evaluating: {
              invoke: {
                src: "evaluating",
                input: ({ context }) => context,
                onDone: {
                  target: "deciding",
                  actions: [
                    assign(({ context, event }) => withEvaluation(context, event.output)),
                    ({ context, event }) => events.publishEvaluated(context, event.output),
                  ],
                },
              },
            },
            testing: {
              invoke: {
                src: "testing",
                input: ({ context }) => context,
                onDone: {
                  target: "deciding",
                  actions: assign(({ context, event }) => withTest(context, event.output)),
                },
              },
            },
            // T4: devices stall while the previous checkpoint is written: back-pressure.
            waiting: {
              entry: assign({ waitsSinceMs: ({ context }) => context.network.clock.now() }),
              always: { guard: not("isBeingCommitted"), target: "cutting" },
            },
            cutting: {
              entry: assign(({ context }) => beforeCutting(context)),
              invoke: {
                src: "cutting",
                input: ({ context }) => context,
                onDone: {
                  target: "deciding",
                  actions: assign({
                    taken: ({ context, event }) => takenOf(context, event.output),
                  }),
                },
              },
            },
            ending: { always: { guard: not("isBeingCommitted"), target: "persisting" } }, // T4
            // The last checkpoint is committed: a tier that fails to flush only costs time.
            persisting: {
              invoke: {
                src: "persisting",
                input: ({ context }) => context,
                onDone: {
                  target: "releasing",
                  actions: ({ context, event }) => events.publishPersisted(context, event.output),
                },
                onError: "releasing",
              },
            },
            releasing: {
              invoke: {
                src: "releasing",
                input: ({ context }) => context,
                onDone: {
                  target: "#trainingCoordinator.reporting",
                  actions: assign(({ context, event }) => afterRelease(context, event.output)),
                },
              },
            },
          },
        },
        writing: {
          initial: "nothing",
          states: {
            nothing: { always: { guard: "isBeingCommitted", target: "cut" } },
            cut: {
              invoke: {
                src: "committing",
                input: ({ context }) => context,
                onDone: {
                  target: "nothing",
                  actions: [
                    ({ context, event }) => events.publishCheckpointed(context, event.output),
                    assign({ taken: undefined, manifest: ({ event }) => event.output.manifest }),
                  ],
                },
              },
            },
          },
        },
      },
    },
    reporting: {
      always: { guard: "isUndone", target: "finished" },
      invoke: {
        src: "listing",
        input: ({ context }) => context,
        onDone: { target: "finished", actions: assign({ stored: ({ event }) => event.output }) },
      },
    },
    finished: { type: "final" },
  },
});

/** The state machine drawn in the header, as an actor. */
export const trainingCoordinatorMachine = defineActor(machine);
