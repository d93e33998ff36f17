// Requests of the training coordinator to hosts, devices, tiers and the checkpoint coordinator.
// Each is one message that is repeated until it is answered; the promise resolves to the answers.
// The machine (training-coordinator.ts) runs one promise per state.

import { fromPromise } from "xstate";
import { inOrderOf } from "../../../src/data/contents.ts";
import { ArithmeticMismatchError } from "../../../src/errors/errors.ts";
import { checkContents } from "../../../src/job/check-contents.ts";
import { type JobSpec, jobTextOf } from "../../../src/job/job.ts";
import { stepBefore } from "../../../src/job/warm-start.ts";
import { areAlike, bytesOfHosts, fleetIn, type LinkChoice } from "../../../src/planner/fleet.ts";
import { beatMs, deadlinesOf } from "../../../src/ports/deadlines.ts";
import { inTurns } from "../../../src/ports/turns.ts";
import type { Metrics } from "../../../src/training/loop/metrics.ts";
import type { Cut } from "../../../src/training/loop/schedule.ts";
import { type RunPlan, runPlanSchema } from "../../../src/training/planning/plan-report.ts";
import type { Manifest } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { devicesOf, type HostShare, type Membership } from "../../host/membership.ts";
import {
  type ActorMessage,
  type Address,
  type Mailbox,
  type MessageEvent,
  type Network,
  type RunScope,
  request,
} from "../../runtime/mailbox.ts";
import { cachesOf } from "../../threads/data/stream-origins.ts";
import { type GenerationLayout, layoutOnDemand } from "../../threads/generation-layout.ts";
import { dataPlanSchema } from "../../threads/generation-schema.ts";
import {
  type DataPlan,
  type GenerationSpec,
  generationSpecOf,
  type HostPlace,
  hostPlaceOf,
  hostPlaces,
} from "../../threads/generation-spec.ts";
import type { RunMetrics } from "../state/run-metrics.ts";
import type { RunRecord } from "../state/run-record.ts";
import { type FollowedPins, followPins } from "./follow-pins.ts";
import { type HostHardware, hardwareOf, lacksLinks, withMeasuredLinks } from "./host-hardware.ts";
import { type JoinedWindow, joinWindows } from "./join-windows.ts";
import { isRunDone, type RunPosition, windowEnd } from "./next-action.ts";
import { stayPlaced } from "./stay-placed.ts";
import { transferDeadlines } from "./transfer-deadlines.ts";

export { committing, cutting, listing, persisting } from "./checkpoint-requests.ts";
export { commandingReaders } from "./reader-commands.ts";

/** The context from which requests are built. */
export interface RequestInput {
  readonly network: Network;
  readonly mailbox: Mailbox;
  readonly scope: RunScope;
  readonly job: JobSpec;
  /** Hosts of the generation, in the order of their devices' ranks. */
  readonly hosts: readonly HostShare[];
  /** Notified while the hosts assemble. */
  readonly membership: Membership;
  /** Slices per device; undefined: dealt evenly. */
  readonly sliceCounts: number[] | undefined;
  /** Number of the request: an answer to an older one is ignored. */
  readonly command: number;
  readonly plan: DataPlan | undefined;
  /** Placement of the tables. */
  readonly placement: RunPlan | undefined;
  /** Shards placed by the pins of the run's owner. */
  readonly pins: FollowedPins;
  /** How frames travel between its hosts; undefined: there is one, or no direct links. */
  readonly links: LinkChoice | undefined;
  /** Memory limit of the process of a host. */
  readonly memoryBytes: number;
  /** The checkpoint that the generation restores. */
  readonly latest: Manifest | undefined;
  /** Hash of the newest checkpoint's manifest. */
  readonly manifest: string | undefined;
  readonly step: number;
  /** The cut that is being reached or made; undefined between cuts. */
  readonly cut: Cut | undefined;
  readonly metrics: RunMetrics;
  /** Time at which the failure was noticed that this generation recovers from; undefined: none. */
  readonly failedAtMs: number | undefined;
  readonly record: Pick<RunRecord, "replayed" | "placed" | "pins" | "readers" | "shards">;
  readonly arithmetic: string;
  readonly sets: readonly string[];
  /** Undefined until the generation is assembled. */
  readonly layout: (() => GenerationLayout) | undefined;
  /** The cut that was taken and is not committed yet. */
  readonly taken: TakenCut | undefined;
  /** Hosts that leave after the cut in progress. */
  readonly leaving: readonly number[];
  /** Hosts of `leaving` that have handed over all parts: their silence is no failure. */
  readonly left: readonly number[];
}

