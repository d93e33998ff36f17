// Training coordinator: the step clock of one generation: who takes part, and what they do next.
//
//   preparing ▶ assembling ▶ deciding ─▶ running ───▶ deciding      a window up to the next cut
//                               │  ├───▶ evaluating ▶ deciding
//                               │  └───▶ cutting ───▶ deciding      waits for the one before
//                               └──────▶ resting ──▶ releasing ─▶ finished    after the last one
//   meanwhile: cuts are committed, heartbeats watched; scaling ends the generation after a step
//
// Takes   host.prepared · progress · mended · failed · gone, device.ready · reached · evaluated,
//         checkpoint.taken · committed, tier.rested, run.cancel · yield · rescale · checkpoint
// Asks    host.prepare · assemble · release, device.run · evaluate, checkpoint.cut · commit, rest
//
// Invariants
//   T1. Decisions follow from the checkpoint at the start and the devices' reports alone.
//   T2. Evaluation comes before the checkpoint of its cut: metrics and patience are part of it.
//   T3. A failure of any participant ends this generation; nothing is retried (law 3).
//   T4. One checkpoint is on its way at most, and none when the run ends.

import { assign, enqueueActions, setup } from "xstate";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import { hostWatchMachine, watchingMembership } from "../host/heartbeat-watch.ts";
import { devicesOf } from "../host/membership.ts";
import { timesOfAll } from "../run-state/pipeline-watch.ts";
import type { RunResult } from "../run-state/run-events.ts";
import {
  afterCheckpoint,
  afterEvaluation,
  afterWindow,
  resultOf,
} from "../run-state/run-metrics.ts";
import { troubleOf } from "../run-state/tier-watch.ts";
import { type ThrowEvent, throwInjected } from "../runtime/injected-fault.ts";
import { listening, type MessageEvent } from "../runtime/listening.ts";
import { downWithChildren } from "../runtime/stop-children.ts";
import { waiting } from "../runtime/wait-graph.ts";
import {
  contextOf,
  cutAfter,
  isEnded,
  isOver,
  isOwnCut,
  mustCut,
  mustRun,
  scheduleFor,
  type TrainingCoordinatorContext,
  type TrainingCoordinatorInput,
  takenOf,
} from "./coordinator-context.ts";
import {
  failureOf,
  goneOf,
  stallOf,
  stepWait,
  tellCheckpointed,
  tellEvaluated,
  tellGoingOn,
  tellMended,
  tellPrepared,
  tellPreparing,
  tellProgress,
  tellRested,
  tellStarted,
  tiersOf,
  watchPipeline,
  watchStragglers,
  watchTiers,
} from "./coordinator-events.ts";
import * as questions from "./coordinator-requests.ts";
import { watchingCheckpoint, watchingScale } from "./scaling.ts";

type CoordinatorEvent =
  | MessageEvent<"host.progress" | "host.mended" | "host.failed" | "host.preparing">
  | { readonly type: "host.gone"; readonly host: number }
  | { readonly type: "run.cancel" | "run.rescale" | "run.yield" | "run.checkpoint" }
  | ThrowEvent;

