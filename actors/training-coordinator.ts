// Training coordinator: the step clock of one generation: who takes part, and what they do next.
//
//   preparing ▶ assembling ▶ deciding ─▶ running ───▶ deciding      a window up to the next cut
//                               │  ├───▶ evaluating ▶ deciding
//                               │  └───▶ cutting ───▶ deciding
//                               └──────▶ releasing ─▶ finished
//   meanwhile: watching the host's heartbeats and the devices' progress
//
// Takes   host.prepared · host.progress · host.failed · device.ready · reached · evaluated ·
//         checkpoint.committed · run.cancel
// Asks    host.prepare · host.assemble · host.release · device.run · evaluate · checkpoint.cut
//
// Invariants
//   T1. Everything it decides follows from the checkpoint it began with and what devices report:
//       restarted after a failure, it decides the same again.
//   T2. Evaluation comes before the checkpoint of its cut: metrics and patience are part of the cut.
//   T3. A failure of anyone who takes part ends this generation; nothing is retried (law 3).

import { assign, enqueueActions, fromPromise, setup } from "xstate";
import { PeerLostError, RemoteError, StepTimeoutError } from "../src/errors.ts";
import type { JobSpec } from "../src/job.ts";
import { kernelNotice } from "../src/kernels/index.ts";
import type { Metrics } from "../src/training/metrics.ts";
import { type Cut, nextCut, type Schedule, scheduleOf } from "../src/training/schedule.ts";
import type { CheckpointStore, Manifest } from "../storage/checkpoint-store.ts";
import { type Assembly, type DataPlan, dataPlanSchema } from "./assembly.ts";
import { throwInjected, type ThrowEvent } from "./chaos-throw.ts";
import { beatMs } from "./host-generation.ts";
import { ActorFailedError } from "./incident.ts";
import { listening, type MessageEvent } from "./listening.ts";
import { type Address, ask, type Mailbox, type Network, openMailbox, type RunScope } from "./mailbox.ts";
import {
  afterCheckpoint,
  afterEvaluation,
  afterWindow,
  type RunMetrics,
  restoredMetrics,
  resultOf,
} from "./run-metrics.ts";
import type { RunRecord, RunResult } from "./run-record.ts";

export interface TrainingCoordinatorInput {
  readonly network: Network;
  readonly scope: RunScope;
  readonly job: JobSpec;
  readonly devices: number;
  readonly store: CheckpointStore;
  readonly record: RunRecord;
  /** The checkpoint to go on from. */
  readonly latest: Manifest | undefined;
  /** When the failure was seen that this generation recovers from. */
  readonly failedAtMs: number | undefined;
}

export interface TrainingCoordinatorContext extends TrainingCoordinatorInput {
  readonly mailbox: Mailbox;
  /** Number of the next question. */
  readonly command: number;
  readonly plan: DataPlan | undefined;
  readonly schedule: Schedule | undefined;
  readonly step: number;
  /** The cut that is being reached or made; undefined between cuts. */
  readonly cut: Cut | undefined;
  readonly metrics: RunMetrics;
  readonly arithmetic: string;
  /** When the first window began. */
  readonly startedAtMs: number;
  /** Furthest step that a heartbeat has told. */
  readonly seenStep: number;
  readonly seenLoss: number;
  readonly isRecovered: boolean;
  readonly isCancelAsked: boolean;
  readonly isCancelled: boolean;
  readonly failure?: unknown;
}

type CoordinatorEvent =
  | MessageEvent<"host.progress" | "host.failed" | "host.preparing">
  | { readonly type: "run.cancel" }
  | ThrowEvent;

type Context = TrainingCoordinatorContext;
const host: Address = { role: "host", index: 0 };
const checkpoint: Address = { role: "checkpoint", index: 0 };

const preparing = fromPromise<DataPlan, Context>(async ({ input, signal }) => {
  const { network, mailbox, job, command } = input;
  const [plan] = await ask({
    network,
    mailbox,
    to: [host],
    type: "host.prepare",
    body: { command, job },
    answer: (message) =>
      message.type === "host.prepared" && message.body.command === command
        ? { from: 0, answer: message.body.plan }
        : undefined,
    deadlineMs: Number.POSITIVE_INFINITY, // Terabytes may be read: host.preparing tells of progress.
    signal,
  });
  return dataPlanSchema.parse(plan);
});

