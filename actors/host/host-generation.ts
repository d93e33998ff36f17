// Host generation: supervises the actors of one generation on one host: devices and their tiers,
// the writers of their checkpoints, readers, and the bridge to the other hosts, if there are any.
// It starts when the host assembles the generation, and owns the memory that these actors share.
//
//   beating ──device, tier or bridge failed──▶ error (law 3: the generation is over)
//      │ │                                   └──▶ left, for partial recovery
//      │ └──reader failed──▶ beating, with a new reader in its place; error where the data cache
//      │                     is damaged
//      └─ every `beatMs`: host.progress to the coordinator
//
// Invariants
//   G1. The layout is computed and the memory allocated once per generation, by this actor: a
//       heartbeat only reads both.
//   G2. When it ends, for any reason, every thread that waits on its memory is woken first.
//   G3. No actor starts before this host has seen that it shares the checkpoints of the others.

import { resolve } from "node:path";
import {
  type AnyActorRef,
  assign,
  type ErrorActorEvent,
  enqueueActions,
  fromCallback,
  setup,
} from "xstate";
import { PathNotSharedError } from "../../src/errors/errors.ts";
import { sampledFlights } from "../../src/exchange/flights.ts";
import { readWaitNotes } from "../../src/exchange/wait-notes.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { beatMs } from "../../src/ports/deadlines.ts";
import type { Disk } from "../../src/ports/disk.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import { isObjectAddress } from "../../src/ports/object-store.ts";
import { windowStepsMax } from "../../src/training/loop/schedule.ts";
import { addCurves } from "../../src/training/planning/tier-advice.ts";
import type { LinkReport } from "../../src/wire/messages/fields.ts";
import type { ReplicaCache } from "../../storage/checkpoints/replicas/replica-cache.ts";
import { pathsOf } from "../../storage/checkpoints/store/store-paths.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { ActorFailedError } from "../runtime/incident.ts";
import { type Mailbox, type MessageEvent, type Network, openMailbox } from "../runtime/mailbox.ts";
import { emptyHistory, type RestartHistory } from "../runtime/restart-policy.ts";
import { anyone, type Wait } from "../runtime/wait-graph.ts";
import {
  abort,
  type Generation,
  type HostedGeneration,
  type HostLayout,
  isAborted,
  type Progress,
  progressOver,
} from "../threads/generation-memory.ts";
import {
  type GenerationSpec,
  type HostPlace,
  hasBuddies,
  mayRecoverPartly,
  placeOfHost,
} from "../threads/generation-spec.ts";
import type { KeptRows } from "../threads/kept-rows.ts";
import { bridgeMachine } from "./bridge.ts";
import { createWithin } from "./data-preparation.ts";
import { deviceMachine } from "./device.ts";
import type { TimelineKeeper } from "./kept-timelines.ts";
import { failureOfActor, replacementOf } from "./mending.ts";
import { readerMachine } from "./reader.ts";
import { hasEndedByItself, type ThreadPlace } from "./thread-actor.ts";
import { type TierStatus, tierMachine } from "./tier.ts";
import { workerPoolMachine } from "./worker-pool.ts";
import { type PartsSaved, writerMachine } from "./writer.ts";

export interface HostGenerationInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly spec: GenerationSpec;
  readonly host: number;
  /** The spec, laid out; left out: that is done here. */
  readonly laidOut?: HostLayout | undefined;
  /** The replica cache, the rows and the timelines of this host, which outlive the generation. */
  readonly replicas: ReplicaCache;
  readonly rows: KeptRows;
  readonly timelines: TimelineKeeper;
}

export interface HostGenerationContext extends HostGenerationInput {
  readonly mailbox: Mailbox;
  readonly generation: HostedGeneration;
  readonly place: HostPlace;
  /** Whether the bridge receives frames of the other hosts. */
  readonly isBridged: boolean;
  readonly links?: LinkReport; // Of its direct links, the latest.
  /** Latest report of each tier, by device. */
  readonly tiers: Readonly<Record<number, TierStatus>>;
  /** Thread place of each reader. */
  readonly places: readonly ThreadPlace[];
  readonly history: RestartHistory;
  readonly beat: number;
  /** Number of steps with reported losses. */
  readonly reportedLosses: number;
  readonly failure?: unknown;
}

