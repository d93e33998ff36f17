// Training coordinator: the step clock of one generation: who takes part, and what they do next.
//
//   preparing ▶ assembling ▶ deciding ─▶ running ───▶ deciding      a window up to the next cut
//                               │  ├───▶ evaluating ▶ deciding
//                               │  └───▶ cutting ───▶ deciding
//                               └──────▶ releasing ─▶ finished
//   meanwhile: watching the hosts' heartbeats, the devices' progress, and whether the run should
//   have other devices: then it ends after the current step, with a checkpoint, and without a
//   result; its supervisor begins a generation with those that are there
//
// Takes   host.prepared · progress · mended · failed · device.ready · reached · evaluated ·
//         checkpoint.committed · run.cancel; from the membership: host.gone; from scaling.ts:
//         run.rescale
// Asks    host.prepare · host.assemble · host.release · device.run · evaluate · checkpoint.cut
//
// Invariants
//   T1. Everything it decides follows from the checkpoint it began with and what devices report:
//       restarted after a failure, it decides the same again.
//   T2. Evaluation comes before the checkpoint of its cut: metrics and patience are part of the
//       cut.
//   T3. A failure of anyone who takes part ends this generation; nothing is retried (law 3).

import { assign, enqueueActions, setup } from "xstate";
import { PeerLostError, RemoteError, StepTimeoutError } from "../src/errors.ts";
import { nextCut, scheduleOf } from "../src/training/schedule.ts";
import { type ThrowEvent, throwInjected } from "./chaos-throw.ts";
import {
  isEnded,
  isOwnCut,
  type TrainingCoordinatorContext,
  type TrainingCoordinatorInput,
} from "./coordinator-context.ts";
import * as questions from "./coordinator-questions.ts";
import {
  incidentOf,
  tellGoingOn,
  tellPrepared,
  tellProgress,
  tellStarted,
  tiersOf,
  watchPipeline,
  watchStragglers,
} from "./coordinator-report.ts";
import { downWithChildren } from "./down-with-children.ts";
import { hostWatchMachine, watchingMembership } from "./host-watch.ts";
import { ActorFailedError } from "./incident.ts";
import { listening, type MessageEvent } from "./listening.ts";
import { openMailbox } from "./mailbox.ts";
import { devicesOf } from "./membership.ts";
import { afterTelling, emptyWatch, timesOfAll } from "./pipeline-watch.ts";
import {
  afterCheckpoint,
  afterEvaluation,
  afterWindow,
  restoredMetrics,
  resultOf,
} from "./run-metrics.ts";
import type { RunResult } from "./run-record.ts";
import { watchingScale } from "./scaling.ts";
import { dealSlices, noStragglers } from "./straggler-watch.ts";

