// Which thread makes the index of which file. A thread claims one file after another. The thread
// that writes the whole index waits for the files of other threads; where such a thread has ended
// or stands still, it makes the file's index itself. Two threads may make the index of one file:
// both have equal bytes, and each is renamed into place.
//
//   words   bell · whether all shall stop · number of files that were read · files taken so far ·
//           the files in the order in which they are taken · a state for each file
//   state   0: nobody's · n: claimed by thread n · -1: done
//
// Invariant
//   C1. The order in which files are claimed decides no bit: what is known of a file is a function
//       of that file, and files are put together in their order.

const [bell, stop, read, next] = [0, 1, 2, 3];
const headWords = 4;
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

/** Memory for the claims of files, which are taken in this order. */
export function claimsMemory(order: ArrayLike<number>): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(4 * (headWords + 2 * order.length));
  new Int32Array(memory, 4 * headWords).set(order);
  return memory;
}

/**
 * The order in which host `host` of `hosts` indexes `files` files: first its own share, which is
 * every `hosts`-th file, then the shares of the other hosts, each from its end, because its own
 * host works from its beginning.
 */
export function orderOfHost(files: number, host: number, hosts: number): Int32Array {
  const own = Array.from({ length: files }, (_, i) => i).filter((i) => i % hosts === host);
  const others = Array.from({ length: hosts - 1 }, (_, i) => (host + 1 + i) % hosts);
  const rest = others.flatMap((one) => {
    return Array.from({ length: Math.max(0, Math.ceil((files - one) / hosts)) }, (_, i) => {
      return one + i * hosts;
    }).reverse();
  });
  return Int32Array.from([...own, ...rest]);
}

/** The claims, as one thread sees them. */
export class FileClaims {
  readonly memory: SharedArrayBuffer;
  readonly #words: Int32Array;
  readonly #files: number;
  readonly #thread: number;

  /** `thread`: a number from 1 on, different for each thread. */
  constructor(memory: SharedArrayBuffer, thread: number) {
    this.memory = memory;
    this.#words = new Int32Array(memory);
    this.#files = (this.#words.length - headWords) / 2;
    this.#thread = thread;
  }

  /** Claims the next file that is nobody's; undefined: there is none, or all shall stop. */
  take(): number | undefined {
    const words = this.#words;
    while (Atomics.load(words, stop) === 0) {
      const place = Atomics.add(words, next, 1);
      if (place >= this.#files) return undefined;
      const file = words[headWords + place] ?? 0;
      if (Atomics.compareExchange(words, this.#at(file), 0, this.#thread) === 0) return file;
    }
    return undefined;
  }

  done(file: number): void {
    Atomics.store(this.#words, this.#at(file), done);
    this.ring();
  }

  isDone(file: number): boolean {
    return Atomics.load(this.#words, this.#at(file)) === done;
  }

  /** Where the state of a file is. */
  #at(file: number): number {
    return headWords + this.#files + file;
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
    for (let file = 0; file < this.#files; file++) {
      Atomics.compareExchange(this.#words, this.#at(file), thread, 0);
    }
    Atomics.store(this.#words, next, 0); // Others take them; files that are done cost no more.
    this.ring();
  }

  /** Number of rings so far. */
  get rung(): number {
    return Atomics.load(this.#words, bell);
  }

  /** Waits for a ring after the first `rung`. Returns false if none comes. */
  async rings(rung: number, waitOn: WaitOn): Promise<boolean> {
    await waitOn(this.#words, bell, rung, patienceMs);
    return Atomics.load(this.#words, bell) !== rung;
  }

  /** Waits until a file is done, or is nobody else's any more. */
  async settled(file: number, waitOn: WaitOn): Promise<void> {
    for (;;) {
      const { rung } = this; // Before the state: no ring is missed.
      const state = Atomics.load(this.#words, this.#at(file));
      if (state === 0 || state === done || state === this.#thread) return;
      if (!(await this.rings(rung, waitOn))) return; // It stands still.
    }
  }
}
