// Worker pool: the preprocessing workers of one host. It starts as many as the master wants, drains
// those that are too many, and replaces those that end.
//
//   pool.scale 3     worker:0 · worker:1 · worker:2
//   worker:1 ended   worker:0 · (a backoff) · worker:2 ──▶ worker:0 · worker:1 · worker:2
//   pool.scale 1     worker:0 · worker:1, draining · worker:2, draining ──▶ worker:0
//
// Takes   pool.scale of the master; worker.ended of its workers
//
// Invariants
//   O1. A worker that ends, however it ends, ends nothing else: it holds nothing that another one
//       could not make again.

import { assign, enqueueActions, sendParent, setup } from "xstate";
import type { Launcher } from "../../src/ports/launcher.ts";
import { defineActor } from "../runtime/define-actor.ts";
import type { MessageEvent } from "../runtime/listening.ts";
import { type Mailbox, type Network, openMailbox } from "../runtime/mailbox.ts";
import { backoff } from "../runtime/supervisor.ts";
import type { DrainWorker } from "../threads/data/worker-program.ts";
import type { Generation } from "../threads/generation-memory.ts";
import { poolMax } from "../threads/generation-spec.ts";
import { type ThreadEnded, threadLogic } from "./thread-actor.ts";

export interface WorkerPoolInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly generation: Generation;
  /** Index of this host among the hosts of the generation. */
  readonly position: number;
}

export interface WorkerPoolContext extends WorkerPoolInput {
  readonly mailbox: Mailbox;
  /** How many there should be. */
  readonly wanted: number;
  /** Workers that run, each with whether it drains. */
  readonly running: ReadonlyMap<number, "working" | "draining">;
  /** How many were started so far. */
  readonly starts: number;
  /** Workers that ended by themselves, each soon after the one before. */
  readonly losses: number;
  /** When the last of them did. */
  readonly lostAtMs: number;
}

/** After so long without a loss the next one counts as the first. */
const quietMs = 60_000;

type WorkerPoolEvent =
  | MessageEvent<"pool.scale">
  | { readonly type: "worker.ended"; readonly index: number; readonly isLost: boolean }
  | { readonly type: "pool.fill" };

export interface WorkerInput extends WorkerPoolInput {
  readonly index: number;
  /** How many workers the pool had started before it. */
  readonly starts: number;
}

const thread = threadLogic<WorkerInput, DrainWorker>((input) => {
  const { network, launcher, generation, index, starts } = input;
  const { spec, memory } = generation;
  const { cluster, connection } = network;
  // The master must not take a worker for the one that it replaces.
  const worker = `worker:${index}.${starts}`;
  return {
    launcher,
    name: `worker-${index}`,
    task: { program: "worker", spec, memory, index, worker, cluster, connection },
    eventOf: () => undefined,
  };
});

/** A worker: answers for one thread, and ends with it. */
const workerMachine = setup({
  types: {} as {
    context: WorkerInput;
    input: WorkerInput;
    events: ThreadEnded | { readonly type: "drain" };
  },
  actors: { thread },
  actions: {
    tellEnded: sendParent(({ context, event }) => {
      const isLost = event.type === "thread.ended" && event.end.kind !== "finished";
      return { type: "worker.ended", index: context.index, isLost };
    }),
    noteLoss: ({ context, event }) => {
      if (event.type !== "thread.ended" || event.end.kind === "finished") return;
      const { end } = event;
      const reason = end.kind === "failed" ? end.error.message : end.reason;
      const { run, generation } = context.generation.spec;
      const actor = `worker:${context.index}`;
      context.network.log.write("warn", "lost a worker", { run, generation, actor, reason });
    },
  },
}).createMachine({
  id: "worker",
  context: ({ input }) => input,
  invoke: { src: "thread", id: "thread", input: ({ context }) => context },
  on: {
    drain: {
      actions: ({ self }) => {
        const { thread: own } = self.getSnapshot().children;
        own?.send({ type: "command", command: { type: "drain" } });
      },
    },
    "thread.ended": { actions: ["noteLoss", "tellEnded"] },
  },
});

const machine = setup({
  types: {} as { context: WorkerPoolContext; input: WorkerPoolInput; events: WorkerPoolEvent },
  actors: { worker: workerMachine },
  actions: {
    want: assign({
      wanted: ({ context, event }) =>
        event.type === "pool.scale" ? Math.min(poolMax, event.body.workers) : context.wanted,
    }),
    fill: enqueueActions(({ context, enqueue }) => {
      const { wanted, position } = context;
      const running = new Map(context.running);
      let { starts } = context;
      for (let at = 0; at < poolMax; at++) {
        const index = position * poolMax + at;
        const state = running.get(index);
        if (at < wanted && state === undefined) {
          const { network, launcher, generation } = context;
          const input = { network, launcher, generation, position, index, starts: starts++ };
          enqueue.spawnChild("worker", { id: `worker:${index}`, input });
          running.set(index, "working");
        }
        if (at >= wanted && state === "working") {
          enqueue.sendTo(`worker:${index}`, { type: "drain" });
          running.set(index, "draining");
        }
      }
      enqueue.assign({ running, starts });
    }),
    remove: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "worker.ended") return;
      enqueue.stopChild(`worker:${event.index}`);
      const running = new Map(context.running);
      running.delete(event.index);
      const nowMs = context.network.clock.now();
      const isRow = nowMs - context.lostAtMs < quietMs;
      const losses = event.isLost ? (isRow ? context.losses : 0) + 1 : context.losses;
      const lostAtMs = event.isLost ? nowMs : context.lostAtMs;
      enqueue.assign({ running, losses, lostAtMs });
      const { baseMs, factor, maxMs } = backoff;
      const delay = event.isLost ? Math.min(maxMs, baseMs * factor ** Math.min(losses - 1, 10)) : 0;
      enqueue.raise({ type: "pool.fill" }, { delay });
    }),
  },
}).createMachine({
  id: "workerPool",
  context: ({ input }) => {
    const { spec } = input.generation;
    const { workersMin = 0 } = spec.job.preprocessing ?? {};
    const hosts = spec.hosts.length;
    return {
      ...input,
      mailbox: openMailbox(input.network, spec, { role: "pool", index: input.position }),
      wanted: Math.floor((workersMin + hosts - 1 - input.position) / hosts),
      running: new Map(),
      starts: 0,
      losses: 0,
      lostAtMs: 0,
    };
  },
  entry: "fill",
  on: {
    "pool.scale": { actions: ["want", "fill"] },
    "pool.fill": { actions: "fill" },
    "worker.ended": { actions: "remove" },
  },
});

/** As drawn above. */
export const workerPoolMachine = defineActor(machine);
