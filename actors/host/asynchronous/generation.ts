// Asynchronous generation: supervises the actors of one generation of asynchronous training on one
// host: its trainers, and the parameter servers on their devices. It takes the place that
// ../host-generation.ts has in synchronous training, under the same coordinators.
//
//   opening ──all servers ready──▶ training ──it failed too often, or cannot be mended──▶ error
//                                    │   └──an actor failed──▶ a new one takes its seat
//                                    └─ every `beatMs`: host.progress to the coordinator
//
// Takes   server.ready · server.saved of its servers, servers.save of its trainers
// Emits   host.progress · host.mended, with what was lost, to the coordinator
//
// Invariants
//   N1. One-for-one: only the failed actor is replaced, as asynchronous training does not promise
//       equal bits. A sparse server begins from the newest checkpoint, the dense server from the
//       mean of the trainers of its host, a trainer from the center.
//   N2. When it ends, for any reason, every thread that waits on its memory is woken first.
//   N3. An actor's batches and updates are counted in its seat, which outlives the actor; lost ones
//       are reported.

import {
  type AnyActorRef,
  assign,
  type ErrorActorEvent,
  enqueueActions,
  fromCallback,
  setup,
} from "xstate";
import { abortServer, updatesOf } from "../../../src/asynchronous/server-memory.ts";
import { abortTrainer } from "../../../src/asynchronous/trainer-memory.ts";
import { asynchronousOf } from "../../../src/job/check-asynchronous.ts";
import { beatMs } from "../../../src/ports/deadlines.ts";
import type { Launcher } from "../../../src/ports/launcher.ts";
import type { SavedPart } from "../../../storage/checkpoints/store/part-writer.ts";
import { defineActor } from "../../runtime/define-actor.ts";
import { type Mailbox, type Network, openMailbox } from "../../runtime/mailbox.ts";
import { emptyHistory, type RestartHistory } from "../../runtime/restart-policy.ts";
import { sharedSpec } from "../../threads/generation-memory.ts";
import { type GenerationSpec, type HostPlace, placeOfHost } from "../../threads/generation-spec.ts";
import { checkShared } from "../host-generation.ts";
import { failureOfActor, type Mended, replacementOf } from "../mending.ts";
import { parameterServerMachine, type ServerEvent } from "./parameter-server.ts";
import { type ServerSeat, serverSeats, serverTask, trainerTasks } from "./seats.ts";
import { type SaveServers, type ServersSaved, trainerMachine } from "./trainer.ts";
import { createSeats, type TrainerSeat } from "./trainer-seat.ts";

export interface AsynchronousGenerationInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly spec: GenerationSpec;
  readonly host: number;
}

export interface AsynchronousGenerationContext extends AsynchronousGenerationInput {
  readonly mailbox: Mailbox;
  readonly place: HostPlace;
  /** The spec, for its threads. */
  readonly shared: SharedArrayBuffer;
  readonly trainers: readonly TrainerSeat[];
  readonly servers: readonly ServerSeat[];
  /** Restored bytes of the servers that are ready, by name. */
  readonly ready: ReadonlyMap<string, number>;
  readonly hasBegun: boolean;
  /** By device: the cut that its servers save, with the parts that were saved so far. */
  readonly cuts: ReadonlyMap<number, SavingCut>;
  /** Killed servers: each is reported when its replacement is ready and names its cut. */
  readonly killed: ReadonlyMap<string, Mended>;
  readonly history: RestartHistory;
  readonly beat: number;
  readonly failure?: unknown;
}

interface SavingCut {
  readonly cut: number;
  readonly parts: ReadonlyMap<string, readonly SavedPart[]>;
}

type GenerationEvent =
  | { readonly type: "actor.restart"; readonly id: string }
  | ServerEvent
  | SaveServers
  | ErrorActorEvent<unknown, string>;

/** Restarts of the host's actors within the window; more mean that the cause lies elsewhere. */
const intensity = { restartsMax: 20, windowMs: 60_000 } as const;

/** Errors that would recur in a replaced actor, and that only the next generation repairs. */
const forNextGeneration: ReadonlySet<string> = new Set([
  "CHECKPOINT_CORRUPT",
  "DATA_CACHE_DAMAGED",
]);

/** N2. */
const abortingAtStop = fromCallback<{ type: string }, AsynchronousGenerationContext>(
  ({ input }) =>
    () => {
      for (const { memory } of input.trainers) abortTrainer(memory);
      for (const { memory } of input.servers) abortServer(memory);
    },
);

