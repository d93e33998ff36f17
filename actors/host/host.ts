// Host: the actor of a host, in the leader's process or in a host process (`osiris host`). It
// prepares data, and runs one generation of each run that has devices on this host, as the run's
// coordinator requests. If the actor fails, a supervisor in the same process restarts it.
//
//   host.assemble ──▶ opening ──▶ a generation ──▶ host.release, or a newer generation: stopped
//                                             └──▶ ended with an error: host.failed is sent
//
// Takes   host.prepare · host.index · host.cache · host.measure · host.assemble · host.release
// Emits   host.preparing · host.prepared · host.cached · host.measured · host.failed ·
//         host.released; its generation sends the coordinator host.progress · host.mended
//
// Invariants
//   H1. A generation that is not newer than the last generation of its run is not assembled: its
//       coordinator has ended.
//   H2. A failure is reported with the actor that failed first; the host itself keeps running.
//   H3. If generations together need more devices than the host has, the oldest are stopped: they
//       have ended elsewhere, and their host.release was lost.
//   H4. A spec of 10,000 tables is checked, laid out and assembled in turns of their own: between
//       two of them this process sends its heartbeats.

import {
  type AnyActorRef,
  type DoneActorEvent,
  type ErrorActorEvent,
  enqueueActions,
  fromCallback,
  setup,
} from "xstate";
import { FrameCorruptError, recordError } from "../../src/errors/errors.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { beatMs } from "../../src/ports/deadlines.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import { inTurns, nextTurn } from "../../src/ports/turns.ts";
import { ReplicaCache } from "../../storage/checkpoints/replicas/replica-cache.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { failureOf } from "../runtime/incident.ts";
import {
  type Address,
  listeningAsHost,
  type MessageEvent,
  type Network,
  openMailbox,
  type RunScope,
} from "../runtime/mailbox.ts";
import { type HostLayout, layingOutHost } from "../threads/generation-memory.ts";
import {
  jobInMessage,
  measuredInMessage,
  pinsInMessage,
  readingSpec,
} from "../threads/generation-schema.ts";
import { type GenerationSpec, placeOfHost, replicaBytesOf } from "../threads/generation-spec.ts";
import { KeptRows } from "../threads/kept-rows.ts";
import { asynchronousGenerationMachine } from "./asynchronous/generation.ts";
import { memoryOf, preparing, preparingId, preparingsOf } from "./data-preparation.ts";
import { caching, cachingId, indexing, indexingId } from "./further-host.ts";
import { hostGenerationMachine, metersOf } from "./host-generation.ts";
import { TimelineKeeper } from "./kept-timelines.ts";
import { linkProbeId, probingLinks } from "./link-probe.ts";
import { devicesOf } from "./membership.ts";

export interface HostInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly host: number;
  /** Devices of this process. */
  readonly devices: number;
}

/** The last generation of a run on this host, without job and manifest, which have megabytes. */
interface Served {
  readonly spec: Pick<GenerationSpec, "run" | "generation" | "hosts">;
  readonly isServed: boolean;
  /** Replicas of the run's newest checkpoint, kept from one generation to the next. */
  readonly replicas: ReplicaCache;
  /** Rows of its tables, likewise. */
  readonly rows: KeptRows;
}

export interface HostContext extends HostInput {
  /** Latest generation of each run, in the order of assembly. */
  readonly served: ReadonlyMap<string, Served>;
  readonly timelines: TimelineKeeper;
}

/** Most runs whose last generation is kept. */
const servedMax = 1000;

/**
 * A generation with a checked spec. `laidOut` undefined: its layout failed, or it is asynchronous.
 */
export interface Opened {
  readonly type: "host.opened";
  readonly id: string;
  readonly spec: GenerationSpec;
  readonly laidOut: HostLayout | undefined;
}

type HostEvent =
  | Opened
  | MessageEvent<"host.prepare" | "host.index" | "host.cache" | "host.measure">
  | MessageEvent<"host.assemble" | "host.release">
  | { readonly type: "host.forget"; readonly id: string }
  | ErrorActorEvent<unknown, string>
  | DoneActorEvent<unknown, string>;

const coordinator: Address = { role: "coordinator", index: 0 };