type CoordinatorEvent =
  | MessageEvent<"host.progress" | "host.mended" | "host.failed" | "host.preparing">
  | { readonly type: "host.gone"; readonly host: number }
  | { readonly type: "run.cancel" | "run.rescale" }
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
    hostWatch: hostWatchMachine,
    ...questions,
  },
  delays: { stallMs: ({ context }) => 2 * context.job.stepDeadlineMs },
  actions: {
    throwInjected,
    nextCommand: assign({ command: ({ context }) => context.command + 1 }),
    chooseCut: assign(({ context }) => {
      const { schedule, job, step, cut } = context;
      if (schedule === undefined || cut !== undefined) return {};
      return { cut: nextCut(schedule, job, step) };
    }),
    watchHosts: enqueueActions(({ context, enqueue }) => {
      const { network, hosts } = context;
      for (const { host } of hosts) {
        enqueue.spawnChild("hostWatch", { id: `watch:${host}`, input: { network, host } });
      }
    }),
    passOn: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "host.progress") return;
      const { host } = event.body;
      if (context.hosts.some((one) => one.host === host)) enqueue.sendTo(`watch:${host}`, event);
    }),
    watchPipeline: enqueueActions(({ context, event, enqueue }) => {
      if (event.type === "host.progress")
        enqueue.assign({ watch: watchPipeline(context, event.body) });
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
      tellProgress(context, step, loss);
      enqueue.assign({ seenStep: step, seenLoss: loss, watch: afterTelling(context.watch) });
    }),
    tellGoingOn: enqueueActions(({ context, enqueue }) => {
      const { isGoingOn, latest, step, seenStep } = context;
      if (isGoingOn || Math.max(step, seenStep) <= (latest?.cut ?? 0)) return;
      tellGoingOn(context);
      enqueue.assign({ isGoingOn: true });
    }),
    tellPreparing: ({ context, event }) => {
      if (event.type !== "host.preparing") return;
      const { fraction } = event.body;
      context.record.append(context.scope.generation, { type: "run.preparing", fraction });
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
    noteFailed: assign({
      failure: ({ context, event }) => {
        if (event.type !== "host.failed") return context.failure;
        const incident = incidentOf(context, event.body);
        return new ActorFailedError(incident, { cause: new RemoteError(incident.reason) });
      },
    }),
    tellMended: ({ context, event }) => {
      if (event.type !== "host.mended") return;
      const { record, scope } = context;
      const { reason, ...where } = incidentOf(context, event.body);
      record.append(scope.generation, { type: "run.incident", ...where, error: reason });
    },
    fail: ({ context }) => {
      throw context.failure;
    },
    failGone: ({ event }) => {
      if (event.type !== "host.gone") return;
      throw new PeerLostError(`host:${event.host}`, "it is not a host of the cluster any more");
    },
    failStalled: ({ context }) => {
      const names = context.hosts.map(({ host }) => `host:${host}`).join(", ");
      const wait = `a step after step ${context.seenStep} of the devices of ${names}`;
      throw new StepTimeoutError(wait, 2 * context.job.stepDeadlineMs);
    },
  },
  guards: {
    isOver: ({ context }) =>
      context.cut === undefined && (isEnded(context) || context.isScaleAsked),
    mustRun: ({ context: { cut, step, isCancelAsked, isScaleAsked } }) =>
      cut !== undefined && step < cut.step && !isCancelAsked && !isScaleAsked,
    mustEvaluate: ({ context: { cut, metrics, step } }) =>
      cut?.evaluate === true && step === cut.step && metrics.evaluatedStep !== step,
    mustCut: ({ context }) =>
      context.metrics.savedStep !== context.step &&
      (isOwnCut(context) || (context.isScaleAsked && context.step > (context.latest?.cut ?? 0))),
    hasMoved: ({ context, event }) =>
      event.type === "host.progress" && (event.body.steps[0] ?? 0) > context.seenStep,
  },
}).createMachine({
  id: "trainingCoordinator",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.scope, { role: "coordinator", index: 0 }),
    command: 1,
    plan: undefined,
    schedule: undefined,
    step: input.latest?.cut ?? 0,
    cut: undefined,
    metrics: restoredMetrics(input.latest),
    arithmetic: input.latest?.arithmetic ?? "",
    startedAtMs: 0,
    seenStep: input.latest?.cut ?? 0,
    seenLoss: Number.NaN,
    watch: emptyWatch,
    sliceCounts: dealSlices(input.job.slices, input.hosts, input.record.speeds),
    stragglers: noStragglers,
    isGoingOn: false,
    isCancelAsked: input.record.isCancelAsked,
    isCancelled: false,
    isScaleAsked: false,
  }),
  invoke: [
    { src: "listening", input: ({ context }) => context },
    { src: "watchingMembership", input: ({ context }) => context },
    {
      src: "watchingScale",
      input: ({ context }) => ({ ...context, clock: context.network.clock }),
    },
  ],
  on: {
    "chaos.throw": { actions: "throwInjected" },
    "host.gone": { actions: "failGone" }, // T3
    "host.failed": { actions: ["noteFailed", "fail"] }, // T3
    "host.mended": { actions: "tellMended" },
    "host.preparing": { actions: "tellPreparing" },
    "run.cancel": { actions: ["noteCancel", "askPause"] },
    "run.rescale": { actions: ["noteScale", "askPause"] },
  },
  output: ({ context }) => {
    if (!isEnded(context)) return undefined;
    return resultOf({ ...context, times: timesOfAll(context.watch), tiers: tiersOf(context) });
  },
  initial: "preparing",
  states: {
    preparing: {
      invoke: {
        src: "preparing",
        input: ({ context }) => context,
        onDone: {
          target: "prepared",
          actions: assign(({ context, event }) => {
            const plan = event.output;
            const { batchSize, passes } = context.job.data;
            const { samples } = plan.training;
            return { plan, schedule: scheduleOf({ samples, batchSize, passes }) };
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
              arithmetic: event.output,
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
              actions: [
                "passOn",
                "watchPipeline",
                "watchStragglers",
                "tellProgress",
                "tellGoingOn",
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
                { guard: "mustRun", target: "running" },
                { guard: "mustEvaluate", target: "evaluating" }, // T2
                { guard: "mustCut", target: "cutting" },
                { guard: "isOver", target: "releasing" },
                { target: "cutMade" },
              ],
            },
            // A pass through here ends a cut: the next one is chosen.
            cutMade: {
              entry: assign(({ context }) => ({
                cut: undefined,
                isCancelled: context.isCancelAsked,
              })),
              always: [{ guard: "isOver", target: "releasing" }, { target: "deciding" }],
            },
            running: {
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
                  after: { stallMs: { actions: "failStalled" } },
                  on: {
                    "host.progress": {
                      guard: "hasMoved",
                      target: "moving",
                      reenter: true,
                    },
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
                    ({ context, event }) => {
                      const { record, scope, step } = context;
                      const metrics = event.output;
                      record.append(scope.generation, { type: "run.evaluated", step, metrics });
                    },
                  ],
                },
              },
            },
            cutting: {
              // A checkpoint that is made for new devices alone is no point of the history.
              entry: assign(({ context }) => ({
                metrics: isOwnCut(context)
                  ? afterCheckpoint(context.metrics, context.step)
                  : { ...context.metrics, savedStep: context.step },
              })),
              invoke: {
                src: "cutting",
                input: ({ context }) => context,
                onDone: {
                  target: "deciding",
                  actions: ({ context, event }) => {
                    const { record, scope, metrics } = context;
                    const { cut, modelDigest, bytes } = event.output;
                    record.append(scope.generation, {
                      type: "run.checkpointed",
                      step: cut,
                      digest: modelDigest,
                      best: metrics.isBest,
                      bytes,
                      tiers: tiersOf(context),
                    });
                  },
                },
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
      },
    },
    finished: { type: "final" },
  },
});

/** As drawn above; its children end with it. */
export const trainingCoordinatorMachine = downWithChildren(machine);
