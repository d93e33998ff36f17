// Worker pool: the preprocessing workers of one host. It starts as many as the master wants, drains
// surplus workers, and replaces those that end.
//
//   pool.scale 3     worker:0 · worker:1 · worker:2
//   worker:1 ended   worker:0 · (a backoff) · worker:2 ──▶ worker:0 · worker:1 · worker:2
//   pool.scale 1     worker:0 · worker:1, draining · worker:2, draining ──▶ worker:0
//
// Takes   pool.scale from the master; worker.ended from its workers
// Emits   a frame `gone` to the master, naming the worker (src/exchange/splits/split-frames.ts)
//
// Invariants
//   O1. The end of a worker, for any reason, ends nothing else: another worker can make its splits
//       again.

import { assign, enqueueActions, sendParent, setup } from "xstate";
import { encodeFrame, masterSubject } from "../../src/exchange/splits/split-frames.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { type Mailbox, type MessageEvent, type Network, openMailbox } from "../runtime/mailbox.ts";
import { backoff } from "../runtime/supervisor.ts";
import type { DrainWorker } from "../threads/data/worker-program.ts";
import type { Generation } from "../threads/generation-memory.ts";
import { headOf, poolMax } from "../threads/generation-spec.ts";
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
  /** Wanted number of workers. */
  readonly wanted: number;
  readonly running: ReadonlyMap<number, RunningWorker>;
  /** Number of workers started so far. */
  readonly starts: number;
  /** Consecutive workers that ended soon after their start. */
  readonly losses: number;
}

interface RunningWorker {
  /** The worker's name in frames to and from the master. */
  readonly worker: string;
  readonly isDraining: boolean;
  readonly sinceMs: number;
}

/** Lifetime after which a worker's end is not blamed on its start: the next one starts at once. */
const livedMs = 1000;

type WorkerPoolEvent =
  | MessageEvent<"pool.scale">
  | { readonly type: "worker.ended"; readonly index: number; readonly isLost: boolean }
  | { readonly type: "pool.fill" };

export interface WorkerInput extends WorkerPoolInput {
  readonly index: number;
  /**
   * Its name, different from that of the worker that it replaces, so that the master can tell them
   * apart.
   */
  readonly worker: string;
}

const thread = threadLogic<WorkerInput, DrainWorker>((input) => {
  const { network, launcher, generation, index, worker } = input;
  const { spec, memory } = generation;
  const { cluster, connection } = network;
  return {
    launcher,
    name: `worker-${index}`,
    task: { program: "worker", spec: headOf(spec), memory, index, worker, cluster, connection },
    eventOf: () => undefined,
  };
});

/** A worker: the actor of one thread; it ends with its thread. */
const workerMachine = setup({
  types: {} as {
    context: WorkerInput;
    input: WorkerInput;
    events: ThreadEnded | { readonly type: "drain" };
  },
  actors: { thread },
  actions: {
    notifyPool: sendParent(({ context, event }) => {
      const isLost = event.type === "thread.ended" && event.end.kind !== "finished";
      return { type: "worker.ended", index: context.index, isLost };
    }),
    noteLoss: ({ context, event }) => {
      if (event.type !== "thread.ended" || event.end.kind === "finished") return;
      const { end } = event;
      const reason = end.kind === "failed" ? end.error.message : end.reason;
      const { run, generation } = context.generation.spec;
      const actor = `worker:${context.index}`;
      context.network.log.write("warn", "a worker was lost", { run, generation, actor, reason });
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
    "thread.ended": { actions: ["noteLoss", "notifyPool"] },
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
        const one = running.get(index);
        if (at < wanted && one === undefined) {
          const { network, launcher, generation } = context;
          const worker = `worker:${index}.${starts++}`;
          const input = { network, launcher, generation, position, index, worker };
          enqueue.spawnChild("worker", { id: `worker:${index}`, input });
          const sinceMs = network.clock.now();
          running.set(index, { worker, isDraining: false, sinceMs });
        }
        if (at >= wanted && one?.isDraining === false) {
          enqueue.sendTo(`worker:${index}`, { type: "drain" });
          running.set(index, { ...one, isDraining: true });
        }
      }
      enqueue.assign({ running, starts });
    }),
    remove: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== "worker.ended") return;
      enqueue.stopChild(`worker:${event.index}`);
      const running = new Map(context.running);
      running.delete(event.index);
      const ended = context.running.get(event.index);
      if (ended !== undefined) sendGone(context, ended.worker);
      const lived = context.network.clock.now() - (ended?.sinceMs ?? 0);
      const losses = event.isLost && lived < livedMs ? context.losses + 1 : 0;
      enqueue.assign({ running, losses });
      const { baseMs, factor, maxMs } = backoff;
      const times = Math.min(Math.max(0, losses - 1), 10);
      const delay = event.isLost ? Math.min(maxMs, baseMs * factor ** times) : 0;
      enqueue.raise({ type: "pool.fill" }, { delay });
    }),
  },
}).createMachine({
  id: "workerPool",
  context: ({ input }) => {
    const { spec } = input.generation;
    const { workersMin = 0, threads = false } = spec.job.preprocessing ?? {};
    const hosts = spec.hosts.length;
    return {
      ...input,
      mailbox: openMailbox(input.network, spec, { role: "pool", index: input.position }),
      wanted: threads ? Math.floor((workersMin + hosts - 1 - input.position) / hosts) : 0,
      running: new Map(),
      starts: 0,
      losses: 0,
    };
  },
  entry: "fill",
  on: {
    "pool.scale": { actions: ["want", "fill"] },
    "pool.fill": { actions: "fill" },
    "worker.ended": { actions: "remove" },
  },
});

/** The behaviour drawn in the header, as an actor. */
export const workerPoolMachine = defineActor(machine);

/** Tells the master that a worker has ended, so that it need not wait for the worker's silence. */
function sendGone({ network, generation }: WorkerPoolContext, worker: string): void {
  const { run, generation: number } = generation.spec;
  const subject = masterSubject({ cluster: network.cluster, run, generation: number }, "gone");
  const { payload, headers } = encodeFrame("gone", { worker });
  network.transport.publish(subject, payload, { headers });
}