const machine = setup({
  types: {} as {
    context: AsynchronousGenerationContext;
    input: AsynchronousGenerationInput;
    events: GenerationEvent;
  },
  actors: { server: parameterServerMachine, trainer: trainerMachine, abortingAtStop },
  delays: { beatMs },
  actions: {
    startServers: enqueueActions(({ context, enqueue }) => {
      const { network, spec, host, servers } = context;
      checkShared(spec, host, network.disk);
      network.log.keep(spec.run, spec.job.checkpoint.directory, `host-${host}`);
      for (const { name } of servers) {
        enqueue.spawnChild("server", { id: name, input: serverInput(context, name, false) });
      }
    }),
    startTrainers: enqueueActions(({ context, enqueue }) => {
      for (const { device } of context.trainers) {
        const id = `device:${device}`;
        enqueue.spawnChild("trainer", { id, input: trainerInput(context, device) });
      }
      enqueue.assign({ hasBegun: true });
    }),
    noteReady: assign(({ context, event }) => {
      if (event.type !== "server.ready") return {};
      return { ready: new Map(context.ready).set(event.server, event.storeBytes) };
    }),
    /** N3. */
    sendLost: assign(({ context, event }) => {
      if (event.type !== "server.ready") return {};
      const seat = seatNamed(context, event.server);
      const updates = updatesOf(seat.memory);
      const before = seat.updatesAt.get(event.cut) ?? 0;
      seat.updatesAt.clear();
      seat.updatesAt.set(event.cut, updates); // Updates after the cut are lost.
      const body = context.killed.get(event.server);
      if (body === undefined) return {};
      const lost = lostWith(context, seat, event.cut, updates - before);
      context.mailbox.send(coordinator, "host.mended", { ...body, lost });
      const killed = new Map(context.killed);
      killed.delete(event.server);
      return { killed };
    }),
    /** Requests a cut from the servers of a device, except from those that have saved it. */
    save: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "servers.save") return;
      const { device, cut } = event;
      const known = context.cuts.get(device);
      const saving = known?.cut === cut ? known : { cut, parts: new Map() };
      for (const { name } of serversOn(context, device)) {
        if (saving.parts.has(name)) continue;
        enqueue.sendTo(name as never, { type: "server.save", cut } as never);
      }
      enqueue.assign({ cuts: new Map(context.cuts).set(device, saving) });
    }),
    /** Repeats the request to a server that was replaced while it saved. */
    saveAgain: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "server.ready") return;
      const { device } = seatNamed(context, event.server);
      const saving = context.cuts.get(device);
      if (saving === undefined || saving.parts.has(event.server)) return;
      const { cut } = saving;
      enqueue.sendTo(event.server as never, { type: "server.save", cut } as never);
    }),
    collect: assign(({ context, event }) => {
      if (event.type !== "server.saved") return {};
      const { server, cut, parts } = event;
      const seat = seatNamed(context, server);
      seat.updatesAt.set(cut, updatesOf(seat.memory));
      // A server restores the last cut that was committed: this one, or the one before.
      for (const older of [...seat.updatesAt.keys()].slice(0, -2)) seat.updatesAt.delete(older);
      const saving = context.cuts.get(seat.device);
      if (saving?.cut !== cut) return {};
      const next = { cut, parts: new Map(saving.parts).set(server, parts) };
      return { cuts: new Map(context.cuts).set(seat.device, next) };
    }),
    sendSaved: ({ context, event, self }) => {
      const device =
        event.type === "servers.save"
          ? event.device
          : event.type === "server.saved"
            ? seatNamed(context, event.server).device
            : -1;
      const saving = context.cuts.get(device);
      if (saving === undefined || saving.parts.size < serversOn(context, device).length) return;
      const parts = [...saving.parts.values()].flat();
      const children: Partial<Record<string, AnyActorRef>> = self.getSnapshot().children;
      const saved: ServersSaved = { type: "servers.saved", cut: saving.cut, parts };
      children[`device:${device}`]?.send(saved);
    },
    beat: enqueueActions(({ context, enqueue }) => {
      const { mailbox, host, trainers, beat, network } = context;
      const progress = trainers.map((seat) => seat.progress());
      const steps = progress.map(({ step }) => step);
      const [loss] = progress.flatMap(({ loss }) => loss ?? []);
      const losses = loss === undefined ? [] : [loss];
      const meters = { devices: [], reading: [] };
      const nowMs = network.clock.date().getTime();
      const [pushLag] = trainers
        .map((seat) => seat.pushLag(nowMs))
        .sort((a, b) => b.oldestMs - a.oldestMs);
      const own = { pushLag, isBridged: true, tiers: [], steps, waits: [], losses, meters };
      const lossFrom = Math.max(0, (steps[0] ?? 0) - losses.length);
      mailbox.send(coordinator, "host.progress", { host, beat, ...own, lossFrom });
      enqueue.assign({ beat: beat + 1 });
    }),
    childFailed: enqueueActions(({ context, event, enqueue }) => {
      if (!("error" in event) || context.failure !== undefined) return;
      const id = event.actorId;
      const failure = failureOfActor(context, id, event.error);
      const next = replacementOf(context, id, failure, intensity);
      if (next === undefined || forNextGeneration.has(failure.code)) {
        return enqueue.assign({ failure });
      }
      enqueue.stopChild(id);
      const { history, body } = next;
      enqueue.assign({ history, ...leave(context, id, body) });
      enqueue.raise({ type: "actor.restart", id }, { delay: body.delayMs });
    }),
    restart: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "actor.restart") return;
      const { id } = event;
      if (id.startsWith("device:")) {
        const input = trainerInput(context, Number(id.slice("device:".length)));
        enqueue.spawnChild("trainer", { id, input });
      } else enqueue.spawnChild("server", { id, input: serverInput(context, id, true) });
    }),
    handUp: ({ context }) => {
      throw context.failure;
    },
  },
  guards: {
    hasFailed: ({ context }) => context.failure !== undefined,
    mayBegin: ({ context }) => !context.hasBegun && context.ready.size === context.servers.length,
  },
}).createMachine({
  id: "asynchronousGeneration",
  context: ({ input }) => {
    const { network, spec, host } = input;
    const place = placeOfHost(spec, host);
    return {
      ...{ ...input, place, shared: sharedSpec(spec) },
      mailbox: openMailbox(network, spec, { role: "host", index: host }),
      trainers: createSeats(spec, place),
      servers: serverSeats(spec, place),
      ready: new Map(),
      hasBegun: false,
      cuts: new Map(),
      killed: new Map(),
      history: emptyHistory,
      beat: 0,
    };
  },
  entry: "startServers",
  invoke: { src: "abortingAtStop", input: ({ context }) => context },
  on: {
    "xstate.error.actor.*": { actions: "childFailed" },
    "actor.restart": { actions: "restart" },
    "server.ready": { actions: ["noteReady", "sendLost", "saveAgain"] },
    "servers.save": { actions: ["save", "sendSaved"] },
    "server.saved": { actions: ["collect", "sendSaved"] },
  },
  initial: "beating",
  states: {
    beating: {
      entry: "beat",
      always: [
        { guard: "hasFailed", target: "failed" },
        { guard: "mayBegin", actions: "startTrainers" },
      ],
      after: { beatMs: { target: "beating", reenter: true } },
    },
    failed: { entry: "handUp" },
  },
});

