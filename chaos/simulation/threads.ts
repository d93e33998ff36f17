// Simulated threads: a thread's program as a coroutine. It yields at every wait and only there, and
// resumes after a random time; its work between two waits happens at one moment of virtual time.
//
// Invariants
//   T1. An ended thread has no further effect, even of work that it had begun: its stores, reports
//       and disk operations are ignored. Its exit is seen some time later, never before.
//   T2. Messages between a thread and its actor keep their order.
//   T3. When it pauses within a call, or a slow disk delays it, its own time runs ahead; at its
//       next wait the world catches up.

// The programs are loaded before any thread starts: waiting for an import would take real time.
import "../../actors/threads/adopter-program.ts";
import "../../actors/threads/bridge-program.ts";
import "../../actors/threads/device-program.ts";
import "../../actors/threads/link-program.ts";
import "../../actors/threads/data/prepare-data.ts";
import "../../actors/threads/data/worker-program.ts";
import "../../src/data/synthetic/generated-blocks.ts";
import "../../actors/threads/reader-program.ts";
import "../../actors/threads/tier-program.ts";
import "../../actors/threads/writer-program.ts";
import type { ThreadPorts } from "../../actors/threads/thread-ports.ts";
import { runThread, type ThreadTask } from "../../actors/threads/thread-program.ts";
import type { Sleep } from "../../src/exchange/atomic-cells.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import { defaultConstants } from "../../src/planner/cost/constants.ts";
import type { Disk } from "../../src/ports/disk.ts";
import type { Launcher, Thread, ThreadEnd } from "../../src/ports/launcher.ts";
import type { DiskOwner, SimulatedMachine } from "./machine.ts";
import type { SimulatedProcess } from "./process.ts";

/** Speed of threads, in milliseconds. */
export interface ThreadSpeed {
  /** Longest time from one wait to the next. */
  readonly turnMs: number;
  /** Longest time for a thread to start, and until its end is seen. */
  readonly startMs: number;
}

/** The error thrown by a fault, which no program expects. */
export class InjectedError extends Error {
  override readonly name = "InjectedError";
}

/** The threads of all processes, and access to them for fault injection. */
export class SimulatedThreads {
  readonly speed: ThreadSpeed;
  /** Wraps the cells of a thread; it may inject a fault at a point of a step. */
  cellsOver: (cells: Cells, thread: SimulatedThread, task: ThreadTask) => Cells = (cells) => cells;
  readonly #machine: SimulatedMachine;
  readonly #running = new Set<SimulatedThread>();

  constructor(machine: SimulatedMachine, speed: ThreadSpeed) {
    this.#machine = machine;
    this.speed = speed;
  }

