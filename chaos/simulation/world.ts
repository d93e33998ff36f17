// The world of a simulation: one clock, one random stream, one thread. Every event is a task of the
// clock, and between two tasks all resolved promises are processed. A seed therefore determines the
// order of all events, and equal hashes of the trace mean equal runs.
//
// Invariants
//   W1. No task waits for real time or draws real randomness.
//   W2. A sleeper wakes when its word has changed or its time is over, never otherwise, like a
//       futex: a missing wake-up hangs in the simulation too.
//   W3. Virtual time does not pass while a request to the real file system is open.

import { createHash } from "node:crypto";
import { SimulatedClock } from "../../src/ports/clock.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";

/** The reason why `run` returned: `isOver`; the time limit; or no event was left. */
export type Outcome = "over" | "late" | "stuck";

interface Sleeper {
  readonly words: Int32Array;
  readonly at: number;
  readonly seen: number;
  readonly wake: () => void;
}

/** Whether the process has an open request to the real file system. */
function waitsForFiles(): boolean {
  return process
    .getActiveResourcesInfo()
    .some((kind) => kind.startsWith("FSReq") || kind === "CloseReq");
}

/** Readable lines of the trace that are kept. */
const linesMax = 400;

export class World {
  readonly clock = new SimulatedClock();
  readonly random: RandomStream;
  /** The first error that no fault explains; it ends the run. */
  crash: { readonly where: string; readonly error: unknown } | undefined;
  readonly #hash = createHash("sha256");
  readonly #lines: string[] = [];
  readonly #sleepers = new Set<Sleeper>();
  #events = 0;

  constructor(seed: number) {
    this.random = new RandomStream(seed, purposes.faults);
  }

  /** Records an event in the hash and in the readable trace. */
  note(who: string, what: string): void {
    this.#lines.push(this.count(who, what));
    if (this.#lines.length > 2 * linesMax) this.#lines.splice(0, linesMax);
  }

  /** Records a frequent event in the hash only. */
  count(who: string, what: string): string {
    const line = `${this.clock.now().toFixed(3)} ${who} ${what}`;
    this.#hash.update(line);
    this.#events++;
    return line;
  }

  /** Hash and number of the events so far, and the last lines. */
  get trace(): { readonly hash: string; readonly events: number; readonly last: string[] } {
    const hash = this.#hash.copy().digest("hex");
    return { hash, events: this.#events, last: this.#lines.slice(-linesMax) };
  }

  /** A random number in the range. */
  between(least: number, most: number): number {
    return least + (most - least) * this.random.uniform();
  }

  happens(probability: number): boolean {
    return probability > 0 && this.random.uniform() < probability;
  }

  /** Calls `wake` once `words[at]` is not `seen`. The returned function removes the sleeper. W2 */
  onChange(words: Int32Array, at: number, seen: number, wake: () => void): () => void {
    const sleeper = { words, at, seen, wake };
    this.#sleepers.add(sleeper);
    return () => this.#sleepers.delete(sleeper);
  }

  /** Runs tasks until `isOver`, at most to `untilMs`. */
  async run(isOver: () => boolean, untilMs: number): Promise<Outcome> {
    for (;;) {
      // A macrotask runs after all resolved promises have been processed; no virtual time passes.
      await new Promise<void>((turn) => void setImmediate(turn));
      this.#wake();
      if (isOver() || this.crash !== undefined) return "over";
      if (waitsForFiles()) continue; // W3
      if (this.clock.now() >= untilMs) return "late";
      if (!this.clock.runNext()) return "stuck";
    }
  }

  #wake(): void {
    for (const sleeper of this.#sleepers) {
      if (Atomics.load(sleeper.words, sleeper.at) === sleeper.seen) continue;
      this.#sleepers.delete(sleeper);
      sleeper.wake();
    }
  }
}
