// Time as an argument. Control code takes a Clock; nothing that computes a weight may see one.

/** Cancels what a clock was asked to do. */
export type Cancel = () => void;

export interface Clock {
  /** Milliseconds that never run backwards. Only differences mean anything. */
  now(): number;
  /** Calls `task` once after `delayMs`. */
  after(delayMs: number, task: () => void): Cancel;
  /** The day and its time, for people: nothing is decided by it. */
  date(): Date;
}

/** The machine's own time. */
export const realClock: Clock = {
  now: () => performance.now(),
  after(delayMs, task) {
    const timer = setTimeout(task, delayMs);
    return () => clearTimeout(timer);
  },
  date: () => new Date(),
};

/** Time that moves only when told to: `advance` runs what has come due, in order. */
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

  after(delayMs: number, task: () => void): Cancel {
    const entry = { atMs: this.#nowMs + Math.max(0, delayMs), serial: this.#serial++, task };
    this.#due.push(entry);
    return () => {
      const index = this.#due.indexOf(entry);
      if (index >= 0) this.#due.splice(index, 1);
    };
  }

  /** Runs the next task due, moving time to it; false when nothing is due. */
  runNext(): boolean {
    this.#due.sort((a, b) => a.atMs - b.atMs || a.serial - b.serial);
    const next = this.#due.shift();
    if (next === undefined) return false;
    this.#nowMs = Math.max(this.#nowMs, next.atMs);
    next.task();
    return true;
  }

  /** Moves time forward by `byMs`, running what comes due on the way. */
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