  /** Running threads, in the order of their start. */
  get running(): readonly SimulatedThread[] {
    return [...this.#running];
  }

  launcherOf(process: SimulatedProcess): Launcher {
    return {
      start: <Command, Report>(_entry: URL, data: unknown, name: string) => {
        const task = structuredClone(data) as ThreadTask;
        const over = (cells: Cells) => this.cellsOver(cells, thread, task);
        const surroundings = { process, machine: this.#machine, speed: this.speed, over };
        const thread = new SimulatedThread(task, name, surroundings);
        this.#running.add(thread);
        thread.onExit(() => this.#running.delete(thread));
        return thread as unknown as Thread<Command, Report>;
      },
    };
  }
}

interface ThreadSurroundings {
  readonly process: SimulatedProcess;
  readonly machine: SimulatedMachine;
  readonly speed: ThreadSpeed;
  readonly over: (cells: Cells) => Cells;
}

export class SimulatedThread implements Thread<unknown, unknown>, DiskOwner {
  readonly name: string;
  readonly ended: Promise<ThreadEnd>;
  readonly #process: SimulatedProcess;
  readonly #speed: ThreadSpeed;
  readonly #over: (cells: Cells) => Cells;
  readonly #commands: unknown[] = [];
  readonly #onExit = new Set<() => void>();
  readonly #connections: (() => void)[] = [];
  #receive: (report: unknown) => void = () => {};
  #end: (end: ThreadEnd) => void = () => {};
  #isOver = false;
  #isStopped = false;
  #waiting: (() => void)[] = [];
  #factor = 1;
  #storesLeft = Number.POSITIVE_INFINITY;
  #injected: Error | undefined;
  #sentMs = 0;
  #aheadMs = 0;

  constructor(task: ThreadTask, name: string, surroundings: ThreadSurroundings) {
    const { process, machine, speed, over } = surroundings;
    this.#over = over;
    this.name = `${process.id}/${name}`;
    this.#process = process;
    this.#speed = speed;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    const disk = machine.diskOf(process, this);
    const removeListener = process.onDeath(() => this.#leave());
    this.onExit(removeListener);
    this.#later(() => void this.#run(task, disk), process.world.between(0, speed.startMs));
  }

  onExit(listener: () => void): void {
    this.#onExit.add(listener);
  }

  // For its view of the disk.

  get id(): string {
    return this.name;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  nowMs(): number {
    return this.#process.world.clock.now() + this.#aheadMs;
  }

  spend(ms: number): void {
    this.#aheadMs += ms;
  }

  // For its actor.

  send(command: unknown): void {
    this.#commands.push(structuredClone(command));
  }

  onReport(receive: (report: unknown) => void): void {
    this.#receive = receive;
  }

  /** Observations are ignored: they do not affect the simulation. */
  onObservation(): void {}

  /** Kills the thread at its present point. */
  kill(): void {
    this.lose("the thread ended with exit code 1");
  }

  // For fault injection.

  /** The thread exits without a report. */
  lose(reason: string): void {
    if (this.#isOver) return;
    this.#leave();
    this.#sendEnd({ kind: "lost", reason });
  }

  /** The thread exits at its `stores`-th store from now (1 is the next). */
  loseAtStore(stores: number): void {
    this.#storesLeft = stores;
  }

  /** The program throws at its next wait. */
  throwNext(error: Error): void {
    this.#injected = error;
  }

  stop(): void {
    this.#isStopped = true;
  }

  goOn(): void {
    this.#isStopped = false;
    for (const task of this.#waiting.splice(0)) this.#enter(task);
  }

  /** Slows the thread down by `factor`. */
  slow(factor: number): void {
    this.#factor = factor;
  }

  async #run(task: ThreadTask, disk: Disk): Promise<void> {
    let end: ThreadEnd = { kind: "finished" };
    await runThread(task, {
      ...this.#ports(disk),
      fail: (error) => {
        end = { kind: "failed", error };
      },
    });
    if (this.#isOver) return;
    this.#leave();
    this.#sendEnd(end);
  }

  #ports(disk: Disk): Omit<ThreadPorts, "fail"> {
    const { world } = this.#process;
    const sleep: Sleep = (words, at, seen, ms) =>
      new Promise<void>((resume) => {
        const wake = () => {
          forget();
          cancel();
          this.#turn(resume);
        };
        const forget = world.onChange(words, at, seen, wake);
        const isForEver = ms === Number.POSITIVE_INFINITY;
        const cancel = isForEver ? () => {} : world.clock.after(ms, wake);
      });
    return {
      clock: {
        now: () => this.nowMs(),
        date: () => world.clock.date(),
        epochMs: () => this.nowMs(),
        after: (delayMs, task) =>
          world.clock.after(delayMs + this.#caughtUp(), () => this.#enter(task)),
      },
      disk,
      sleep,
      sleepTurning: sleep,
      pause: (ms) => this.spend(ms),
      afterPauses: (task) => world.clock.after(this.#aheadMs, () => this.#enter(task)), // T3
      constantsOf: async () => defaultConstants,
      wrapKernels: (kernels) => kernels,
      wrapCells: (cells) => this.#over(this.#wrap(cells)),
      report: (value) => this.#report(value),
      observe() {},
      take: () => this.#commands.shift(),
      directWay: async () => ({
        open: (options) => {
          const opened = this.#process.links.open(options, (task) => this.#enter(task));
          this.#connections.push(() => void opened.close());
          return opened;
        },
        listen: { address: this.name, isEncrypted: false },
        newToken: () => this.#process.links.newToken(),
      }),
      dial: async () => {
        const transport = this.#process.connect((task) => this.#enter(task));
        this.#connections.push(() => void transport.close());
        return transport;
      },
    };
  }

  #wrap(cells: Cells): Cells {
    return {
      load: (cell) => cells.load(cell),
      store: (cell, value, wake) => {
        if (!this.#isOver && --this.#storesLeft <= 0)
          this.lose("the thread ended in the middle of a step");
        if (!this.#isOver) cells.store(cell, value, wake); // T1
      },
      waitUntil: async (wait, isTrue, of) => {
        await new Promise<void>((resume) => this.#turn(resume));
        const injected = this.#injected;
        this.#injected = undefined;
        if (injected !== undefined) throw injected;
        await cells.waitUntil(wait, isTrue, of);
      },
    };
  }

  /** Resumes after a random time, by which threads interleave. */
  #turn(resume: () => void): void {
    const { world } = this.#process;
    const ms = this.#factor * world.between(0, this.#speed.turnMs);
    this.#later(resume, ms + this.#caughtUp());
  }

  /** T3. The milliseconds by which its time ran ahead, for which it now waits. */
  #caughtUp(): number {
    const ms = this.#aheadMs;
    this.#aheadMs = 0;
    return ms;
  }

  #later(resume: () => void, delayMs: number): void {
    const { world } = this.#process;
    world.clock.after(delayMs, () =>
      this.#enter(() => {
        world.count(this.name, "continues");
        resume();
      }),
    );
  }

  /** Runs a task on this thread: now, when it resumes, or never. */
  #enter(task: () => void): void {
    if (this.#isOver) return; // T1
    if (this.#isStopped) this.#waiting.push(task);
    else this.#process.enter(() => (this.#isOver ? undefined : task()));
  }

  #report(value: unknown): void {
    if (this.#isOver) return;
    const copy = structuredClone(value);
    this.#post(() => this.#receive(copy));
  }

  #sendEnd(end: ThreadEnd): void {
    const reason = end.kind === "failed" ? end.error.message : end.kind;
    this.#process.world.note(this.name, `has ended: ${reason}`);
    this.#post(() => this.#end(end));
  }

  /** T2. Delivers reports in order, each after a random delay. */
  #post(task: () => void): void {
    const { world } = this.#process;
    const atMs = this.nowMs() + world.between(0, this.#speed.turnMs);
    this.#sentMs = Math.max(this.#sentMs, atMs);
    world.clock.after(this.#sentMs - world.clock.now(), () => this.#process.enter(task));
  }

  #leave(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const close of this.#connections) close();
    for (const listener of [...this.#onExit]) listener();
  }
}
