// What the training coordinator asks of hosts, devices, tiers and the checkpoint coordinator. Each
// request is one message that is repeated until it is answered; the answers are the output of a
// promise. The machine (training-coordinator.ts) runs one promise for each of its states.

import { fromPromise } from "xstate";
import { inOrderOf } from "../../src/data/contents.ts";
import { ArithmeticMismatchError } from "../../src/errors/errors.ts";
import { checkContents } from "../../src/job/check-contents.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { stepBefore } from "../../src/job/warm-start.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import type { Metrics } from "../../src/training/loop/metrics.ts";
import type { Cut } from "../../src/training/loop/schedule.ts";
import { type RunPlan, runPlanSchema } from "../../src/training/planning/run-plan.ts";
import type { Manifest } from "../../storage/checkpoint-store/checkpoint-store.ts";
import { durableRanks } from "../../storage/tiers/shape.ts";
import { devicesOf, type HostShare, type Membership } from "../host/membership.ts";
import { addCounts, addIdCounts, type RunMetrics } from "../run-state/run-metrics.ts";
import type { RunRecord } from "../run-state/run-record.ts";
import type { MessageEvent } from "../runtime/listening.ts";
import {
  type ActorMessage,
  type Address,
  ask,
  type Mailbox,
  type Network,
  type RunScope,
} from "../runtime/mailbox.ts";
import { type GenerationLayout, layoutOfGeneration } from "../threads/generation-layout.ts";
import { dataPlanSchema } from "../threads/generation-schema.ts";
import {
  type DataPlan,
  type GenerationSpec,
  generationSpecOf,
  type HostPlace,
  hostPlaceOf,
  hostPlaces,
} from "../threads/generation-spec.ts";
import { type FollowedPins, followPins } from "./follow-pins.ts";

export { commandingReaders } from "./reader-commands.ts";

/** What requests are made of. */
export interface RequestInput {
  readonly network: Network;
  readonly mailbox: Mailbox;
  readonly scope: RunScope;
  readonly job: JobSpec;
  /** The hosts that take part, in the order of their devices' ranks. */
  readonly hosts: readonly HostShare[];
  /** Told while they assemble. */
  readonly membership: Membership;
  /** Slices of each device; undefined: even ones. */
  readonly sliceCounts: number[] | undefined;
  /** Number of the request: an answer to an older one is ignored. */
  readonly command: number;
  readonly plan: DataPlan | undefined;
  /** How the tables are placed. */
  readonly placement: RunPlan | undefined;
  /** Shards that lie elsewhere, as their owner wants it. */
  readonly pins: FollowedPins;
  /** What the process of a host may use. */
  readonly memoryBytes: number;
  /** The checkpoint that the generation goes on from. */
  readonly latest: Manifest | undefined;
  /** Hash of the newest checkpoint's manifest. */
  readonly manifest: string | undefined;
  readonly step: number;
  /** The cut that is being reached or made; undefined between cuts. */
  readonly cut: Cut | undefined;
  readonly metrics: RunMetrics;
  readonly record: Pick<RunRecord, "replayed" | "placed" | "pins" | "readers">;
  readonly arithmetic: string;
  /** Computed when the generation is assembled. */
  readonly layout: GenerationLayout | undefined;
  /** The cut that was taken and is not committed yet. */
  readonly taken: TakenCut | undefined;
}

/** A cut on its way to the disk. */
export interface TakenCut {
  readonly step: number;
  readonly isBest: boolean;
  /** Whether a user asked for it. */
  readonly isAsked: boolean;
  /** The longest that a device took for it. */
  readonly stallMs: number;
  /** How long it had to wait for the one before. */
  readonly waitedMs: number;
}

const checkpoint: Address = { role: "checkpoint", index: 0 };

/** The data of a generation, and the place of its tables. */
export interface Prepared {
  readonly plan: DataPlan;
  readonly placement: RunPlan;
  readonly pins: FollowedPins;
  readonly memoryBytes: number;
}

/**
 * The data of the run, prepared by its first host, and the plan that it has found for the devices
 * of the generation; the plan of the generation before, if the devices are the same. host.preparing
 * tells how far it is.
 * @throws DataChangedError where the run goes on from a checkpoint of other data
 */
