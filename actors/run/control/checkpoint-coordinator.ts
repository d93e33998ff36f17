// Checkpoint coordinator: turns a cut into a checkpoint. It requests the devices to take the cut,
// after which they resume training; collects the parts that their writers report; and commits the
// manifest last (law 2).
//
//   idle ──checkpoint.cut──▶ taking ──all devices have──▶ collecting ──all parts──▶ committing ─┐
//    ▲                                checkpoint.taken                                          │
//    └──────────────────────────────────checkpoint.committed, on checkpoint.commit──────────────┘
//
//   state        sends                                   until
//   taking       device.save, to all devices             device.cut of all: checkpoint.taken
//   collecting   writer.save, to all writers, repeated   part.saved of every part of the job
//   committing   (the checkpoint store)                  the manifest is on disk
//   any          buddy.keep (replicate-checkpoint.ts)    buddy.kept; nothing waits for it
//
// Takes   checkpoint.cut · checkpoint.commit of the training coordinator, device.cut, part.saved,
//         part.held. Hosts that leave (hand-over.ts) may end after checkpoint.handed
//
// Invariants
//   C1. The manifest is written only when every part of the job is on disk, and only by this
//       generation.
//   C2. Parts of another cut are ignored, and so is a request for an older cut than the last.
//   C3. One checkpoint at a time: a request for the next cut is answered once this checkpoint is
//       committed.

import { assign, type ErrorActorEvent, enqueueActions, fromPromise, setup } from "xstate";
import { StepTimeoutError } from "../../../src/errors/errors.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { stepBefore } from "../../../src/job/warm-start.ts";
import { inTurns, nextTurn } from "../../../src/ports/turns.ts";
import {
  digesting,
  type PartTally,
  shownPart,
  tallyOf,
} from "../../../src/training/checkpoint/part-names.ts";
import type { Manifest } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { needsBaseline } from "../../../storage/checkpoints/store/full-or-incremental.ts";
import type { SavedPart } from "../../../storage/checkpoints/store/part-writer.ts";
import { devicesOf, type HostShare } from "../../host/membership.ts";
import { defineActor } from "../../runtime/define-actor.ts";
import {
  type Mailbox,
  type MessageEvent,
  type Network,
  openMailbox,
  type RunScope,
} from "../../runtime/mailbox.ts";
import { waiting } from "../../runtime/wait-graph.ts";
import { hasBuddies } from "../../threads/generation-spec.ts";
import type { RunRecord } from "../state/run-record.ts";
import { isStoreAway } from "./claim-generation.ts";
import { adoptersOf, afterSecured, handedHosts, type Secured } from "./hand-over.ts";
import { copying } from "./replicate-checkpoint.ts";
import type { RunStore } from "./run-store.ts";
import { transferDeadlines } from "./transfer-deadlines.ts";

export interface CheckpointCoordinatorInput {
  readonly network: Network;
  readonly scope: RunScope;
  readonly job: JobSpec;
  /** Hosts of the saving devices, by rank. */
  readonly hosts: readonly HostShare[];
  readonly record: RunRecord;
  readonly store: RunStore;
  /** The newest checkpoint, on which the next increment rests. */
  readonly latest: Manifest | undefined;
}

export interface CheckpointCoordinatorContext extends CheckpointCoordinatorInput {
  readonly mailbox: Mailbox;
  readonly devices: number;
  readonly cut: MessageEvent<"checkpoint.cut">["body"] | undefined;
  /** Stall in ms of each device that has taken the cut. */
  readonly stalls: ReadonlyMap<number, number>;
  /** The reported parts by name. Filled in place: a copy for each report would be slow. */
  readonly parts: Map<string, SavedPart>;
  /** Counts the reported parts. */
  readonly tally: PartTally;
  /** By device: how many of its parts the writer has reported, and how many there are. */
  readonly reported: ReadonlyMap<number, { readonly parts: number; readonly of: number }>;
  /** The secured parts of the devices of leaving hosts. */
  readonly secured: Secured;
  /** Start of the current wait for devices or writers. */
  readonly waitsSinceMs: number;
  /** The last committed checkpoint. */
  readonly committed: MessageEvent<"checkpoint.committed">["body"] | undefined;
}

