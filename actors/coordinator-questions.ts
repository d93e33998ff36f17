// What the training coordinator asks of the others, each question until it is answered. The answers
// are the outputs of promises; what they mean is decided in training-coordinator.ts.

import { fromPromise } from "xstate";
import type { JobSpec } from "../src/job.ts";
import type { Metrics } from "../src/training/metrics.ts";
import type { Cut } from "../src/training/schedule.ts";
import type { Manifest } from "../storage/checkpoint-store.ts";
import { type Assembly, type DataPlan, dataPlanSchema } from "./assembly.ts";
import type { MessageEvent } from "./listening.ts";
import { type Address, ask, type Mailbox, type Network, type RunScope } from "./mailbox.ts";
import { addCounts, type RunMetrics } from "./run-metrics.ts";

/** What a question is made of. */
export interface Asking {
  readonly network: Network;
  readonly mailbox: Mailbox;
  readonly scope: RunScope;
  readonly job: JobSpec;
  readonly devices: number;
  /** Number of the question. */
  readonly command: number;
  readonly plan: DataPlan | undefined;
  /** The checkpoint that the generation goes on from. */
  readonly latest: Manifest | undefined;
  readonly step: number;
  /** The cut that is being reached or made; undefined between cuts. */
  readonly cut: Cut | undefined;
  readonly metrics: RunMetrics;
  readonly arithmetic: string;
}

const host: Address = { role: "host", index: 0 };
const checkpoint: Address = { role: "checkpoint", index: 0 };

/** The data of the run, prepared. No deadline: host.preparing tells how far it is. */
export const preparing = fromPromise<DataPlan, Asking>(async ({ input, signal }) => {
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

/** The arithmetic of the devices, once all of them are ready. */
export const assembling = fromPromise<string, Asking>(async ({ input, signal }) => {
  const { network, mailbox, job, devices, plan, scope, step, latest, command } = input;
  if (plan === undefined) throw new RangeError("The data is not prepared");
  const assembly: Assembly = {
    ...scope,
    job,
    devices,
    hosts: [{ host: 0, devices }],
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

/** The window up to the cut, as device 0 tells of it, with the repaired ids of all devices. */
export const running = fromPromise<MessageEvent<"device.reached">["body"], Asking>(
  async ({ input, signal }) => {
    const { network, mailbox, cut, command } = input;
    if (cut === undefined) throw new RangeError("There is no window to run");
    const answers = await ask({
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
    const [first] = answers;
    if (first === undefined) throw new RangeError("There is no device 0");
    return { ...first, repairedIds: answers.map((one) => one.repairedIds).reduce(addCounts) };
  },
);

/** The metrics of this cut. */
export const evaluating = fromPromise<Metrics, Asking>(async ({ input, signal }) => {
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

/** The checkpoint of this cut. */
export const cutting = fromPromise<MessageEvent<"checkpoint.committed">["body"], Asking>(
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

/** Done when the host has let go of the generation. */
export const releasing = fromPromise<void, Asking>(async ({ input, signal }) => {
  const { network, mailbox, job, command } = input;
  await ask({
    network,
    mailbox,
    to: [host],
    type: "host.release",
    body: { command },
    answer: (message) => (message.type === "host.released" ? { from: 0, answer: true } : undefined),
    deadlineMs: job.stepDeadlineMs,
    signal,
  });
});

function devicesOf(context: Asking): Address[] {
  return Array.from({ length: context.devices }, (_, index) => ({ role: "device", index }));
}