/**
 * Repeats host.failed, since a frame may be lost, until the host's missing heartbeats would be
 * noticed.
 */
const repeatingFailed = fromCallback<
  { type: string },
  { readonly clock: Clock; readonly tell: () => void }
>(({ input: { clock, tell } }) => {
  let cancel = () => {};
  const again = (times: number) => {
    tell();
    if (times > 1) cancel = clock.after(beatMs, () => again(times - 1));
  };
  again(4);
  return () => cancel();
});

/** Waits until rows are no longer kept. Ends with the host, so that it holds up no process. */
const expiring = fromCallback<{ type: string }, { readonly rows: KeptRows; readonly clock: Clock }>(
  ({ input }) => input.rows.expire(input.clock),
);

/** H4. Checks and lays out the generation of a host.assemble. */
const opening = fromCallback<
  { type: string },
  {
    readonly id: string;
    readonly host: number;
    readonly clock: Clock;
    readonly message: MessageEvent<"host.assemble">;
    readonly refuse: (reason: string) => void;
  }
>(({ input: { id, host, clock, message, refuse }, sendBack }) => {
  const stopped = new AbortController();
  const { signal } = stopped;
  const turn = () => nextTurn(clock, signal);
  const read = async (): Promise<GenerationSpec> => {
    const { job, assembly } = message.body;
    const spec = await inTurns(clock, readingSpec(job, assembly), signal);
    if (spec.run === message.run && spec.generation === message.generation) return spec;
    throw new RangeError("the body specifies another generation than the subject");
  };
  // The generation fails with an error of its layout, and so reports it (H2).
  const lay = (spec: GenerationSpec) =>
    inTurns(clock, layingOutHost(spec, placeOfHost(spec, host)), signal).catch(() => undefined);
  const open = async (): Promise<void> => {
    await turn();
    const spec = await read();
    await turn();
    // Asynchronous trainers share no memory with each other.
    const laidOut = spec.job.mode === "async" ? undefined : await lay(spec);
    await turn();
    sendBack({ type: "host.opened", id, spec, laidOut } as Opened);
  };
  open().catch((error: unknown) => {
    if (signal.aborted) return;
    refuse(recordError(error).message);
    sendBack({ type: "host.forget", id } as { type: string });
  });
  return () => stopped.abort();
});