/** A cut that the writers are still writing. */
export interface TakenCut {
  readonly step: number;
  readonly isBest: boolean;
  /** Whether a user requested it. */
  readonly isRequested: boolean;
  /** Longest stall of a device for it. */
  readonly stallMs: number;
  /** Wait for the previous checkpoint. */
  readonly waitedMs: number;
}

/** The prepared data of a generation, and the placement of its tables. */
export interface Prepared {
  readonly plan: DataPlan;
  readonly placement: RunPlan;
  readonly pins: FollowedPins;
  readonly links: LinkChoice | undefined;
  readonly memoryBytes: number;
}

/**
 * Has the first host prepare the run's data and find a plan for the generation's devices; with the
 * same devices as before, the plan of the previous generation is kept. Progress arrives as
 * host.preparing.
 * @throws DataChangedError where the checkpoint was trained on other data
 */
export const preparing = fromPromise<Prepared, RequestInput>(async ({ input, signal }) => {
  const { network, mailbox, job, command, record, metrics } = input;
  const hosts = input.hosts.map(({ devices }) => devices);
  const { pins } = record;
  const own = hardwareOf(input);
  const known = knownFor(input, hosts, own);
  const isMeasured = known === undefined && lacksLinks(input, own);
  const found = isMeasured ? await withMeasuredLinks(own, input, signal) : own;
  const { choice: links, ...hardware } = found;
  const [answered] = await request({
    network,
    mailbox,
    to: hostsOf(input).slice(0, 1),
    type: "host.prepare",
    body: {
      ...{ command, job: jobTextOf(job), hostCount: hosts.length },
      ...(known === undefined ? { hosts, pins, ...hardware } : {}),
    },
    answer: (message) =>
      message.type === "host.prepared" && message.body.command === command
        ? { from: 0, answer: message.body }
        : undefined,
    // No deadline: terabytes may be read, and host.preparing reports progress.
    deadlineMs: Number.POSITIVE_INFINITY,
    signal,
  });
  const prepared = dataPlanSchema.parse(answered?.plan);
  const ofJob = { directory: job.checkpoint.directory, contents: metrics.contents };
  const { directory, contents } = record.replayed ?? ofJob;
  checkContents(job, contents, prepared.contents, directory);
  const isNew = input.step === stepBefore(job);
  const plan = { ...prepared, contents: inOrderOf(contents, prepared.contents, isNew) };
  const memoryBytes = answered?.memoryBytes ?? Number.POSITIVE_INFINITY;
  const { machines } = hardware;
  await caching(input, plan, signal);
  const spec = { ...input, plan, pins: [] };
  const planned = { hosts, machines, memoryBytes };
  const { fleet } = fleetIn(planned, "each");
  const bytes = bytesOfHosts(planned);
  const staying = () =>
    stayPlaced(runPlanSchema.parse(answered?.placement), record.shards, spec, fleet, bytes);
  const placement = known ?? (await inTurns(network.clock, staying(), signal));
  if (known === undefined && placement.plan !== undefined) {
    record.placed = { hosts, machines, placement };
  }
  const followed = followPins(pins, { ...spec, placement }, bytes);
  return { plan, placement, memoryBytes, pins: followed, links };
});