const assembling = fromPromise<string, Context>(async ({ input, signal }) => {
  const { network, mailbox, job, devices, plan, scope, step, latest, command } = input;
  if (plan === undefined) throw new RangeError("The data is not prepared");
  const assembly: Assembly = {
    ...scope,
    job,
    devices,
    data: plan,
    fromStep: step,
    manifest: latest,
  };
  const arithmetics = await ask({
    network,
    mailbox,
    to: [host],
    type: "host.assemble",
    body: { command, assembly },
    answer: everyDevice(devices),
    // Slabs are filled and checkpoints read: many steps' worth of memory and disk.
    deadlineMs: 10 * job.stepDeadlineMs,
    signal,
  });
  return arithmetics[0]?.[0] ?? "";
});

/** One answer, once all devices have said that they are ready: their arithmetics. */
function everyDevice(devices: number) {
  const ready = new Map<number, string>();
  return (message: { type: string; body: unknown }) => {
    if (message.type !== "device.ready") return undefined;
    const { device, arithmetic } = message.body as MessageEvent<"device.ready">["body"];
    ready.set(device, arithmetic);
    return ready.size === devices ? { from: 0, answer: [...ready.values()] } : undefined;
  };
}

const running = fromPromise<MessageEvent<"device.reached">["body"], Context>(
  async ({ input, signal }) => {
    const { network, mailbox, cut, command } = input;
    if (cut === undefined) throw new RangeError("There is no window to run");
    const [first] = await ask({
      network,
      mailbox,
      to: devicesOf(input),
      type: "device.run",
      body: { command, toStep: cut.step },
      answer: (message) =>
        message.type === "device.reached" && message.body.command === command
          ? { from: message.body.device, answer: message.body }
          : undefined,
      deadlineMs: Number.POSITIVE_INFINITY, // The watch sees to it that steps are made.
      signal,
    });
    if (first === undefined) throw new RangeError("There is no device 0");
    return first;
  },
);

const evaluating = fromPromise<Metrics, Context>(async ({ input, signal }) => {
  const { network, mailbox, job, command } = input;
  const answers = await ask({
    network,
    mailbox,
    to: devicesOf(input),
    type: "device.evaluate",
    body: { command },
    answer: (message) =>
      message.type === "device.evaluated" && message.body.command === command
        ? { from: message.body.device, answer: message.body.metrics }
        : undefined,
    // Each batch of it is watched by the devices; this bounds the whole.
    deadlineMs: 60 * job.stepDeadlineMs,
    signal,
  });
  const metrics = answers[0];
  if (metrics === undefined || metrics === null) throw new RangeError("No device has metrics");
  return metrics;
});

const cutting = fromPromise<MessageEvent<"checkpoint.committed">["body"], Context>(
  async ({ input, signal }) => {
    const { network, mailbox, job, metrics, step, arithmetic, command } = input;
    const [committed] = await ask({
      network,
      mailbox,
      to: [checkpoint],
      type: "checkpoint.cut",
      body: { command, cut: step, arithmetic, best: metrics.isBest, metrics },
      answer: (message) =>
        message.type === "checkpoint.committed" && message.body.command === command
          ? { from: 0, answer: message.body }
          : undefined,
      deadlineMs: 20 * job.stepDeadlineMs,
      signal,
    });
    if (committed === undefined) throw new RangeError("Nothing was committed");
    return committed;
  },
);

const releasing = fromPromise<void, Context>(async ({ input, signal }) => {
  const { network, mailbox, job, command } = input;
  await ask({
    network,
    mailbox,
    to: [host],
    type: "host.release",
    body: { command },
    answer: (message) =>
      message.type === "host.released" ? { from: 0, answer: true } : undefined,
    deadlineMs: job.stepDeadlineMs,
    signal,
  });
});