/** The state machine drawn in the header, as an actor. */
export const asynchronousGenerationMachine = defineActor(machine, { receives: "nothing" });

const coordinator = { role: "coordinator", index: 0 } as const;

function seatNamed({ servers }: AsynchronousGenerationContext, name: string): ServerSeat {
  const seat = servers.find((one) => one.name === name);
  if (seat === undefined) throw new RangeError(`There is no server ${name}`);
  return seat;
}

function serversOn(
  { servers }: AsynchronousGenerationContext,
  device: number,
): readonly ServerSeat[] {
  return servers.filter((one) => one.device === device);
}

/** The weights of trainers that have trained: their mean replaces a lost center. N1 */
function weightsOf({ trainers }: AsynchronousGenerationContext): SharedArrayBuffer[] {
  return trainers.filter((one) => one.hasTrained()).map(({ memory }) => memory.weights);
}

function serverInput(context: AsynchronousGenerationContext, name: string, isReplacement: boolean) {
  const { launcher } = context;
  const seat = seatNamed(context, name);
  const { place, memory } = seat;
  const starts = isReplacement && seat.role === "dense" ? weightsOf(context) : [];
  return { launcher, name, place, memory, task: serverTask(context, seat, starts) };
}

function lostWith(
  context: AsynchronousGenerationContext,
  { role }: ServerSeat,
  cut: number,
  since: number,
) {
  const stored = cut > 0 ? ("checkpoint" as const) : ("initial values" as const);
  if (role === "sparse") return { what: "rows" as const, updates: since, from: stored };
  const isMean = weightsOf(context).length > 0;
  const from = isMean ? ("trainers" as const) : stored;
  return { what: "center" as const, updates: isMean ? 0 : since, from };
}

function trainerInput(context: AsynchronousGenerationContext, device: number) {
  const { network, launcher, spec, place, trainers, ready } = context;
  const seat = trainers[device - place.first];
  if (seat === undefined) throw new RangeError(`There is no trainer on device ${device}`);
  const storeBytes = serversOn(context, device).reduce(
    (sum, { name }) => sum + (ready.get(name) ?? 0),
    0,
  );
  const tasks = trainerTasks(context, seat);
  return { network, launcher, spec, seat, tasks, storeBytes };
}

/** Vacates the seat of an actor that failed. N3 */
function leave(
  context: AsynchronousGenerationContext,
  id: string,
  body: Mended,
): Pick<AsynchronousGenerationContext, "killed"> {
  const { killed, trainers, place, spec, mailbox } = context;
  if (!id.startsWith("device:")) return { killed: new Map(killed).set(id, body) };
  const seat = trainers[Number(id.slice("device:".length)) - place.first];
  const updates = seat?.empty(asynchronousOf(spec.job).elastic.every) ?? 0;
  const lost = { what: "trainer", updates, from: "center" } as const;
  mailbox.send(coordinator, "host.mended", { ...body, lost });
  return { killed };
}