/** Has the other hosts make the caches that the first host has made, unless they see them. */
async function caching(input: RequestInput, plan: DataPlan, signal: AbortSignal): Promise<void> {
  const { network, mailbox, job, command } = input;
  const [, ...others] = hostsOf(input);
  if (others.length === 0) return;
  await request({
    network,
    mailbox,
    to: others,
    type: "host.cache",
    body: { command, job: jobTextOf(job), caches: cachesOf(plan) },
    answer(message) {
      if (message.type !== "host.cached" || message.body.command !== command) return undefined;
      const from = others.findIndex(({ index }) => index === message.body.host);
      return from < 0 ? undefined : { from, answer: true };
    },
    deadlineMs: Number.POSITIVE_INFINITY, // As for host.prepare.
    signal,
  });
}

/** The previous generation's plan, if it can be kept: only pinned shards move. */
function knownFor(
  { record }: RequestInput,
  hosts: readonly number[],
  { machines }: HostHardware,
): RunPlan | undefined {
  const { placed } = record;
  if (placed?.hosts.join() !== hosts.join()) return undefined;
  if (!areAlike(hosts, placed.machines, machines)) return undefined;
  return placed.placement.unpinned === undefined ? placed.placement : undefined;
}

/** An assembled generation: all its devices are ready. */
export interface Assembled {
  readonly arithmetic: string;
  /** The instruction sets of its devices, each once, in the order of names. */
  readonly sets: readonly string[];
  /** Restored bytes of the checkpoint, by source. */
  readonly restored: Restored;
  /** Undefined where its trainers are asynchronous. */
  readonly layout: (() => GenerationLayout) | undefined;
  /** The rate limit with which its readers started. */
  readonly readerLimit: number;
  /** Duration of assembly and restore. */
  readonly assemblyMs: number;
}

type Restored = MessageEvent<"device.ready">["body"]["restored"];

/**
 * Resolves once all devices are ready and their hosts are connected to each other.
 * @throws ArithmeticMismatchError where two devices compute with different kernels
 */
export const assembling = fromPromise<Assembled, RequestInput>(async ({ input, signal }) => {
  const { network, mailbox, job, command } = input;
  const spec = specOf(input);
  const startMs = network.clock.now();
  const assembled = input.membership.assemble(input.hosts);
  const answers = await request({
    network,
    mailbox,
    to: hostsOf(input),
    type: "host.assemble",
    body: { command, job: jobTextOf(job), assembly: JSON.stringify({ ...spec, job: undefined }) },
    answer: everyHost(spec),
    executing: ({ type, body }) => {
      if (type !== "host.progress") return [];
      return input.hosts.flatMap(({ host }, at) => (host === body.host ? [at] : []));
    },
    // Slabs are filled and checkpoints read: as much memory and disk traffic as in many steps.
    deadlineMs: transferDeadlines(input).assembly,
    signal,
  }).finally(assembled);
  const devices = answers.flat();
  const [first = "", ...others] = devices.map(({ arithmetic }) => arithmetic);
  const other = others.find((arithmetic) => arithmetic !== first);
  if (other !== undefined) throw new ArithmeticMismatchError(first, other);
  const sets = [...new Set(devices.flatMap(({ set }) => set ?? []))].sort();
  const sum = (name: keyof Restored) => devices.reduce((all, one) => all + one.restored[name], 0);
  const restored = {
    memoryBytes: sum("memoryBytes"),
    storeBytes: sum("storeBytes"),
    keptBytes: sum("keptBytes"),
  };
  const { readerLimit = 0 } = spec;
  const assemblyMs = network.clock.now() - startMs;
  const layout = job.mode === "async" ? undefined : layoutOnDemand(spec);
  return { arithmetic: first, sets, restored, layout, readerLimit, assemblyMs };
});

function specOf(input: RequestInput): GenerationSpec {
  const { limit: readerLimit } = input.record.readers;
  return generationSpecOf({ ...input, pins: input.pins.followed, readerLimit });
}