type CheckpointEvent =
  | MessageEvent<"checkpoint.cut" | "checkpoint.commit" | "device.cut" | "part.saved" | "part.held">
  | ErrorActorEvent<unknown, "copying">;

/** Most missing parts that an error names. */
const namedMax = 20;

/** Interval at which requests to devices and writers are repeated. */
const repeatMs = 1000;

const committing = fromPromise<Manifest, CheckpointCoordinatorContext>(async (begun) => {
  const { network, store, scope, job, cut, parts } = begun.input;
  // With many tables each piece of the work takes long: messages are handled between the pieces.
  const turn = () => nextTurn(network.clock, begun.signal);
  if (cut === undefined) throw new RangeError("There is no cut to commit");
  await turn();
  const saved = [...parts.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const leaves = new Map(saved.map((part) => [part.name, part.leaves]));
  const digest = digesting(leaves, job.model.tables);
  const modelDigest = await inTurns(network.clock, digest, begun.signal);
  await turn();
  const { saved: deadlineMs } = transferDeadlines(begun.input);
  const manifest = await store.commit({
    run: scope.run,
    generation: scope.generation,
    cut: cut.cut,
    parts: saved.map(({ leaves: _leaves, ...part }) => part),
    modelDigest,
    ...{ arithmetic: cut.arithmetic, sets: cut.sets, metrics: cut.metrics },
    position: { step: cut.cut },
    means: cut.means,
    ...(job.mode === "async" && { mode: job.mode }),
    ...{ best: cut.best, createdBy: network.createdBy },
  });
  await turn();
  const [{ generation }, { keep }] = [scope, job.checkpoint];
  try {
    await store.within(deadlineMs).collect({ generation, keep, begin: stepBefore(job) });
  } catch (error) {
    if (!store.isRemote || !isStoreAway(error)) throw error;
    tellUncollected(begun.input, manifest, error);
  }
  return manifest;
});

/** Publishes that old checkpoints stay until the next one. Training continues. */
function tellUncollected(
  { record, scope, store }: CheckpointCoordinatorContext,
  { cut }: Manifest,
  error: unknown,
): void {
  const why = error instanceof Error ? error.message : String(error);
  record.append(scope.generation, {
    type: "run.alert",
    code: "CHECKPOINT_STORE_AWAY",
    step: cut,
    message: `Old checkpoints in ${store.directory} stay until the next checkpoint: ${why}`,
  });
}

const machine = setup({
  types: {} as {
    context: CheckpointCoordinatorContext;
    input: CheckpointCoordinatorInput;
    events: CheckpointEvent;
  },
  actors: { committing, copying, waiting },
  delays: {
    repeatMs,
    takenMs: ({ context }) => transferDeadlines(context).taken,
    // A disk is slower than memory; the devices train meanwhile.
    savedMs: ({ context }) => transferDeadlines(context).saved,
  },
  actions: {
    copy: enqueueActions(({ context, enqueue }) => {
      if (context.latest === undefined || !hasBuddies(context)) return;
      enqueue.stopChild("copying");
      enqueue.spawnChild("copying", { id: "copying", input: context });
    }),
    begin: assign({
      cut: ({ context, event }) => (event.type === "checkpoint.cut" ? event.body : context.cut),
      parts: () => new Map(),
      tally: ({ context }) => tallyOf(context.job),
      reported: new Map(),
      stalls: new Map(),
      secured: new Map(),
    }),
    startWait: assign({ waitsSinceMs: ({ context }) => context.network.clock.now() }),
    requestCut: ({ context }) => {
      const { mailbox, cut, devices, job, latest, hosts } = context;
      if (cut === undefined) return;
      const adopters = adoptersOf(hosts, cut.leaving ?? []);
      const isBaseline = needsBaseline(job.checkpoint.differential, latest);
      for (let index = 0; index < devices; index++) {
        const to = adopters.get(index);
        const body = { command: cut.command, cut: cut.cut, isBaseline, to };
        mailbox.send({ role: "device", index }, "device.save", body);
      }
    },
    noteTaken: assign({
      stalls: ({ context, event }) => {
        if (event.type !== "device.cut" || event.body.command !== context.cut?.command) {
          return context.stalls;
        }
        if (event.body.device >= context.devices) return context.stalls; // Unknown device.
        return new Map([...context.stalls, [event.body.device, event.body.stallMs]]);
      },
    }),
    sendTaken: ({ context: { cut, mailbox, stalls } }) => {
      if (cut === undefined) return;
      const stallMs = Math.max(...stalls.values());
      const body = { command: cut.command, cut: cut.cut, stallMs };
      mailbox.send({ role: "coordinator", index: 0 }, "checkpoint.taken", body);
    },
    requestParts: ({ context: { mailbox, cut, devices } }) => {
      for (let index = 0; index < devices; index++) {
        mailbox.send({ role: "writer", index }, "writer.save", { cut: cut?.cut ?? 0 });
      }
    },
    collect: assign(({ context, event }) => {
      if (event.type !== "part.saved" || event.body.cut !== context.cut?.cut) return {}; // C2
      const { device, of } = event.body;
      const { parts, tally } = context;
      const sizeBefore = parts.size;
      for (const part of event.body.parts) {
        parts.set(part.name, part);
        tally.add(part.name);
      }
      const before = context.reported.get(device)?.parts ?? 0;
      const now = { parts: before + parts.size - sizeBefore, of };
      return { reported: new Map([...context.reported, [device, now]]) };
    }),
    secure: assign(({ context: { cut, secured }, event }) => {
      if (event.type !== "part.saved" && event.type !== "part.held") return {};
      if (event.body.cut !== cut?.cut || (cut.leaving ?? []).length === 0) return {};
      const { device, of } = event.body;
      const names =
        event.type === "part.held" ? event.body.names : event.body.parts.map(({ name }) => name);
      return { secured: afterSecured(secured, { device, of, names }) };
    }),
    // A leaving host is released only when all devices are known to have taken the cut.
    sendHanded: ({ context: { mailbox, cut, hosts, secured, stalls, devices } }) => {
      if (stalls.size < devices) return;
      const handed = handedHosts(hosts, cut?.leaving ?? [], secured);
      if (handed.length === 0) return;
      mailbox.send({ role: "coordinator", index: 0 }, "checkpoint.handed", { hosts: handed });
    },
    sendCommitted: ({ context }) => {
      if (context.committed === undefined) return;
      const to = { role: "coordinator" as const, index: 0 };
      context.mailbox.send(to, "checkpoint.committed", context.committed);
    },
    giveUpDevices: ({ context }) => {
      const { devices, stalls, cut } = context;
      const late = Array.from({ length: devices }, (_, i) => i).filter((i) => !stalls.has(i));
      const wait = `devices ${late.join(", ")} to take cut ${cut?.cut}`;
      throw new StepTimeoutError(wait, transferDeadlines(context).taken);
    },
    giveUpWriters: ({ context }) => {
      const missing = context.tally.missing();
      const others = missing.length > namedMax ? ` and ${missing.length - namedMax} others` : "";
      const { tables } = context.job.model;
      const names = missing
        .slice(0, namedMax)
        .map((name) => shownPart(name, tables))
        .join(", ");
      const wait = `the parts ${names}${others} of cut ${context.cut?.cut}`;
      throw new StepTimeoutError(wait, transferDeadlines(context).saved);
    },
  },
  guards: {
    isTakenByAll: ({ context }) => context.stalls.size === context.devices,
    isComplete: ({ context: { reported, tally } }) => {
      return tally.isWhole && [...reported.values()].every(isWhole); // C1
    },
    isTaken: ({ context, event }) =>
      event.type === "checkpoint.cut" && event.body.command === context.cut?.command,
    isNewer: ({ context, event }) =>
      event.type === "checkpoint.cut" && event.body.command > (context.cut?.command ?? -1),
    isCommitted: ({ context, event }) =>
      event.type === "checkpoint.commit" && event.body.cut === context.committed?.cut,
  },
}).createMachine({
  id: "checkpointCoordinator",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.scope, { role: "checkpoint", index: 0 }),
    devices: devicesOf(input.hosts),
    cut: undefined,
    stalls: new Map(),
    parts: new Map(),
    tally: tallyOf(input.job),
    reported: new Map(),
    secured: new Map(),
    waitsSinceMs: 0,
    committed: undefined,
  }),
  entry: "copy",
  on: {
    // Replicas only save reading the store: the next commit requests them again.
    "xstate.error.actor.copying": {},
    "part.saved": { actions: ["collect", "secure", "sendHanded"] },
    "part.held": { actions: ["secure", "sendHanded"] },
    "checkpoint.commit": { guard: "isCommitted", actions: "sendCommitted" },
    "checkpoint.cut": { guard: "isTaken", actions: "sendTaken" },
  },
  initial: "idle",
  states: {
    idle: {
      on: {
        "checkpoint.cut": [
          { guard: "isTaken", actions: "sendTaken" },
          { guard: "isNewer", target: "taking", actions: "begin" },
        ],
      },
    },
    taking: {
      entry: "startWait",
      initial: "waiting",
      always: {
        guard: "isTakenByAll",
        target: "collecting",
        actions: ["sendTaken", "sendHanded"],
      },
      on: { "device.cut": { actions: "noteTaken" }, "checkpoint.cut": {} },
      after: { takenMs: { actions: "giveUpDevices" } },
      states: {
        waiting: {
          entry: "requestCut",
          invoke: { src: "waiting", input: ({ context }) => deviceWait(context) },
          after: { repeatMs: { target: "waiting", reenter: true } },
        },
      },
    },
    collecting: {
      entry: "startWait",
      initial: "waiting",
      always: { guard: "isComplete", target: "committing" },
      after: { savedMs: { actions: "giveUpWriters" } },
      states: {
        waiting: {
          invoke: { src: "waiting", input: ({ context }) => writerWait(context) },
          after: {
            repeatMs: {
              target: "waiting",
              reenter: true,
              actions: ["requestParts", "sendHanded"],
            },
          },
        },
      },
    },
    committing: {
      invoke: {
        src: "committing",
        input: ({ context }) => context,
        onDone: {
          target: "idle",
          actions: [
            assign({
              latest: ({ event }) => event.output,
              committed: ({ event }) => ({
                cut: event.output.cut,
                modelDigest: event.output.modelDigest,
                manifest: event.output.sha256,
                bytes: event.output.parts.reduce((sum, part) => sum + part.bytes, 0),
              }),
            }),
            "sendCommitted",
            "copy",
          ],
        },
      },
    },
  },
});

