// Which thread makes the index of which file. A thread claims one file after another. The thread
// that writes the whole index waits for the files of other threads; where such a thread has ended
// or stands still, it makes the file's index itself. Two threads may make the index of one file:
// both have equal bytes, and each is renamed into place.
//
//   words   bell · whether all shall stop · number of files that were read · a state for each file
//   state   0: nobody's · n: claimed by thread n · -1: done
//
// Invariant
//   C1. The order in which files are claimed decides no bit: what is known of a file is a function
//       of that file, and files are put together in their order.

const [bell, stop, read] = [0, 1, 2];
const headWords = 3;
const done = -1;

/** How long a file of another thread may take without any bell before it is taken over. */
const patienceMs = 60_000;

/** Waits until the word at `index` is no longer `value`, or for `ms`. */
export type WaitOn = (
  words: Int32Array,
  index: number,
  value: number,
  ms: number,
) => Promise<unknown> | unknown;

/** Memory for the claims of `files` files. */
export function claimsMemory(files: number): SharedArrayBuffer {
  return new SharedArrayBuffer(4 * (headWords + files));
}

/** The claims, as one thread sees them. */
export class FileClaims {
  readonly memory: SharedArrayBuffer;
  readonly #words: Int32Array;
  readonly #thread: number;

  /** `thread`: a number from 1 on, different for each thread. */
  constructor(memory: SharedArrayBuffer, thread: number) {
    this.memory = memory;
    this.#words = new Int32Array(memory);
    this.#thread = thread;
  }

  /** Claims the first file that is nobody's; undefined: there is none, or all shall stop. */
  take(): number | undefined {
    for (let at = headWords; at < this.#words.length; at++) {
      if (Atomics.load(this.#words, stop) === 1) return undefined;
      if (Atomics.compareExchange(this.#words, at, 0, this.#thread) === 0) return at - headWords;
    }
    return undefined;
  }

  done(file: number): void {
    Atomics.store(this.#words, headWords + file, done);
    this.ring();
  }

  isDone(file: number): boolean {
    return Atomics.load(this.#words, headWords + file) === done;
  }

  /** Counts a file that was read, because it had no index. */
  countRead(): void {
    Atomics.add(this.#words, read, 1);
  }

  /** Number of files that threads have read. */
  get filesRead(): number {
    return Atomics.load(this.#words, read);
  }

  /** Shows that a thread is still at work. */
  ring(): void {
    Atomics.add(this.#words, bell, 1);
    Atomics.notify(this.#words, bell);
  }

  /** Has all threads stop after their present files. */
  stop(): void {
    Atomics.store(this.#words, stop, 1);
    this.ring();
  }

  /** Gives up the files of a thread that has ended. */
  release(thread: number): void {
    for (let at = headWords; at < this.#words.length; at++) {
      Atomics.compareExchange(this.#words, at, thread, 0);
    }
    this.ring();
  }

  /** Waits until a file is done, or is nobody else's any more. */
  async settled(file: number, waitOn: WaitOn): Promise<void> {
    for (;;) {
      const rung = Atomics.load(this.#words, bell); // Before the state: no ring is missed.
      const state = Atomics.load(this.#words, headWords + file);
      if (state === 0 || state === done || state === this.#thread) return;
      await waitOn(this.#words, bell, rung, patienceMs);
      if (Atomics.load(this.#words, bell) === rung) return; // It stands still.
    }
  }
}