export const preparing = fromPromise<Prepared, RequestInput>(async ({ input, signal }) => {
  const { network, mailbox, job, command, record, metrics } = input;
  const hosts = input.hosts.map(({ devices }) => devices);
  const { pins } = record;
  const known = knownFor(input, hosts);
  const [found] = await ask({
    network,
    mailbox,
    to: hostsOf(input).slice(0, 1),
    type: "host.prepare",
    body: { command, job, ...(known === undefined ? { hosts, pins } : {}) },
    answer: (message) =>
      message.type === "host.prepared" && message.body.command === command
        ? { from: 0, answer: message.body }
        : undefined,
    // Terabytes may be read; the messages host.preparing tell of progress.
    deadlineMs: Number.POSITIVE_INFINITY,
    signal,
  });
  const prepared = dataPlanSchema.parse(found?.plan);
  const own = { directory: job.checkpoint.directory, contents: metrics.contents };
  const { directory, contents } = record.replayed ?? own;
  checkContents(job, contents, prepared.contents, directory);
  const placement = known ?? runPlanSchema.parse(found?.placement);
  if (placement.plan !== undefined) record.placed = { hosts, placement };
  const isNew = input.step === stepBefore(job);
  const plan = { ...prepared, contents: inOrderOf(contents, prepared.contents, isNew) };
  const memoryBytes = found?.memoryBytes ?? Number.POSITIVE_INFINITY;
  const followed = followPins(pins, { ...input, plan, placement, pins: [] }, memoryBytes);
  return { plan, placement, memoryBytes, pins: followed };
});

/** The plan of the generation before, where it may be kept: only shards that are pinned move. */
function knownFor({ record }: RequestInput, hosts: readonly number[]): RunPlan | undefined {
  const { placed } = record;
  if (placed?.hosts.join() !== hosts.join()) return undefined;
  return placed.placement.unpinned === undefined ? placed.placement : undefined;
}

/** The devices of a generation, ready. */
export interface Assembled {
  readonly arithmetic: string;
  /** Where the bytes of the checkpoint came from. */
  readonly restored: Restored;
  readonly layout: GenerationLayout;
  /** The limit that its readers began with. */
  readonly readerLimit: number;
  /** How long it took. */
  readonly assemblyMs: number;
}

type Restored = MessageEvent<"device.ready">["body"]["restored"];

/**
 * Resolves once all devices are ready and their hosts hear each other.
 * @throws ArithmeticMismatchError where two devices have different ones
 */
export const assembling = fromPromise<Assembled, RequestInput>(async ({ input, signal }) => {
  const { network, mailbox, job, command } = input;
  const spec = specOf(input);
  const startMs = network.clock.now();
  const assembled = input.membership.assemble(input.hosts);
  const answers = await ask({
    network,
    mailbox,
    to: hostsOf(input),
    type: "host.assemble",
    body: { command, assembly: spec },
    answer: everyHost(spec),
    // Slabs are filled and checkpoints read: many steps' worth of memory and disk.
    deadlineMs: deadlinesOf(job).assembly,
    signal,
  }).finally(assembled);
  const devices = answers.flat();
  const [first = "", ...others] = devices.map(({ arithmetic }) => arithmetic);
  const other = others.find((arithmetic) => arithmetic !== first);
  if (other !== undefined) throw new ArithmeticMismatchError(first, other);
  const sum = (name: keyof Restored) => devices.reduce((all, one) => all + one.restored[name], 0);
  const restored = { memoryBytes: sum("memoryBytes"), storeBytes: sum("storeBytes") };
  const { readerLimit = 0 } = spec;
  const assemblyMs = network.clock.now() - startMs;
  return { arithmetic: first, restored, layout: layoutOfGeneration(spec), readerLimit, assemblyMs };
});

function specOf(input: RequestInput): GenerationSpec {
  const { limit: readerLimit } = input.record.readers;
  return generationSpecOf({ ...input, pins: input.pins.followed, readerLimit });
}

/**
 * The answer of a host: what its devices are, once all have said that they are ready, and it has
 * said that it hears the other hosts, where there are any.
 */
function everyHost(spec: GenerationSpec) {
  const ready = new Map<number, MessageEvent<"device.ready">["body"]>();
  const bridged = new Set<number>();
  const places = hostPlaces(spec);
  const answerOf = ({ host, position, first, count }: HostPlace) => {
    const ranks = Array.from({ length: count }, (_, i) => first + i);
    if (places.length > 1 && !bridged.has(host)) return undefined;
    const all = ranks.flatMap((rank) => ready.get(rank) ?? []);
    return all.length < count ? undefined : { from: position, answer: all };
  };
  return (message: ActorMessage) => {
    if (message.type === "host.progress") {
      const { host, isBridged } = message.body;
      if (isBridged) bridged.add(host);
      const place = places.find((one) => one.host === host);
      return place && answerOf(place);
    }
    if (message.type !== "device.ready" || message.body.device >= spec.devices) return undefined;
    ready.set(message.body.device, message.body);
    return answerOf(hostPlaceOf(spec, message.body.device));
  };
}

/** The window up to the cut, as device 0 tells of it, with what all devices count. */
export const running = fromPromise<MessageEvent<"device.reached">["body"], RequestInput>(
  async ({ input, signal }) => {
    const { network, mailbox, cut, command, metrics } = input;
    if (cut === undefined) throw new RangeError("There is no window to run");
    const answers = await ask({
      network,
      mailbox,
      to: allDevices(input),
      type: "device.run",
      body: {
        ...{ command, toStep: cut.step, lossSum: metrics.lossSum },
        plateau: metrics.plateau?.share ?? 1,
      },
      answer: (message) =>
        message.type === "device.reached" && message.body.command === command
          ? { from: message.body.device, answer: message.body }
          : undefined,
      deadlineMs: Number.POSITIVE_INFINITY, // The watch sees to it that steps are made.
      signal,
    });
    const [first] = answers;
    if (first === undefined) throw new RangeError("There is no device 0");
    return {
      ...first,
      repairedIds: answers.map((one) => one.repairedIds).reduce(addCounts),
      staleRows: answers.map((one) => one.staleRows).reduce(addCounts),
      dynamicIds: answers.map((one) => one.dynamicIds).reduce(addIdCounts),
    };
  },
);

