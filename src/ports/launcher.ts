// The launcher port, through which an actor starts its thread, receives its reports, and kills it.

import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { type ResourceLimits, Worker, type WorkerOptions } from "node:worker_threads";
import type { ErrorRecord } from "../errors/errors.ts";
import { hasCodeCache } from "./code-cache.ts";
import type { LogLine } from "./log.ts";
import { seatOf } from "./process-seat.ts";

/** The way in which a thread has ended. */
export type ThreadEnd =
  | { readonly kind: "finished" }
  | { readonly kind: "failed"; readonly error: ErrorRecord }
  /** The thread gave no reason: it was killed, ran out of memory, or exited unexpectedly. */
  | { readonly kind: "lost"; readonly reason: string };

/** A report of a thread to the observers of its process, not to its actor. Plain data. */
export type Observation =
  | { readonly line: LogLine }
  /** Time intervals of the thread's work in a step (src/training/meters/step-trace.ts). */
  | { readonly traced: TracedActor }
  /** The thread received a frame that does not decode. */
  | { readonly refused: ErrorRecord };

/** The traced work of one actor's thread in one step. Plain data. */
export interface TracedActor {
  readonly run: string;
  readonly generation: number;
  readonly step: number;
  /** `device:1`, `reader:0` */
  readonly actor: string;
  /** In milliseconds since 1970, in order. */
  readonly intervals: readonly {
    readonly name: string;
    readonly fromMs: number;
    readonly toMs: number;
  }[];
}

/** A running thread. Messages are structured clones; shared memory stays shared. */
export interface Thread<Command, Report> {
  send(command: Command): void;
  /** Resolves once the thread has exited: only then may its memory be reused. */
  readonly ended: Promise<ThreadEnd>;
  /** Ends the thread at once, in the middle of its work. */
  kill(): void;
  /** Sets the receiver of reports. To be called once, right after the start. */
  onReport(receive: (report: Report) => void): void;
  /** Sets the receiver of observations. To be called once, right after the start. */
  onObservation(receive: (observation: Observation) => void): void;
}

/** Starts threads: each runs the program in the file `entry`, with `data` as its argument. */
export interface Launcher {
  start<Command, Report>(entry: URL, data: unknown, name: string): Thread<Command, Report>;
}

/** Starts worker threads of this process. */
export const workerLauncher: Launcher = launchWorkers({});

/** Starts worker threads of this process with limits on their resources. */
export function launchWorkers(options: { readonly resourceLimits?: ResourceLimits }): Launcher {
  return {
    start: (entry, data, name) => startWorker(entry, { ...options, workerData: data, name }),
  };
}

/** A message from a worker thread (actors/threads/thread-ports.ts). */
export interface WorkerMessage<Report> {
  readonly failed?: ErrorRecord;
  readonly report?: Report;
  readonly observed?: Observation;
}

/**
 * Makes every thread of this process collect young garbage alone. By default V8 shares the work
 * with helper threads. If devices keep all cores busy, the helpers wait for a core, and the device
 * waits for the helpers: milliseconds for a collection that takes a third of a millisecond alone.
 */
export function collectAlone(): void {
  setFlagsFromString("--no-parallel-scavenge");
}

/** Starts a worker thread with an entry, from the code cache if there is one. */
export function openThread(entry: URL, options: WorkerOptions): Worker {
  collectAlone(); // The cache was made with these flags.
  seatOfThreads();
  const file = fileURLToPath(entry);
  if (!file.endsWith(".cjs") || !hasCodeCache(file)) return new Worker(entry, options);
  return new Worker(new URL("cached-entry.cjs", entry), { ...options, argv: [file] });
}

/** The seat that the threads of this process share; it must exist before any thread starts. */
export function seatOfThreads(): Int32Array {
  return seatOf((seat, { entry, epoch }) => {
    openThread(new URL(entry), { workerData: { seat, epoch }, name: "service" }).unref();
  });
}

/** Threads that wait to be created. */
const waiting: (() => Worker | undefined)[] = [];
/** Number of threads that were created, and do not run yet. */
let starting = 0;

/**
 * Creates a thread in a turn of its own, once fewer threads than cores are starting. A process with
 * 128 devices creates hundreds; started at once, they would leave no core for this thread.
 */
function inTurn(create: () => Worker | undefined): void {
  waiting.push(create);
  setImmediate(createNext);
}

function createNext(): void {
  if (starting >= availableParallelism()) return;
  let worker: Worker | undefined; // Undefined: killed before it was created.
  while (worker === undefined && waiting.length > 0) worker = waiting.shift()?.();
  if (worker === undefined) return;
  starting++;
  let isStarting = true;
  const started = () => {
    if (isStarting) starting--;
    isStarting = false;
    if (waiting.length > 0) setImmediate(createNext);
  };
  worker.once("online", started).once("exit", started);
}

function startWorker<Command, Report>(entry: URL, options: WorkerOptions): Thread<Command, Report> {
  let worker: Worker | undefined;
  let isKilled = false;
  const commands: Command[] = [];
  let receive: (report: Report) => void = () => {};
  let observe: (observation: Observation) => void = () => {};
  let failure: ErrorRecord | undefined;
  const hear = (message: WorkerMessage<Report>) => {
    if (message.failed !== undefined) failure = message.failed;
    else if (message.report !== undefined) receive(message.report);
    else if (message.observed !== undefined) observe(message.observed);
  };
  const ended = new Promise<ThreadEnd>((resolve) => {
    let crash: Error | undefined;
    const end = (code: number) => {
      if (failure !== undefined) resolve({ kind: "failed", error: failure });
      else if (crash !== undefined) resolve({ kind: "lost", reason: crash.message });
      else if (code === 0) resolve({ kind: "finished" });
      else resolve({ kind: "lost", reason: `the thread ended with exit code ${code}` });
    };
    const fail = (error: unknown) => {
      crash = error instanceof Error ? error : new Error(String(error));
    };
    inTurn(() => {
      try {
        if (!isKilled) worker = openThread(entry, options);
      } catch (error) {
        fail(error);
      }
      if (worker === undefined) end(1);
      worker?.on("message", hear).on("error", fail).on("exit", end);
      for (const command of commands) worker?.postMessage(command);
      return worker;
    });
  });
  return {
    send(command) {
      if (worker === undefined) commands.push(command);
      else worker.postMessage(command);
    },
    ended,
    kill() {
      isKilled = true;
      void worker?.terminate();
    },
    onReport(next) {
      receive = next;
    },
    onObservation(next) {
      observe = next;
    },
  };
}

/**
 * A launcher that tracks the threads it starts, so that the caller can wait for all of them, and
 * passes their observations to `observe`.
 */
export function rememberThreads(
  inner: Launcher,
  observe: (observation: Observation) => void,
): Launcher & {
  allEnded(): Promise<void>;
  /** Number of threads whose writes the checkpoint store fenced, as their generation had ended. */
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