/** Whether a writer has reported all parts of its device. */
function isWhole(report: { readonly parts: number; readonly of: number } | undefined): boolean {
  return report !== undefined && report.parts === report.of;
}

function deviceWait(context: CheckpointCoordinatorContext) {
  const awaited = ranksOf(context).filter((rank) => !context.stalls.has(rank));
  return waitOf(
    context,
    awaited.map((rank) => `device:${rank}`),
    `its cut ${context.cut?.cut}`,
  );
}

function writerWait(context: CheckpointCoordinatorContext) {
  const { reported } = context;
  const awaited = ranksOf(context).filter((rank) => !isWhole(reported.get(rank)));
  return waitOf(
    context,
    awaited.map((rank) => `writer:${rank}`),
    `its parts of cut ${context.cut?.cut}`,
  );
}

function waitOf(context: CheckpointCoordinatorContext, awaited: readonly string[], what: string) {
  const { network, scope, waitsSinceMs: sinceMs } = context;
  return { network, run: scope.run, waiter: "checkpoint:0", awaited, what, sinceMs };
}

function ranksOf({ devices }: CheckpointCoordinatorContext): number[] {
  return Array.from({ length: devices }, (_, rank) => rank);
}

/** The state machine drawn in the header, as an actor. */
export const checkpointCoordinatorMachine = defineActor(machine);
