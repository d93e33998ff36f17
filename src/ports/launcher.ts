// The launcher: how an actor starts the thread that it answers for, hears from it, and kills it.

import { setFlagsFromString } from "node:v8";
import { type ResourceLimits, Worker, type WorkerOptions } from "node:worker_threads";
import type { ErrorRecord } from "../errors/errors.ts";
import type { LogLine } from "./log.ts";

/** Why a thread is no more. */
export type ThreadEnd =
  | { readonly kind: "finished" }
  | { readonly kind: "failed"; readonly error: ErrorRecord }
  /** It said nothing: killed, out of memory, or it left by itself. */
  | { readonly kind: "lost"; readonly reason: string };

/** What a thread tells whoever watches the process, beside its actor. Plain data. */
export type Observation =
  | { readonly line: LogLine }
  /** When it did what for steps of training (src/training/meters/step-trace.ts). */
  | { readonly traced: TracedActor }
  /** A frame came to it that is none. */
  | { readonly refused: ErrorRecord };

/** What a thread did for a step, among those who do something for it. Plain data. */
export interface TracedActor {
  readonly run: string;
  readonly generation: number;
  readonly step: number;
  /** `device:1`, `reader:0` */
  readonly actor: string;
  /** In milliseconds since 1970, in their order. */
  readonly intervals: readonly {
    readonly name: string;
    readonly fromMs: number;
    readonly toMs: number;
  }[];
}

/** A running thread. Messages are structured clones; shared memory stays shared. */
export interface Thread<Command, Report> {
  send(command: Command): void;
  /** Resolves once the thread's exit has been seen: only then may its memory be used again. */
  readonly ended: Promise<ThreadEnd>;
  /** Ends the thread at once, wherever it is. */
  kill(): void;
  /** What to do with what it says. Set once, right after the start. */
  onReport(receive: (report: Report) => void): void;
  /** What to do with what it tells besides. Set once, right after the start. */
  onObservation(receive: (observation: Observation) => void): void;
}

/** Starts the program that a module exports as its entry, with `data` as its argument. */
export interface Launcher {
  start<Command, Report>(entry: URL, data: unknown, name: string): Thread<Command, Report>;
}

/** Threads of this process. */
export const workerLauncher: Launcher = launchWorkers({});

/** Threads of this process that may not have more than this. */
export function launchWorkers(options: { readonly resourceLimits?: ResourceLimits }): Launcher {
  return {
    start: (entry, data, name) => startWorker(entry, { ...options, workerData: data, name }),
  };
}

/** What comes from a worker thread (actors/threads/thread-ports.ts). */
export interface WorkerMessage<Report> {
  readonly failed?: ErrorRecord;
  readonly report?: Report;
  readonly observed?: Observation;
}

/**
 * Has every thread of this process collect its young objects alone. By itself V8 splits the work
 * among helper threads, and where devices keep all cores busy the helpers wait for one, and the
 * device for the helpers: milliseconds for a collection that takes a third of one.
 */
export function collectAlone(): void {
  setFlagsFromString("--no-parallel-scavenge");
}

function startWorker<Command, Report>(entry: URL, options: WorkerOptions): Thread<Command, Report> {
  collectAlone();
  const worker = new Worker(entry, options);
  let receive: (report: Report) => void = () => {};
  let observe: (observation: Observation) => void = () => {};
  let failure: ErrorRecord | undefined;
  worker.on("message", (message: WorkerMessage<Report>) => {
    if (message.failed !== undefined) failure = message.failed;
    else if (message.report !== undefined) receive(message.report);
    else if (message.observed !== undefined) observe(message.observed);
  });
  const ended = new Promise<ThreadEnd>((resolve) => {
    let crash: Error | undefined;
    worker.on("error", (error) => {
      crash = error instanceof Error ? error : new Error(String(error));
    });
    worker.on("exit", (code) => {
      if (failure !== undefined) resolve({ kind: "failed", error: failure });
      else if (crash !== undefined) resolve({ kind: "lost", reason: crash.message });
      else if (code === 0) resolve({ kind: "finished" });
      else resolve({ kind: "lost", reason: `the thread ended with exit code ${code}` });
    });
  });
  return {
    send: (command) => worker.postMessage(command),
    ended,
    kill: () => void worker.terminate(),
    onReport(next) {
      receive = next;
    },
    onObservation(next) {
      observe = next;
    },
  };
}

/**
 * A launcher that remembers what it started, so that whoever closes can wait until all is gone, and
 * hands on what its threads tell besides.
 */
export function rememberThreads(
  inner: Launcher,
  observe: (observation: Observation) => void,
): Launcher & {
  allEnded(): Promise<void>;
  /** Threads that the checkpoint store refused a write, as their generation was over. */
  readonly fenced: number;
} {
  const running = new Set<Promise<ThreadEnd>>();
  let fenced = 0;
  return {
    start<Command, Report>(entry: URL, data: unknown, name: string): Thread<Command, Report> {
      const thread = inner.start<Command, Report>(entry, data, name);
      thread.onObservation(observe);
      running.add(thread.ended);
      void thread.ended.then((end) => {
        running.delete(thread.ended);
        if (end.kind === "failed" && end.error.code === "GENERATION_FENCED") fenced++;
      });
      return thread;
    },
    get fenced() {
      return fenced;
    },
    async allEnded() {
      await Promise.all(running);
    },
  };
}
