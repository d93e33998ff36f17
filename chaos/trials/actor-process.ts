// A process of a faulted run, as the injector sees it.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type ErrorRecord, RemoteError } from "../../src/errors/errors.ts";
import { entryFile } from "../../src/ports/entry-file.ts";
import type { ProcessNews, ProcessOrder } from "./process-entry.ts";

type StartOrder = Extract<ProcessOrder, { order: "start" }>;

const entry = entryFile("processes", "chaos/trials/process-entry.js");
/** Longest wait for a process to end that was asked to. */
const closeMs = 20_000;
/** The last output of a process that died, which tells why. */
const lastWordsMax = 2000;

export class ActorProcess {
  /** `root`, `host:1` */
  readonly name: string;
  readonly pid: number;
  /** Resolves when the process has ended, for any reason. */
  readonly exited: Promise<void>;
  readonly #child: ChildProcess;
  #isStopped = false;
  #lastWords = "";

  private constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.pid = child.pid ?? 0;
    this.#child = child;
    // Nothing is left behind, however this process ends.
    const kill = () => child.kill("SIGKILL");
    process.once("exit", kill);
    this.exited = once(child, "exit").then(() => void process.off("exit", kill));
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#lastWords = (this.#lastWords + text).slice(-lastWordsMax);
    });
  }

  /**
   * Starts it, and waits until its cluster is up, or it has joined one. `heapMiB`: what its main
   * thread may have at most. @throws RemoteError where it cannot
   */
  static async start(
    name: string,
    order: StartOrder,
    options: {
      readonly heapMiB: number | undefined;
      readonly onNews: (news: ProcessNews, from: ActorProcess) => void;
      /** Told of the process before it is up. */
      readonly onStart: (process: ActorProcess) => void;
    },
  ): Promise<ActorProcess> {
    const { heapMiB } = options;
    const execArgv = heapMiB === undefined ? [] : [`--max-old-space-size=${heapMiB}`];
    const child = fork(entry, { execArgv, stdio: ["ignore", "ignore", "pipe", "ipc"] });
    const started = new ActorProcess(name, child);
    options.onStart(started);
    child.on("error", () => {}); // What cannot be told to a process that is gone.
    const isUp = new Promise<ErrorRecord | undefined>((resolve) => {
      child.on("message", (news: ProcessNews) => {
        if (news.news === "up") resolve(undefined);
        if (news.news === "failed") resolve(news.error);
        options.onNews(news, started);
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

  /** Whether it was stopped, and not let go on. */
  get isStopped(): boolean {
    return this.#isStopped && !this.hasEnded;
  }

  /** Nothing happens where it has ended. */
  send(order: ProcessOrder): void {
    if (!this.#child.connected) return;
    this.#child.send(order, () => {}); // It may end before it has heard.
  }

  signal(signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
    if (signal !== "SIGKILL") this.#isStopped = signal === "SIGSTOP";
    if (!this.hasEnded) this.#child.kill(signal);
  }

  /** How it ended, as an error. */
  death(): ErrorRecord {
    const { exitCode, signalCode } = this.#child;
    const message = `process ${this.name} ended (${signalCode ?? exitCode}): ${this.#lastWords}`;
    return { name: "Error", code: "UNKNOWN", message, recovery: "restore" };
  }

  /** Lets the process end in order, or else kills it. */
  async close(): Promise<void> {
    this.signal("SIGCONT");
    this.send({ order: "close" });
    const timer = setTimeout(() => this.signal("SIGKILL"), closeMs);
    await this.exited;
    clearTimeout(timer);
  }
}