const machine = setup({
  types: {} as {
    context: TrainingCoordinatorContext;
    input: TrainingCoordinatorInput;
    events: CoordinatorEvent;
    output: RunResult | undefined;
  },
  actors: {
    listening,
    watchingMembership,
    watchingScale,
    waiting,
    watchingCheckpoint,
    hostWatch: hostWatchMachine,
    ...questions,
  },
  delays: { stallMs: ({ context }) => deadlinesOf(context.job).stall },
  actions: {
    throwInjected,
    nextCommand: assign({ command: ({ context }) => context.command + 1 }),
    chooseCut: assign({ cut: ({ context }) => context.cut ?? cutAfter(context) }),
    watchHosts: enqueueActions(({ context, enqueue }) => {
      const { network, hosts, scope } = context;
      for (const { host } of hosts) {
        const input = { network, host, run: scope.run };
        enqueue.spawnChild("hostWatch", { id: `watch:${host}`, input });
      }
    }),
    passOn: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "host.progress") return;
      const { host } = event.body;
      if (context.hosts.some((one) => one.host === host)) enqueue.sendTo(`watch:${host}`, event);
    }),
    watch: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "host.progress") return;
      const watch = watchPipeline(context, event.body);
      const waits = new Map([...context.waits, [event.body.host, event.body.waits]]);
      context.record.threadWaits = [...waits.values()].flat();
      enqueue.assign({ watch, waits, tierWatch: watchTiers(context, event.body) });
    }),
    watchStragglers: enqueueActions(({ context, enqueue }) => {
      const { isUneven, stragglers } = watchStragglers(context);
      enqueue.assign({ stragglers });
      if (isUneven) enqueue.raise({ type: "run.rescale" });
    }),
    // The first host tells for all: it has device 0, and steps are made together.
    tellProgress: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "host.progress" || context.schedule === undefined) return;
      if (event.body.host !== context.hosts[0]?.host) return;
      const step = event.body.steps[0] ?? 0;
      if (step <= context.seenStep) return;
      const loss = event.body.losses.at(-1) ?? context.seenLoss;
      const watch = tellProgress(context, step, loss);
      enqueue.assign({ seenStep: step, seenLoss: loss, watch });
    }),
    tellGoingOn: enqueueActions(({ context, enqueue }) => {
      const { isGoingOn, latest, step, seenStep } = context;
      if (isGoingOn || Math.max(step, seenStep) <= (latest?.cut ?? 0)) return;
      tellGoingOn(context);
      enqueue.assign({ isGoingOn: true });
    }),
    tellPreparing: ({ context, event }) => {
      if (event.type === "host.preparing") tellPreparing(context, event.body);
    },
    askPause: ({ context }) => {
      const body = { command: context.command, afterStep: 0 };
      context.mailbox.tell({ role: "device", index: 0 }, "device.pause", body);
    },
    noteCancel: assign({ isCancelAsked: true }),
    noteScale: assign(({ context: { record, scope, hosts, network } }) => {
      const { generation } = scope;
      record.scaling ??= { generation, from: devicesOf(hosts), atMs: network.clock.now() };
      return { isScaleAsked: true };
    }),
    noteYield: assign({ isScaleAsked: true }),
    askPauseToSave: enqueueActions(({ context, enqueue }) => {
      if (context.record.isCheckpointAsked) enqueue("askPause");
    }),
    noteFailed: assign({
      failure: ({ context, event }) => {
        if (event.type !== "host.failed") return context.failure;
        return failureOf(context, event.body);
      },
    }),
    tellMended: ({ context, event }) => {
      if (event.type === "host.mended") tellMended(context, event.body);
    },
    fail: ({ context }) => raise(context.failure),
    failGone: ({ event }) => raise(event.type === "host.gone" ? goneOf(event.host) : undefined),
    failStalled: ({ context }) => raise(stallOf(context)),
  },
  guards: {
    isOver: ({ context }) => isOver(context),
    mustRun: ({ context }) => mustRun(context),
    mustEvaluate: ({ context: { cut, metrics, step } }) =>
      cut?.evaluate === true && step === cut.step && metrics.evaluatedStep !== step,
    isOnItsWay: ({ context }) => context.taken !== undefined,
    isCommitted: ({ context }) => context.taken === undefined,
    mustCut: ({ context }) => mustCut(context),
    hasMoved: ({ context, event }) =>
      event.type === "host.progress" && (event.body.steps[0] ?? 0) > context.seenStep,
  },
}).createMachine({
  id: "trainingCoordinator",
  context: ({ input }) => contextOf(input),
  invoke: [
    { src: "listening", input: ({ context }) => context },
    { src: "watchingMembership", input: ({ context }) => context },
    { src: "watchingCheckpoint", input: ({ context }) => context },
    { src: "watchingScale", input: ({ context }) => context },
  ],
  on: {
    "chaos.throw": { actions: "throwInjected" },
    "host.gone": { actions: "failGone" }, // T3
    "host.failed": { actions: ["noteFailed", "fail"] }, // T3
    "host.mended": { actions: "tellMended" },
    "host.preparing": { actions: "tellPreparing" },
    "host.progress": { actions: "watch" },
    "run.cancel": { actions: ["noteCancel", "askPause"] },
    "run.rescale": { actions: ["noteScale", "askPause"] },
    "run.yield": { actions: ["noteYield", "askPause"] },
    "run.checkpoint": { actions: "askPause" },
  },
  output: ({ context }) => {
    if (!isEnded(context)) return undefined;
    const [times, tiers] = [timesOfAll(context.watch), tiersOf(context)];
    return resultOf({ ...context, times, tiers, disk: troubleOf(context.tierWatch) });
  },
  initial: "preparing",
  states: {
    preparing: {
      on: { "run.yield": "finished" },
      invoke: {
        src: "preparing",
        input: ({ context }) => context,
        onDone: {
          target: "prepared",
          actions: assign(({ context, event }) => {
            return { plan: event.output, schedule: scheduleFor(context, event.output) };
          }),
        },
      },
    },
    prepared: {
      entry: ["nextCommand", ({ context }) => tellPrepared(context)],
      // A run that was finished before needs no device to say so again.
      always: [{ guard: "isOver", target: "finished" }, { target: "assembling" }],
    },
    assembling: {
      always: { guard: "isOver", target: "finished" },
      invoke: {
        src: "assembling",
        input: ({ context }) => context,
        onDone: {
          target: "training",
          actions: [
            assign(({ context, event }) => ({
              ...event.output,
              startedAtMs: context.network.clock.now(),
            })),
            ({ context }) => tellStarted(context),
          ],
        },
      },
    },
    training: {
      type: "parallel",
      states: {
        watch: {
          entry: "watchHosts",
          on: {
            "host.progress": {
              actions: ["passOn", "watch", "watchStragglers", "tellProgress", "tellGoingOn"],
            },
          },
        },
        work: {
          initial: "deciding",
          states: {
            deciding: {
              entry: ["nextCommand", "chooseCut"],
              always: [
                { guard: "mustRun", target: "running" },
                { guard: "mustEvaluate", target: "evaluating" }, // T2
                { guard: "mustCut", target: "waiting" },
                { guard: "isOver", target: "ending" },
                { target: "cutMade" },
              ],
            },
            // A pass through here ends a cut: the next one is chosen.
            cutMade: {
              entry: assign(({ context }) => ({
                cut: undefined,
                isCancelled: context.isCancelAsked,
              })),
              always: [{ guard: "isOver", target: "ending" }, { target: "deciding" }],
            },
            running: {
              entry: "askPauseToSave",
              invoke: {
                src: "running",
                input: ({ context }) => context,
                onDone: {
                  target: "deciding",
                  actions: [
                    assign(({ context, event }) => ({
                      step: event.output.step,
                      metrics: afterWindow(context.metrics, event.output),
                    })),
                    "tellGoingOn",
                  ],
                },
              },
              initial: "moving",
              states: {
                moving: {
                  invoke: { src: "waiting", input: ({ context }) => stepWait(context) },
                  after: { stallMs: { actions: "failStalled" } },
                  on: {
                    "host.progress": { guard: "hasMoved", target: "moving", reenter: true },
                  },
                },
              },
            },
            evaluating: {
              invoke: {
                src: "evaluating",
                input: ({ context }) => context,
                onDone: {
                  target: "deciding",
                  actions: [
                    assign(({ context, event }) => ({
                      metrics: afterEvaluation(
                        context.metrics,
                        context.job,
                        context.step,
                        event.output,
                      ),
                    })),
                    ({ context, event }) => tellEvaluated(context, event.output),
                  ],
                },
              },
            },
            // T4: the one before is still being written: as much back-pressure as there is.
            waiting: {
              entry: assign({ waitsSinceMs: ({ context }) => context.network.clock.now() }),
              always: { guard: "isCommitted", target: "cutting" },
            },
            cutting: {
              // A checkpoint that is made for new devices alone is no point of the history.
              entry: assign(({ context }) => ({
                waitedMs: context.network.clock.now() - context.waitsSinceMs,
                metrics: isOwnCut(context)
                  ? afterCheckpoint(context.metrics, context.step)
                  : { ...context.metrics, savedStep: context.step },
              })),
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
            ending: { always: { guard: "isCommitted", target: "resting" } }, // T4
            // The checkpoint is there: a tier that cannot keep its rows beside it costs time alone.
            resting: {
              invoke: {
                src: "resting",
                input: ({ context }) => context,
                onDone: {
                  target: "releasing",
                  actions: ({ context, event }) => tellRested(context, event.output),
                },
                onError: "releasing",
              },
            },
            releasing: {
              invoke: {
                src: "releasing",
                input: ({ context }) => context,
                onDone: "#trainingCoordinator.finished",
              },
            },
          },
        },
        writing: {
          initial: "nothing",
          states: {
            nothing: { always: { guard: "isOnItsWay", target: "cut" } },
            cut: {
              invoke: {
                src: "committing",
                input: ({ context }) => context,
                onDone: {
                  target: "nothing",
                  actions: [
                    ({ context, event }) => tellCheckpointed(context, event.output),
                    assign({
                      taken: undefined,
                      manifest: ({ event }) => event.output.manifest,
                    }),
                  ],
                },
              },
            },
          },
        },
      },
    },
    finished: { type: "final" },
  },
});

/** As drawn above; its children end with it. */
export const trainingCoordinatorMachine = downWithChildren(machine);

function raise(failure: unknown): never {
  throw failure;
}
