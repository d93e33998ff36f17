// One direction of a connection of the in-memory transport, in the time of a clock.

import type { Clock } from "../../ports/clock.ts";

/** A queue of tasks in order: each runs after its delay, and not before the task ahead of it. */
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
    // Each timer runs the oldest task, not its own, to keep the order although delays vary.
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
