// Host generation: all that one host runs of one generation: its devices, its readers, and the
// memory that they share. It is made when the generation is assembled and gone when it ends.
//
//   beating ──device failed──▶ error (law 3: a step's participant failed, the generation is over)
//      │ └──reader failed──▶ beating, with another reader in its place
//      └─ every `beatMs`: host.progress to the coordinator
//
// Invariants
//   G1. Memory is allocated here and nowhere else, once a generation.
//   G2. When it ends, however it ends, everyone who waits on its memory is released first.

import { type ErrorActorEvent, enqueueActions, fromCallback, setup } from "xstate";
import { recordError } from "../src/errors.ts";
import type { Launcher } from "../src/launcher.ts";
import { windowStepsMax } from "../src/training/schedule.ts";
import { type Assembly, abort, allocate, type GenerationMemory, progressOver } from "./assembly.ts";
import { deviceMachine } from "./device.ts";
import { downWithChildren } from "./down-with-children.ts";
import { failureOf } from "./incident.ts";
import { type Mailbox, type Network, openMailbox } from "./mailbox.ts";
import { type ReaderPlace, readerMachine } from "./reader.ts";
import { decide, emptyHistory, type RestartHistory } from "./restart-policy.ts";
import { backoff } from "./supervisor.ts";

export interface HostGenerationInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly assembly: Assembly;
  readonly host: number;
}

export interface HostGenerationContext extends HostGenerationInput {
  readonly mailbox: Mailbox;
  readonly memory: GenerationMemory;
  /** One for each reader. */
  readonly places: readonly ReaderPlace[];
  readonly history: RestartHistory;
  readonly beat: number;
  /** Steps whose losses have been told. */
  readonly toldLosses: number;
  readonly failure?: unknown;
}

type HostGenerationEvent =
  | { readonly type: "reader.restart"; readonly id: string }
  | ErrorActorEvent<unknown, string>;

/** Heartbeat: a dead host is noticed after three of them (P2: within a second). */
export const beatMs = 250;

/** Readers that may be replaced before something else must be wrong. */
const readerIntensity = { restartsMax: 10, windowMs: 60_000 } as const;

/** G2: runs when the machine stops, for whatever reason. */
const releasing = fromCallback<{ type: string }, HostGenerationContext>(
  ({ input }) =>
    () =>
      abort(input.assembly, input.memory),
);

const machine = setup({
  types: {} as {
    context: HostGenerationContext;
    input: HostGenerationInput;
    events: HostGenerationEvent;
  },
  actors: { device: deviceMachine, reader: readerMachine, releasing },
  delays: { beatMs },
  actions: {
    startAll: enqueueActions(({ context, enqueue }) => {
      const { network, launcher, assembly, memory } = context;
      const common = { network, launcher, assembly, memory };
      for (let device = 0; device < assembly.devices; device++) {
        enqueue.spawnChild("device", { id: `device:${device}`, input: { ...common, device } });
      }
      for (let reader = 0; reader < assembly.job.readers; reader++) {
        const place = placeOf(context, reader);
        const input = { ...common, reader, place };
        enqueue.spawnChild("reader", { id: `reader:${reader}`, input });
      }
    }),
    beat: enqueueActions(({ context, enqueue }) => {
      const { assembly, memory, mailbox, toldLosses } = context;
      const progress = progressOver(memory, assembly.devices);
      const steps = Array.from({ length: assembly.devices }, (_, device) =>
        Atomics.load(progress.steps, device),
      );
      const done = steps[0] ?? 0;
      const from = Math.max(toldLosses, done - windowStepsMax / 2);
      const losses = Array.from(
        { length: Math.max(0, done - from) },
        (_, i) => progress.losses[(from + i) % windowStepsMax] ?? Number.NaN,
      );
      const body = { beat: context.beat, steps, lossFrom: from, losses };
      mailbox.tell({ role: "coordinator", index: 0 }, "host.progress", body);
      enqueue.assign({ beat: context.beat + 1, toldLosses: Math.max(toldLosses, done) });
    }),
    childFailed: enqueueActions(({ context, event, enqueue }) => {
      if (event.type === "reader.restart") return;
      const { assembly, host, network } = context;
      const id = event.actorId;
      const supervisor = `host:${host}`;
      const doing = `run ${assembly.run}, generation ${assembly.generation}`;
      const failure = failureOf(event.error, { offender: id, supervisor, context: doing });
      if (!id.startsWith("reader:")) {
        enqueue.assign({ failure });
        return;
      }
      enqueue.stopChild(id);
      const children = Array.from({ length: assembly.job.readers }, (_, reader) => ({
        id: `reader:${reader}`,
        restart: "permanent" as const,
      }));
      const decision = decide(
        { supervisor, strategy: "one-for-one", children, intensity: readerIntensity, backoff },
        context.history,
        { child: id, atMs: network.clock.now(), reason: "error", error: recordError(failure) },
      );
      if (decision.escalate) {
        enqueue.assign({ failure });
        return;
      }
      enqueue.assign({ history: decision.history });
      const { offender, reason } = failure.incident;
      const body = { actor: offender, error: reason };
      context.mailbox.tell({ role: "coordinator", index: 0 }, "host.mended", body);
      enqueue.raise({ type: "reader.restart", id }, { delay: decision.delayMs });
    }),
    restartReader: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "reader.restart") return;
      const { network, launcher, assembly, memory } = context;
      const reader = Number(event.id.split(":")[1]);
      const place = placeOf(context, reader);
      const input = { network, launcher, assembly, memory, reader, place };
      enqueue.spawnChild("reader", { id: event.id, input });
    }),
    handUp: ({ context }) => {
      throw context.failure;
    },
  },
  guards: { hasFailed: ({ context }) => context.failure !== undefined },
}).createMachine({
  id: "hostGeneration",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.assembly, { role: "host", index: input.host }),
    memory: allocate(input.assembly), // G1
    places: Array.from({ length: input.assembly.job.readers }, () => ({
      lastEnded: Promise.resolve(),
    })),
    history: emptyHistory,
    beat: 0,
    toldLosses: input.assembly.fromStep,
  }),
  entry: "startAll",
  invoke: { src: "releasing", input: ({ context }) => context },
  on: {
    "xstate.error.actor.*": { actions: "childFailed" },
    "reader.restart": { actions: "restartReader" },
  },
  initial: "beating",
  states: {
    beating: {
      entry: "beat",
      always: { guard: "hasFailed", target: "failed" },
      after: { beatMs: { target: "beating", reenter: true } },
    },
    failed: { entry: "handUp" },
  },
});

/** As drawn above; its children end with it. */
export const hostGenerationMachine = downWithChildren(machine);

function placeOf({ places }: HostGenerationContext, reader: number): ReaderPlace {
  const place = places[reader];
  if (place === undefined) throw new RangeError(`There is no reader ${reader}`);
  return place;
}