type HostGenerationEvent =
  | { readonly type: "reader.restart"; readonly id: string }
  | { readonly type: "bridge.ready" }
  | { readonly type: "links.changed"; readonly links: LinkReport }
  | { readonly type: "tier.changed"; readonly status: TierStatus }
  | PartsSaved
  | ErrorActorEvent<unknown, string>;

/** Reader restarts allowed within the window; more mean that the cause lies elsewhere. */
const readerIntensity = { restartsMax: 10, windowMs: 60_000 } as const;

/** G2: aborts the generation when the machine stops, for any reason. */
const abortingAtStop = fromCallback<{ type: string }, HostGenerationContext>(({ input }) => {
  return () => abort(input.generation);
});

const machine = setup({
  types: {} as {
    context: HostGenerationContext;
    input: HostGenerationInput;
    events: HostGenerationEvent;
  },
  actors: {
    device: deviceMachine,
    tier: tierMachine,
    writer: writerMachine,
    reader: readerMachine,
    bridge: bridgeMachine,
    pool: workerPoolMachine,
    abortingAtStop,
  },
  delays: { beatMs },
  actions: {
    startAll: enqueueActions(({ context, enqueue }) => {
      const { network, launcher, spec, generation, replicas, timelines } = context;
      timelines.keep(generation);
      const { first, count, host, position } = context.place;
      checkShared(spec, host, network.disk); // G3
      logAssembled(context);
      // Without buddies no replica is renewed; the devices restore from those already in `memory`.
      if (!hasBuddies(spec)) replicas.retain([], Number.POSITIVE_INFINITY);
      const common = { network, launcher, generation, replicas };
      if (spec.hosts.length > 1) {
        enqueue.spawnChild("bridge", { id: `bridge:${host}`, input: { ...common, position } });
      }
      for (let device = first; device < first + count; device++) {
        if (generation.memory.tiers[device] !== undefined) {
          enqueue.spawnChild("tier", { id: `tier:${device}`, input: { ...common, device } });
        }
        enqueue.spawnChild("writer", { id: `writer:${device}`, input: { ...common, device } });
        const lease = generation.leases[device - first];
        if (lease === undefined) throw new RangeError(`There is no lease for device ${device}`);
        const input = { ...common, device, lease };
        enqueue.spawnChild("device", { id: `device:${device}`, input });
      }
      if (spec.job.preprocessing !== undefined) {
        enqueue.spawnChild("pool", { id: `pool:${position}`, input: { ...common, position } });
      }
      for (const reader of readersOf(context)) {
        const input = { ...common, reader, place: placeOf(context, reader) };
        enqueue.spawnChild("reader", { id: `reader:${reader}`, input });
      }
    }),
    noteBridged: assign({ isBridged: true }),
    noteTier: assign({
      tiers: ({ context, event }) =>
        event.type === "tier.changed"
          ? { ...context.tiers, [event.status.device]: event.status }
          : context.tiers,
    }),
    forward: ({ event, self }) => {
      if (event.type !== "parts.saved") return;
      const children: Partial<Record<string, AnyActorRef>> = self.getSnapshot().children;
      children[`device:${event.device}`]?.send(event);
    },
    beatReaders: ({ context, self }) => {
      const children: Partial<Record<string, AnyActorRef>> = self.getSnapshot().children;
      for (const reader of readersOf(context)) {
        children[`reader:${reader}`]?.send({ type: "reader.beat" });
      }
    },
    beat: enqueueActions(({ context, enqueue }) => {
      const { generation, mailbox, reportedLosses, beat, isBridged, links } = context;
      const progress = progressOf(generation);
      const { host, first, count } = context.place;
      const steps = Array.from({ length: count }, (_, i) =>
        Atomics.load(progress.steps, first + i),
      );
      const done = first === 0 ? (steps[0] ?? 0) : reportedLosses;
      const lossFrom = Math.max(reportedLosses, done - windowStepsMax / 2);
      const losses = Array.from(
        { length: Math.max(0, done - lossFrom) },
        (_, i) => progress.losses[(lossFrom + i) % windowStepsMax] ?? Number.NaN,
      );
      const meters = metersOf(context);
      const tiers = Object.values(context.tiers);
      const waits = threadWaits(generation, context.place, context.network.clock);
      const body = { host, beat, isBridged, links, tiers, steps, waits, lossFrom, losses, meters };
      mailbox.send({ role: "coordinator", index: 0 }, "host.progress", body);
      enqueue.assign({ beat: beat + 1, reportedLosses: Math.max(reportedLosses, done) });
    }),
    childFailed: enqueueActions(({ context, event, enqueue }) => {
      if (!("error" in event) || context.failure !== undefined) return; // Only the first counts.
      // Threads exit when a generation is aborted: the actor whose thread aborted it reports why.
      if (hasEndedByItself(event.error) && isAborted(context.generation)) return;
      const { network } = context;
      const id = event.actorId;
      const failure = failureOfActor(context, id, event.error, {
        step: stepOf(context, id),
        waits: threadWaits(context.generation, context.place, network.clock),
      });
      // Another reader would fail in the same way: the next generation rebuilds a damaged cache,
      // and a file that has changed ends the run.
      const isFinal = failure.code === "DATA_CACHE_DAMAGED" || failure.recovery === "stop";
      if (!id.startsWith("reader:") || isFinal) {
        enqueue.assign({ failure });
        return;
      }
      enqueue.stopChild(id);
      const next = replacementOf(context, id, failure, readerIntensity);
      if (next === undefined) {
        enqueue.assign({ failure });
        return;
      }
      enqueue.assign({ history: next.history });
      context.mailbox.send({ role: "coordinator", index: 0 }, "host.mended", next.body);
      enqueue.raise({ type: "reader.restart", id }, { delay: next.body.delayMs });
    }),
    restartReader: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "reader.restart") return;
      const { network, launcher, generation } = context;
      const reader = Number(event.id.split(":")[1]);
      const input = { network, launcher, generation, reader, place: placeOf(context, reader) };
      enqueue.spawnChild("reader", { id: event.id, input });
    }),
    sendFailed: ({ context: { failure, mailbox, host } }) => {
      if (!(failure instanceof ActorFailedError)) return;
      const { offender: actor, reason: error, context: doing, step, waits = [] } = failure.incident;
      const body = { host, actor, context: doing, error, step, waits };
      mailbox.send({ role: "coordinator", index: 0 }, "host.failed", body);
    },
    handUp: ({ context }) => {
      throw context.failure;
    },
  },
  guards: {
    hasFailed: ({ context }) => context.failure !== undefined,
    isLeft: ({ context }) => context.failure !== undefined && mayRecoverPartly(context.spec),
  },
}).createMachine({
  id: "hostGeneration",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.spec, { role: "host", index: input.host }),
    generation: createWithin(input, placeOfHost(input.spec, input.host)), // G1
    place: placeOfHost(input.spec, input.host),
    isBridged: input.spec.hosts.length === 1,
    tiers: {},
    places: Array.from({ length: input.spec.job.readers }, () => ({
      lastEnded: Promise.resolve(),
    })),
    history: emptyHistory,
    beat: 0,
    reportedLosses: input.spec.fromStep,
  }),
  entry: "startAll",
  invoke: { src: "abortingAtStop", input: ({ context }) => context },
  on: {
    "xstate.error.actor.*": { actions: "childFailed" },
    "reader.restart": { actions: "restartReader" },
    "bridge.ready": { actions: "noteBridged" },
    "links.changed": { actions: assign({ links: ({ event }) => event.links }) },
    "parts.saved": { actions: "forward" },
    "tier.changed": { actions: ["noteTier", "beat"] }, // Sent now: the next beat may be too late.
  },
  initial: "beating",
  states: {
    beating: {
      entry: ["beat", "beatReaders"],
      always: [
        { guard: "isLeft", target: "left" },
        { guard: "hasFailed", target: "failed" },
      ],
      after: { beatMs: { target: "beating", reenter: true } },
    },
    failed: { entry: "handUp" },
    // Ends when its host is released or assembles another generation.
    left: { entry: "sendFailed" },
  },
});