/**
 * Collects the answer of each host: complete once all its devices have reported ready and, with
 * several hosts, the host has reported that its bridge reaches the others.
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

/** Runs the window up to the cut. */
export const running = fromPromise<JoinedWindow, RequestInput & RunPosition>(
  async ({ input, signal }) => {
    const { network, mailbox, job, command, metrics } = input;
    const toStep = windowEnd(input);
    if (toStep === undefined) throw new RangeError("There is no window to run");
    const answers = await request({
      network,
      mailbox,
      to: allDevices(input),
      type: "device.run",
      body: {
        ...{ command, toStep, lossSum: metrics.lossSum },
        plateau: metrics.plateau?.share ?? 1,
      },
      answer: (message) =>
        message.type === "device.reached" && message.body.command === command
          ? { from: message.body.device, answer: message.body }
          : undefined,
      executing: (message) => devicesUnderWay(message, input, toStep),
      executingMs: 3 * beatMs,
      deadlineMs: Number.POSITIVE_INFINITY, // The coordinator's step watch detects a stall.
      signal,
    });
    return joinWindows(job, answers, metrics.lossSum);
  },
);

/** The devices that a heartbeat shows inside the window: their request is not repeated. */
function devicesUnderWay(message: ActorMessage, input: RequestInput, toStep: number): number[] {
  if (message.type !== "host.progress") return [];
  const { host, steps } = message.body;
  const place = input.hosts.findIndex((one) => one.host === host);
  if (place < 0) return [];
  const first = devicesOf(input.hosts.slice(0, place));
  return steps.flatMap((step, i) => (step > input.step && step < toStep ? [first + i] : []));
}

/** The metrics of this cut on the held-out samples. */
export const evaluating = fromPromise<Metrics, RequestInput>(({ input, signal }) =>
  evaluate("evaluation", input, signal),
);

/** The metrics of this cut on the test samples. */
export const testing = fromPromise<Metrics, RequestInput>(({ input, signal }) =>
  evaluate("test", input, signal),
);

async function evaluate(
  part: "evaluation" | "test",
  input: RequestInput,
  signal: AbortSignal,
): Promise<Metrics> {
  const { network, mailbox, job, command } = input;
  const answers = await request({
    network,
    mailbox,
    to: allDevices(input),
    type: "device.evaluate",
    body: { command, part },
    answer: (message) =>
      message.type === "device.evaluated" && message.body.command === command
        ? { from: message.body.device, answer: message.body.metrics }
        : undefined,
    // The devices have a deadline per batch; this one bounds the whole evaluation.
    deadlineMs: deadlinesOf(job).evaluation,
    signal,
  });
  const metrics = answers[0];
  if (metrics === undefined || metrics === null) throw new RangeError("No device has metrics");
  return metrics;
}

/** Resolves once all hosts have released the generation. */
export const releasing = fromPromise<
  readonly MessageEvent<"host.released">["body"][],
  RequestInput & RunPosition
>(async ({ input, signal }) => {
  const { network, mailbox, job, command, left } = input;
  const hosts = input.hosts.filter(({ host }) => !left.includes(host));
  return await request({
    network,
    mailbox,
    to: hostsOf({ hosts }),
    type: "host.release",
    body: { command, isOver: isRunDone(input) },
    answer: (message) => {
      if (message.type !== "host.released") return undefined;
      const from = hosts.findIndex(({ host }) => host === message.body.host);
      return from < 0 ? undefined : { from, answer: message.body };
    },
    deadlineMs: deadlinesOf(job).step,
    signal,
  });
});

function hostsOf({ hosts }: Pick<RequestInput, "hosts">): Address[] {
  return hosts.map(({ host }) => ({ role: "host", index: host }));
}

function allDevices({ hosts }: RequestInput): Address[] {
  return Array.from({ length: devicesOf(hosts) }, (_, index) => ({ role: "device", index }));
}