export const trainingCoordinatorMachine = setup({
  types: {} as {
    context: Context;
    input: TrainingCoordinatorInput;
    events: CoordinatorEvent;
    output: RunResult;
  },
  actors: { listening, preparing, assembling, running, evaluating, cutting, releasing },
  delays: {
    silenceMs: 3 * beatMs,
    doubtMs: beatMs,
    stallMs: ({ context }) => 2 * context.job.stepDeadlineMs,
  },
  actions: {
    throwInjected,
    nextCommand: assign({ command: ({ context }) => context.command + 1 }),
    chooseCut: assign(({ context }) => {
      const { schedule, job, step, cut } = context;
      if (schedule === undefined || cut !== undefined) return {};
      return { cut: nextCut(schedule, job, step) };
    }),
    tellProgress: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "host.progress" || context.schedule === undefined) return;
      const { record, scope, schedule, failedAtMs, network, latest } = context;
      const step = Math.max(0, ...event.body.steps.slice(0, 1));
      if (step <= context.seenStep) return;
      enqueue.assign({ seenStep: step });
      if (failedAtMs !== undefined && !context.isRecovered) {
        const seconds = (network.clock.now() - failedAtMs) / 1000;
        const fromStep = latest?.cut ?? 0;
        record.append(scope.generation, { type: "run.recovered", fromStep, seconds });
        enqueue.assign({ isRecovered: true });
      }
      const loss = event.body.losses.at(-1) ?? context.seenLoss;
      enqueue.assign({ seenLoss: loss });
      record.append(scope.generation, {
        type: "run.progress",
        step,
        steps: schedule.steps,
        loss,
        samplesPerSecond: samplesPerSecond(context, step),
      });
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
    noteFailed: assign({
      failure: ({ context, event }) => {
        if (event.type !== "host.failed") return context.failure;
        const { actor, error } = event.body;
        const supervisor = "host:0";
        const doing = `generation ${context.scope.generation}, step ${context.seenStep}`;
        const incident = { offender: actor, supervisor, context: doing, reason: error };
        return new ActorFailedError(incident, { cause: new RemoteError(error) });
      },
    }),
    fail: ({ context }) => {
      throw context.failure;
    },
    failSilent: () => {
      throw new PeerLostError("host:0", `no heartbeat for ${4 * beatMs} ms`);
    },
    failStalled: ({ context }) => {
      const wait = `a step after step ${context.seenStep} of the devices of host:0`;
      throw new StepTimeoutError(wait, 2 * context.job.stepDeadlineMs);
    },
  },
  guards: {
    isOver: ({ context: { schedule, step, metrics, isCancelled, cut } }) =>
      cut === undefined &&
      (isCancelled || step >= (schedule?.steps ?? 0) || metrics.earlyStopping.stopped),
    mustRun: ({ context: { cut, step, isCancelAsked } }) =>
      cut !== undefined && step < cut.step && !isCancelAsked,
    mustEvaluate: ({ context: { cut, metrics, step } }) =>
      cut?.evaluate === true && step === cut.step && metrics.evaluatedStep !== step,
    mustCut: ({ context: { cut, metrics, step, isCancelAsked } }) =>
      metrics.savedStep !== step &&
      (cut?.checkpoint === true || metrics.isBest || metrics.earlyStopping.stopped || isCancelAsked),
    isConnected: ({ context }) => context.network.isConnected(),
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
    isRecovered: false,
    isCancelAsked: input.record.isCancelAsked,
    isCancelled: false,
  }),
  invoke: { src: "listening", input: ({ context }) => context },
  on: {
    "chaos.throw": { actions: "throwInjected" },
    "host.failed": { actions: ["noteFailed", "fail"] }, // T3
    "host.preparing": { actions: "tellPreparing" },
    "run.cancel": { actions: ["noteCancel", "askPause"] },
  },
  output: ({ context }) => resultOf(context),
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
          initial: "alive",
          on: {
            "host.progress": { target: ".alive", reenter: true, actions: "tellProgress" },
          },
          states: {
            alive: { after: { silenceMs: "doubting" } },
            // What this thread was too busy to read is read before the silence counts.
            doubting: {
              after: {
                doubtMs: [
                  { guard: "isConnected", actions: "failSilent" },
                  { target: "doubting", reenter: true },
                ],
              },
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
                  actions: assign(({ context, event }) => ({
                    step: event.output.step,
                    metrics: afterWindow(context.metrics, event.output),
                    isCancelAsked: context.isCancelAsked || event.output.isPaused,
                  })),
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
              entry: assign(({ context }) => ({
                metrics: afterCheckpoint(context.metrics, context.step),
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

function devicesOf(context: Context): Address[] {
  return Array.from({ length: context.devices }, (_, index) => ({ role: "device", index }));
}

function samplesPerSecond(context: Context, step: number): number {
  const seconds = (context.network.clock.now() - context.startedAtMs) / 1000;
  const samples = (step - (context.latest?.cut ?? 0)) * context.job.data.batchSize;
  return seconds > 0 ? samples / seconds : 0;
}

function tellPrepared({ record, scope, plan, schedule }: Context): void {
  if (plan === undefined || schedule === undefined) return;
  record.append(scope.generation, {
    type: "run.prepared",
    samples: plan.training.samples,
    heldOut: plan.evaluation?.samples ?? 0,
    steps: schedule.steps,
    quarantined: plan.quarantined,
    quarantine: plan.quarantine,
    bestAuc: plan.bestAuc,
  });
}

function tellStarted(context: Context): void {
  const { record, scope, schedule, devices, arithmetic, step } = context;
  record.append(scope.generation, {
    type: "run.started",
    fromStep: step,
    steps: schedule?.steps ?? 0,
    devices,
    arithmetic,
    notice: kernelNotice(),
  });
}