/** The state machine drawn in the header, as an actor. */
export const hostGenerationMachine = defineActor(machine, { receives: "nothing" });

function progressOf({ spec, memory }: Generation): Progress {
  return progressOver(memory, spec.devices);
}

/** Completed steps of a device; for any other actor, those of the host's first device. */
function stepOf({ generation, place }: HostGenerationContext, id: string): number {
  const { steps } = progressOf(generation);
  const own = id.startsWith("device:") ? Number(id.slice("device:".length)) : place.first;
  return Atomics.load(steps, own);
}

function logAssembled({ network, spec, host, place }: HostGenerationContext): void {
  const { run, generation, job, fromStep: step } = spec;
  network.log.keep(run, job.checkpoint.directory, `host-${host}`);
  const { first, count: devices } = place;
  const fields = { run, generation, step, host, actor: `host:${host}`, first, devices };
  network.log.write("info", "assembled", fields);
}

/** The present counters of the host's devices and readers. */
export function metersOf({
  generation,
  place,
}: HostGenerationContext): MessageEvent<"host.progress">["body"]["meters"] {
  const progress = progressOf(generation);
  return {
    devices: Array.from({ length: place.count }, (_, i) =>
      sampled(progress.metersOf(place.first + i)),
    ),
    reading: sampled(progress.reading),
    curves: curvesOf(generation),
    flights: sampledFlights(generation.memory.flights),
  };
}

