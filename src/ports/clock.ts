// The clock port. Control code gets a Clock; code that computes weights must never have one.

import { performance } from "node:perf_hooks"; // Node looks the global one up at each use.

/** Cancels a scheduled task. */
export type Cancel = () => void;

export interface Clock {
  /** Monotonic milliseconds. Only differences have a meaning. */
  now(): number;
  /** Calls `task` once after `delayMs`. */
  after(delayMs: number, task: () => void): Cancel;
  /** The date and time of day, for display. No decision depends on it. */
  date(): Date;
  /**
   * Milliseconds since 1970 that never run backwards: the same on all threads of a machine, to some
   * microseconds. For times that several threads compare; no decision depends on it.
   */
  epochMs(): number;
}

/** The clock of the machine. */
export const realClock: Clock = {
  now: () => performance.now(),
  after(delayMs, task) {
    const timer = setTimeout(task, delayMs);
    return () => clearTimeout(timer);
  },
  date: () => new Date(),
  epochMs: () => performance.timeOrigin + performance.now(),
};

/** Simulated time: `advance` moves it, and runs due tasks in order. */
export class SimulatedClock implements Clock {
  #nowMs = 0;
  #serial = 0;
  readonly #due: { atMs: number; serial: number; task: () => void }[] = [];

  now(): number {
    return this.#nowMs;
  }

  date(): Date {
    return new Date(this.#nowMs);
  }

  epochMs(): number {
    return this.#nowMs;
  }

  after(delayMs: number, task: () => void): Cancel {
    const entry = { atMs: this.#nowMs + Math.max(0, delayMs), serial: this.#serial++, task };
    this.#due.push(entry);
    return () => {
      const index = this.#due.indexOf(entry);
      if (index >= 0) this.#due.splice(index, 1);
    };
  }

  /** Moves time to the next task, and runs it. Returns false if there is no task. */
  runNext(): boolean {
    this.#due.sort((a, b) => a.atMs - b.atMs || a.serial - b.serial);
    const next = this.#due.shift();
    if (next === undefined) return false;
    this.#nowMs = Math.max(this.#nowMs, next.atMs);
    next.task();
    return true;
  }

  /** Moves time forward by `byMs`, and runs the tasks that become due, in order. */
  advance(byMs: number): void {
    const untilMs = this.#nowMs + byMs;
    for (;;) {
      this.#due.sort((a, b) => a.atMs - b.atMs || a.serial - b.serial);
      const next = this.#due[0];
      if (next === undefined || next.atMs > untilMs) break;
      this.runNext();
    }
    this.#nowMs = untilMs;
  }
}

/** Calls `task` after the events that have arrived by now are handled. */
export type NextTurn = (task: () => void) => void;

/** The end of the real event loop's turn. */
export const nextTurn: NextTurn = (task) => {
  setImmediate(task);
};
