// The launcher: how an actor starts the thread that it answers for, hears from it, and kills it.

import { type ResourceLimits, Worker, type WorkerOptions } from "node:worker_threads";
import type { ErrorRecord } from "./errors.ts";

/** Why a thread is no more. */
export type ThreadEnd =
  | { readonly kind: "finished" }
  | { readonly kind: "failed"; readonly error: ErrorRecord }
  /** It said nothing: killed, out of memory, or it left by itself. */
  | { readonly kind: "lost"; readonly reason: string };

/** A running thread. Messages are structured clones; shared memory stays shared. */
export interface Thread<Command, Report> {
  send(command: Command): void;
  /** Resolves once the thread's exit has been seen: only then may its memory be used again. */
  readonly ended: Promise<ThreadEnd>;
  /** Ends the thread at once, wherever it is. */
  kill(): void;
  /** What to do with what it says. Set once, right after the start. */
  onReport(receive: (report: Report) => void): void;
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

function startWorker<Command, Report>(entry: URL, options: WorkerOptions): Thread<Command, Report> {
  const worker = new Worker(entry, options);
  let receive: (report: Report) => void = () => {};
  let failure: ErrorRecord | undefined;
  worker.on("message", (message: { failed?: ErrorRecord; report?: Report; done?: true }) => {
    if (message.failed !== undefined) failure = message.failed;
    else if (message.report !== undefined) receive(message.report);
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
  };
}

/** A launcher that remembers what it started, so that whoever closes can wait until all is gone. */
export function rememberThreads(inner: Launcher): Launcher & { allEnded(): Promise<void> } {
  const running = new Set<Promise<ThreadEnd>>();
  return {
    start<Command, Report>(entry: URL, data: unknown, name: string): Thread<Command, Report> {
      const thread = inner.start<Command, Report>(entry, data, name);
      running.add(thread.ended);
      void thread.ended.then(() => running.delete(thread.ended));
      return thread;
    },
    async allEnded() {
      await Promise.all(running);
    },
  };
}