const machine = setup({
  types: {} as { context: HostContext; input: HostInput; events: HostEvent },
  actors: {
    preparing,
    indexing,
    caching,
    probingLinks,
    opening,
    expiring,
    repeatingFailed,
    generation: hostGenerationMachine,
    asynchronous: asynchronousGenerationMachine,
  },
  actions: {
    prepare: enqueueActions(({ context, event, self, enqueue }) => {
      if (event.type !== "host.prepare") return;
      const id = preparingId(event);
      const running = self.getSnapshot().children[id as never];
      if (running !== undefined) return enqueue.sendTo(running, event); // A repeat.
      const { data: job, error } = jobInMessage.safeParse(event.body.job);
      const pins = pinsInMessage.safeParse(event.body.pins);
      const measured = measuredInMessage.safeParse(event.body.measured);
      const fault = error ?? pins.error ?? measured.error;
      if (fault !== undefined || job === undefined) {
        return context.network.onCorrupt(new FrameCorruptError(event.type, fault?.message ?? ""));
      }
      // A preparation beside a run that has begun ends with its generation.
      for (const old of olderThan(event, self.getSnapshot().children)) enqueue.stopChild(old);
      const request = { question: event, job, pins: pins.data, measured: measured.data };
      enqueue.spawnChild("preparing", { id, input: { ...context, ...request } });
    }),
    index: enqueueActions(({ context, event, self, enqueue }) => {
      if (event.type !== "host.index") return;
      const id = indexingId(event);
      if (self.getSnapshot().children[id as never] !== undefined) return; // A repeat.
      const { data: job, error } = jobInMessage.safeParse(event.body.job);
      if (job === undefined) {
        return context.network.onCorrupt(new FrameCorruptError(event.type, error?.message ?? ""));
      }
      enqueue.spawnChild("indexing", { id, input: { ...context, question: event, job } });
    }),
    cache: enqueueActions(({ context, event, self, enqueue }) => {
      if (event.type !== "host.cache") return;
      const { network, host } = context;
      const id = cachingId(event);
      if (self.getSnapshot().children[id as never] !== undefined) return; // A repeat.
      const { command, caches } = event.body;
      if (caches.every(({ path }) => network.disk.exists(path))) {
        const mailbox = openMailbox(network, event, hostAddress(context));
        return mailbox.send(coordinator, "host.cached", { command, host });
      }
      const { data: job, error } = jobInMessage.safeParse(event.body.job);
      if (job === undefined) {
        return network.onCorrupt(new FrameCorruptError(event.type, error?.message ?? ""));
      }
      for (const old of olderThan(event, self.getSnapshot().children)) enqueue.stopChild(old);
      enqueue.spawnChild("caching", { id, input: { ...context, question: event, job } });
    }),
    measure: enqueueActions(({ context, event, self, enqueue }) => {
      if (event.type !== "host.measure" || !event.body.hosts.includes(context.host)) return;
      const id = linkProbeId(event);
      if (self.getSnapshot().children[id as never] === undefined) {
        enqueue.spawnChild("probingLinks", { id, input: { ...context, question: event } });
      } else enqueue.sendTo(id, event);
    }),
    forget: enqueueActions(({ event, enqueue }) => {
      if (event.type === "host.forget" || event.type === "host.opened") enqueue.stopChild(event.id);
    }),
    open: enqueueActions(({ context, event, self, enqueue }) => {
      if (event.type !== "host.assemble") return;
      const id = openingId(event);
      enqueue.stopChild(linkProbeId(event));
      if (self.getSnapshot().children[id as never] !== undefined) return; // A repeat.
      const { network, host } = context;
      const { clock, onCorrupt } = network;
      const refuse = (reason: string) => onCorrupt(new FrameCorruptError(event.type, reason));
      enqueue.spawnChild("opening", { id, input: { id, host, clock, message: event, refuse } });
    }),
    assemble: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "host.opened") return;
      const { spec, laidOut } = event;
      enqueue.stopChild(event.id);
      const served = new Map(context.served);
      const stop = (run: string) => {
        const one = served.get(run);
        if (one?.isServed !== true) return;
        enqueue.stopChild(generationId(one.spec));
        served.set(run, { ...one, isServed: false });
      };
      stop(spec.run);
      const bytesMax = replicaBytesOf(spec.job, memoryOf(context.network));
      const replicas = served.get(spec.run)?.replicas ?? new ReplicaCache(bytesMax);
      const rows = served.get(spec.run)?.rows ?? new KeptRows();
      served.delete(spec.run); // Reinserted below as the newest.
      enqueue.stopChild(expiringId(spec.run));
      for (const [run] of served) {
        if (devicesHere(context, [...served.values(), { spec, isServed: true }]) <= context.devices)
          break;
        stop(run); // H3
      }
      const kept = { run: spec.run, generation: spec.generation, hosts: spec.hosts };
      served.set(spec.run, { spec: kept, isServed: true, replicas, rows });
      for (const [run, one] of served) {
        if (served.size > servedMax && !one.isServed) served.delete(run);
        if (one.isServed) continue;
        one.replicas.retain([], Number.POSITIVE_INFINITY); // The run may be over.
        one.rows.clear();
      }
      const { network, launcher, host, timelines } = context;
      const input = { network, launcher, host, spec, laidOut, replicas, rows, timelines };
      const kind = spec.job.mode === "async" ? "asynchronous" : "generation";
      enqueue.spawnChild(kind, { id: generationId(spec), input });
      enqueue.assign({ served });
    }),
    release: enqueueActions(({ context, event, self, enqueue }) => {
      if (event.type !== "host.release") return;
      const ofGeneration = preparingsOf(event);
      for (const id of Object.keys(self.getSnapshot().children)) {
        const isOf = id === openingId(event) || id === linkProbeId(event);
        if (id.startsWith(ofGeneration) || isOf) enqueue.stopChild(id);
      }
      const one = context.served.get(event.run);
      if (one?.isServed !== true || one.spec.generation !== event.generation) return;
      const { rows } = one;
      const id = expiringId(event.run);
      enqueue.stopChild(generationId(one.spec));
      enqueue.stopChild(id);
      if (event.body.isOver) rows.clear();
      else enqueue.spawnChild("expiring", { id, input: { rows, clock: context.network.clock } });
      enqueue.assign({
        served: new Map(context.served).set(event.run, { ...one, isServed: false }),
      });
    }),
    /** H2. Ends a failed generation and reports its failure. */
    fail: enqueueActions(({ context, event, enqueue }) => {
      if (!("error" in event)) return;
      const { error, actorId } = event;
      const one = [...context.served.values()].find(
        ({ spec, isServed }) => isServed && generationId(spec) === actorId,
      );
      if (one === undefined) throw error;
      const { host, network, served } = context;
      const { spec, rows } = one;
      enqueue.stopChild(actorId);
      const expiryId = expiringId(spec.run);
      enqueue.stopChild(expiryId);
      enqueue.spawnChild("expiring", { id: expiryId, input: { rows, clock: network.clock } });
      enqueue.assign({ served: new Map(served).set(spec.run, { ...one, isServed: false }) });
      const offender = `host:${host}`;
      const where = { offender, supervisor: "cluster", context: "serving" };
      const { incident } = failureOf(error, where);
      const { offender: actor, reason, step, waits = [] } = incident;
      const body = { host, actor, context: incident.context, error: reason, step, waits };
      const mailbox = openMailbox(network, spec, hostAddress(context));
      const tell = () => mailbox.send(coordinator, "host.failed", body);
      const id = `failed:${spec.run}`;
      enqueue.stopChild(id);
      enqueue.spawnChild("repeatingFailed", { id, input: { clock: network.clock, tell } });
    }),
    // Comes before the generation stops: a run may end sooner than the next heartbeat.
    sendReleased: ({ context, event, self }) => {
      if (event.type !== "host.release") return;
      const children: Partial<Record<string, AnyActorRef>> = self.getSnapshot().children;
      const one = children[generationId(event)];
      const meters = one?.src === "generation" ? metersOf(one.getSnapshot().context) : undefined;
      const body = { command: event.body.command, host: context.host, meters };
      const mailbox = openMailbox(context.network, event, hostAddress(context));
      mailbox.send(coordinator, "host.released", body);
    },
  },
  guards: {
    /** H1. Checked first: a repeated request of 10,000 tables is not read again. */
    isNewer: ({ context, event }) => {
      if (event.type !== "host.assemble" && event.type !== "host.opened") return false;
      const { run, generation } = event.type === "host.opened" ? event.spec : event;
      const last = context.served.get(run);
      return last === undefined || generation > last.spec.generation;
    },
  },
}).createMachine({
  id: "host",
  context: ({ input }) => ({ ...input, served: new Map(), timelines: new TimelineKeeper() }),
  on: {
    "host.prepare": { actions: "prepare" },
    "host.index": { actions: "index" },
    "host.cache": { actions: "cache" },
    "host.measure": { actions: "measure" },
    "host.forget": { actions: "forget" },
    "host.assemble": { guard: "isNewer", actions: "open" },
    "host.opened": [{ guard: "isNewer", actions: "assemble" }, { actions: "forget" }],
    "host.release": { actions: ["sendReleased", "release"] },
    "xstate.error.actor.*": { actions: "fail" },
  },
});

/** The states drawn in the header, as an actor. */
export const hostMachine = defineActor(machine, { receives: listeningAsHost });

function hostAddress(context: HostContext): Address {
  return { role: "host", index: context.host };
}

/** The ids of the preparations for earlier generations of the run of a request. */
function olderThan(request: RunScope, children: object): string[] {
  const ids = Object.keys(children).filter((id) => id.startsWith(`preparing:${request.run}:`));
  return ids.filter((id) => !id.startsWith(preparingsOf(request)));
}

function openingId({ run, generation }: RunScope): string {
  return `opening:${run}:${generation}`;
}

function expiringId(run: string): string {
  return `expiring:${run}`;
}

function generationId({ run, generation }: RunScope): string {
  return `generation:${run}:${generation}`;
}

/** Devices of this host that these generations use. */
function devicesHere(
  { host }: HostContext,
  served: readonly Pick<Served, "spec" | "isServed">[],
): number {
  const shares = served
    .filter(({ isServed }) => isServed)
    .flatMap(({ spec }) => spec.hosts.filter((share) => share.host === host));
  return devicesOf(shares);
}