/** An atomic read of each counter. */
function sampled(words: BigInt64Array): number[] {
  return Array.from(words, (_, at) => Number(Atomics.load(words, at)));
}

/** Miss-ratio curves summed over this host's devices; undefined if no device has tiers. */
function curvesOf({ spec, memory }: Generation): number[][] | undefined {
  const counts = Object.values(memory.curves).map((words) => new Float64Array(words));
  return counts.length === 0 ? undefined : addCurves(counts, spec.job.model.tables.length);
}

/** Numbers of this host's readers, which are counted over all hosts. */
function readersOf({ spec, place }: HostGenerationContext): number[] {
  const { readers } = spec.job;
  return Array.from({ length: readers }, (_, reader) => place.position * readers + reader);
}

function placeOf({ places, spec }: HostGenerationContext, reader: number): ThreadPlace {
  const place = places[reader % spec.job.readers];
  if (place === undefined) throw new RangeError(`There is no reader ${reader}`);
  return place;
}

/**
 * Checks that this host, which may be another machine, sees the checkpoints of the cluster: the
 * generation's record, just written.
 * @throws PathNotSharedError naming host and path
 */
export function checkShared({ job, generation }: GenerationSpec, host: number, disk: Disk): void {
  if (host === 0) return; // Host 0 is the process that wrote them.
  const { directory } = job.checkpoint;
  // Of an object store, a device's thread checks it: this one must not wait for the network.
  if (isObjectAddress(directory)) return;
  const record = pathsOf(directory).generation(generation);
  if (!disk.exists(record)) throw new PathNotSharedError(`host:${host}`, resolve(record));
}

/** The waits of the threads of the host at `place`, for every heartbeat: no layout is made (G1). */
function threadWaits(generation: Generation, place: HostPlace, clock: Clock): Wait[] {
  const { spec, memory } = generation;
  const nameOf = participantNames(generation, place);
  const { steps } = progressOver(memory, spec.devices);
  return readWaitNotes(memory.waits).map(({ participant, of, what, sinceMs }) => ({
    waiter: nameOf(participant),
    awaited: nameOf(of),
    what,
    forMs: Math.max(0, clock.date().getTime() - sinceMs),
    ...(participant < spec.devices ? { step: Atomics.load(steps, participant) } : {}),
  }));
}

/** Maps a participant on a host to the name of its actor. */
function participantNames(
  { spec: { devices, job }, layout: { bridge, tierRings, tierOf, writerOf } }: Generation,
  place: HostPlace,
): (participant: number) => string {
  const names = new Map<number, string>([[bridge, `bridge:${place.host}`]]);
  for (let reader = 0; reader < job.readers; reader++) {
    names.set(devices + reader, `reader:${place.position * job.readers + reader}`);
  }
  const isTiered = tierRings.some((ring) => ring !== undefined);
  for (let rank = 0; rank < devices; rank++) {
    if (isTiered) names.set(tierOf(rank), `tier:${rank}`);
    names.set(writerOf(rank), `writer:${rank}`);
    names.set(rank, `device:${rank}`);
  }
  return (participant) => names.get(participant) ?? anyone;
}