/** The metrics of this cut. */
export const evaluating = fromPromise<Metrics, RequestInput>(({ input, signal }) =>
  evaluate("evaluation", input, signal),
);

/** The metrics of the test. */
export const testing = fromPromise<Metrics, RequestInput>(({ input, signal }) =>
  evaluate("test", input, signal),
);

async function evaluate(
  part: "evaluation" | "test",
  input: RequestInput,
  signal: AbortSignal,
): Promise<Metrics> {
  const { network, mailbox, job, command } = input;
  const answers = await ask({
    network,
    mailbox,
    to: allDevices(input),
    type: "device.evaluate",
    body: { command, part },
    answer: (message) =>
      message.type === "device.evaluated" && message.body.command === command
        ? { from: message.body.device, answer: message.body.metrics }
        : undefined,
    // Each batch of it is watched by the devices; this bounds the whole.
    deadlineMs: deadlinesOf(job).evaluation,
    signal,
  });
  const metrics = answers[0];
  if (metrics === undefined || metrics === null) throw new RangeError("No device has metrics");
  return metrics;
}

/** All devices have taken this cut, and may go on. */
export const cutting = fromPromise<MessageEvent<"checkpoint.taken">["body"], RequestInput>(
  async ({ input, signal }) => {
    const { network, mailbox, job, metrics, step, arithmetic, command, plan } = input;
    const [taken] = await ask({
      network,
      mailbox,
      to: [checkpoint],
      type: "checkpoint.cut",
      body: {
        ...{ command, cut: step, arithmetic, best: metrics.isBest, metrics },
        means: plan?.means,
      },
      answer: (message) =>
        message.type === "checkpoint.taken" && message.body.command === command
          ? { from: 0, answer: message.body }
          : undefined,
      deadlineMs: deadlinesOf(job).cut,
      signal,
    });
    if (taken === undefined) throw new RangeError("Nothing was taken");
    return taken;
  },
);

/** The checkpoint that the writers are at, once it exists. */
export const committing = fromPromise<MessageEvent<"checkpoint.committed">["body"], RequestInput>(
  async ({ input, signal }) => {
    const { network, mailbox, taken } = input;
    const [committed] = await ask({
      network,
      mailbox,
      to: [checkpoint],
      type: "checkpoint.commit",
      body: { cut: taken?.step ?? 0 },
      answer: (message) =>
        message.type === "checkpoint.committed" && message.body.cut === taken?.step
          ? { from: 0, answer: message.body }
          : undefined,
      deadlineMs: Number.POSITIVE_INFINITY, // The checkpoint coordinator counts.
      signal,
    });
    if (committed === undefined) throw new RangeError("Nothing was committed");
    return committed;
  },
);

/** What durable tiers keep of their rows beside the last checkpoint, tier by tier. */
export const resting = fromPromise<MessageEvent<"tier.rested">["body"][], RequestInput>(
  async ({ input, signal }) => {
    const { network, mailbox, job, manifest, command, layout } = input;
    const devices = layout === undefined ? [] : durableRanks(layout.topology);
    if (devices.length === 0 || manifest === undefined) return [];
    return await ask({
      network,
      mailbox,
      to: devices.map((index) => ({ role: "tier", index })),
      type: "tier.rest",
      body: { command, manifest },
      answer: (message) =>
        message.type === "tier.rested" && message.body.command === command
          ? { from: devices.indexOf(message.body.device), answer: message.body }
          : undefined,
      // All that is not on the disk yet goes there: many steps' worth.
      deadlineMs: deadlinesOf(job).rest,
      signal,
    });
  },
);

/** Done when all hosts have let go of the generation. */
export const releasing = fromPromise<void, RequestInput>(async ({ input, signal }) => {
  const { network, mailbox, job, command } = input;
  await ask({
    network,
    mailbox,
    to: hostsOf(input),
    type: "host.release",
    body: { command },
    answer: (message) => {
      if (message.type !== "host.released") return undefined;
      const from = input.hosts.findIndex(({ host }) => host === message.body.host);
      return from < 0 ? undefined : { from, answer: true };
    },
    deadlineMs: deadlinesOf(job).step,
    signal,
  });
});

function hostsOf({ hosts }: RequestInput): Address[] {
  return hosts.map(({ host }) => ({ role: "host", index: host }));
}

function allDevices({ hosts }: RequestInput): Address[] {
  return Array.from({ length: devicesOf(hosts) }, (_, index) => ({ role: "device", index }));
}
