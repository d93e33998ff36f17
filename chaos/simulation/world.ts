// The world of a simulation: one clock, one source of chance, one thread. Everything that happens
// is a task of the clock, and between two tasks the promises that were kept run to their end; so a
// seed decides the whole order of events, and the hash of their trace tells two runs apart.
//
// Invariants
//   W1. Nothing waits for real time and nothing draws real chance.
//   W2. A sleeper wakes when its word has changed or its time is over, never otherwise, as a futex
//       has it: a ring that was forgotten is a hang here too.

import { createHash } from "node:crypto";
import { SimulatedClock } from "../../src/ports/clock.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";

/** Why `run` came back: it was over; time was; or nothing was left that could ever happen. */
export type Outcome = "over" | "late" | "stuck";

interface Sleeper {
  readonly words: Int32Array;
  readonly at: number;
  readonly seen: number;
  readonly wake: () => void;
}

/** True while the process has a request to the file system open. */
function waitsForFiles(): boolean {
  return process
    .getActiveResourcesInfo()
    .some((kind) => kind.startsWith("FSReq") || kind === "CloseReq");
}

/** Lines of the trace that are kept to be read. */
const linesMax = 400;

export class World {
  readonly clock = new SimulatedClock();
  readonly random: RandomStream;
  /** The first thing that no fault explains; it ends the run. */
  crash: { readonly where: string; readonly error: unknown } | undefined;
  readonly #hash = createHash("sha256");
  readonly #lines: string[] = [];
  readonly #sleepers = new Set<Sleeper>();
  #events = 0;

  constructor(seed: number) {
    this.random = new RandomStream(seed, purposes.faults);
  }

  /** Notes what happened: a part of the hash, and to be read. */
  note(who: string, what: string): void {
    this.#lines.push(this.count(who, what));
    if (this.#lines.length > 2 * linesMax) this.#lines.splice(0, linesMax);
  }

  /** The same for what happens all the time: a part of the hash alone. */
  count(who: string, what: string): string {
    const line = `${this.clock.now().toFixed(3)} ${who} ${what}`;
    this.#hash.update(line);
    this.#events++;
    return line;
  }

  /** The events so far, as one hash, and the last of them. */
  get trace(): { readonly hash: string; readonly events: number; readonly last: string[] } {
    const hash = this.#hash.copy().digest("hex");
    return { hash, events: this.#events, last: this.#lines.slice(-linesMax) };
  }

  /** A number between the two. */
  between(least: number, most: number): number {
    return least + (most - least) * this.random.uniform();
  }

  happens(probability: number): boolean {
    return probability > 0 && this.random.uniform() < probability;
  }

  /** Calls `wake` once `words[at]` is not `seen`. Returns how to forget it. W2 */
  onChange(words: Int32Array, at: number, seen: number, wake: () => void): () => void {
    const sleeper = { words, at, seen, wake };
    this.#sleepers.add(sleeper);
    return () => this.#sleepers.delete(sleeper);
  }

  /** Runs until `isOver`, at most to `untilMs`. */
  async run(isOver: () => boolean, untilMs: number): Promise<Outcome> {
    for (;;) {
      // Every promise that was kept is through when a macrotask comes round; no time passes.
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
