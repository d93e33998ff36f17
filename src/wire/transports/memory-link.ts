// A link of the transport in memory: one direction of a connection, in the time of a clock.

import type { Clock } from "../../ports/clock.ts";

/** One direction of a connection: tasks in order, each after its delay or that of one before. */
export class MemoryLink {
  readonly #clock: Clock;
  readonly #queue: (() => void)[] = [];
  #isOpen = true;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  send(delayMs: number, task: () => void): void {
    if (!this.#isOpen) return;
    this.#queue.push(task);
    // Every timer runs the oldest task, whichever set it: so delays vary, and the order stays.
    this.#clock.after(delayMs, () => this.#queue.shift()?.());
  }

  overtake(delayMs: number, task: () => void): void {
    this.#clock.after(delayMs, () => {
      if (this.#isOpen) task();
    });
  }

  close(): void {
    this.#isOpen = false;
    this.#queue.length = 0; // M3
  }
}
