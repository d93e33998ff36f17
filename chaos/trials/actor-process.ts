// A process of a faulted run, as seen by the injector.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type ErrorRecord, RemoteError } from "../../src/errors/errors.ts";
import { entryFile } from "../../src/ports/entry-file.ts";
import type { ProcessMessage, ProcessOrder } from "./process-entry.ts";

type StartOrder = Extract<ProcessOrder, { order: "start" }>;

const entry = entryFile("processes", "chaos/trials/process-entry.js");
/** Wait for a process to end after the close order, before it is killed. */
const closeMs = 20_000;
/** Length of the kept last output of a process, which shows why it died. */
const outputMax = 2000;

export class ActorProcess {
  /** `leader`, `host:1` */
  readonly name: string;
  readonly pid: number;
  /** Resolves when the process has ended, for any reason. */
  readonly exited: Promise<void>;
  readonly #child: ChildProcess;
  #isStopped = false;
  #lastOutput = "";

  private constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.pid = child.pid ?? 0;
    this.#child = child;
    // No child process outlives this process.
    const kill = () => child.kill("SIGKILL");
    process.once("exit", kill);
    this.exited = once(child, "exit").then(() => void process.off("exit", kill));
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#lastOutput = (this.#lastOutput + text).slice(-outputMax);
    });
  }

  /**
   * Starts a process, and waits until its cluster is up or it has joined one. `heapMiB`: heap limit
   * of its main thread. @throws RemoteError where it cannot start
   */
  static async start(
    name: string,
    order: StartOrder,
    options: {
      readonly heapMiB: number | undefined;
      readonly onMessage: (message: ProcessMessage, from: ActorProcess) => void;
      /** Called with the process before it is up. */
      readonly onStart: (process: ActorProcess) => void;
    },
  ): Promise<ActorProcess> {
    const { heapMiB } = options;
    const execArgv = heapMiB === undefined ? [] : [`--max-old-space-size=${heapMiB}`];
    const child = fork(entry, { execArgv, stdio: ["ignore", "ignore", "pipe", "ipc"] });
    const started = new ActorProcess(name, child);
    options.onStart(started);
    child.on("error", () => {}); // Errors of sending to an exited process.
    const isUp = new Promise<ErrorRecord | undefined>((resolve) => {
      child.on("message", (message: ProcessMessage) => {
        if (message.type === "up") resolve(undefined);
        if (message.type === "failed") resolve(message.error);
        options.onMessage(message, started);
      });
      child.once("exit", () => resolve(started.death()));
    });
    started.send(order);
    const failure = await isUp;
    if (failure === undefined) return started;
    started.signal("SIGKILL");
    throw new RemoteError(failure);
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Whether it is stopped (SIGSTOP). */
  get isStopped(): boolean {
    return this.#isStopped && !this.hasEnded;
  }

  /** Sends an order; ignored if the process has ended. */
  send(order: ProcessOrder): void {
    if (!this.#child.connected) return;
    this.#child.send(order, () => {}); // The process may end before it receives it.
  }

  signal(signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
    if (signal !== "SIGKILL") this.#isStopped = signal === "SIGSTOP";
    if (!this.hasEnded) this.#child.kill(signal);
  }

  /** The end of the process, as an error. */
  death(): ErrorRecord {
    const { exitCode, signalCode } = this.#child;
    const message = `process ${this.name} ended (${signalCode ?? exitCode}): ${this.#lastOutput}`;
    return { name: "Error", code: "UNKNOWN", message, recovery: "restore" };
  }

  /** Closes the process in order, or kills it after `closeMs`. */
  async close(): Promise<void> {
    this.signal("SIGCONT");
    this.send({ order: "close" });
    const timer = setTimeout(() => this.signal("SIGKILL"), closeMs);
    await this.exited;
    clearTimeout(timer);
  }
}
