// Distributes the files of a data set over the threads that index them. A thread claims one file
// after another. The thread that writes the index of all files waits for those of other threads; if
// such a thread has ended or has stalled, it indexes the file itself. So two threads may index one
// file: both write equal bytes, each to a temporary file that is renamed.
//
//   words   bell · whether threads must stop · number of files that were read · number of claims ·
//           the files in the order of claims · a state for each file
//   state   0: free · n: claimed by thread n · -1: done
//
// Invariant
//   C1. The order of claims does not affect the result: the index of a file depends on that file
//       only, and the indexes are combined in the order of the files.

const [bell, stop, read, next] = [0, 1, 2, 3];
const headWords = 4;
const done = -1;

/** Time without a ring of any thread, after which a file of another thread is taken over. */
const patienceMs = 60_000;

/** Waits until the word at `index` differs from `value`, at most for `ms`. */
export type WaitOn = (
  words: Int32Array,
  index: number,
  value: number,
  ms: number,
) => Promise<unknown> | unknown;

/** Memory for claims. `order`: the files in the order in which they are to be claimed. */
export function claimsMemory(order: ArrayLike<number>): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(4 * (headWords + 2 * order.length));
  new Int32Array(memory, 4 * headWords).set(order);
  return memory;
}

/**
 * The order in which host `host` of `hosts` indexes `files` files: first its own share, which is
 * every `hosts`-th file; then the shares of the other hosts, backwards, because these hosts index
 * them forwards.
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

/** Access of one thread to the claims. */
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

  /** Claims the next free file; undefined: there is none, or threads must stop. */
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

  /** Index of the word with a file's state. */
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

  /** Rings the bell, as a sign that this thread makes progress. */
  ring(): void {
    Atomics.add(this.#words, bell, 1);
    Atomics.notify(this.#words, bell);
  }

  /** Makes all threads stop after their present files. */
  stop(): void {
    Atomics.store(this.#words, stop, 1);
    this.ring();
  }

  /** Releases the claims of a thread that has ended. */
  release(thread: number): void {
    for (let file = 0; file < this.#files; file++) {
      Atomics.compareExchange(this.#words, this.#at(file), thread, 0);
    }
    Atomics.store(this.#words, next, 0); // Claims begin again; files that are done are skipped.
    this.ring();
  }

  /** Number of rings so far. */
  get rung(): number {
    return Atomics.load(this.#words, bell);
  }

  /** Waits until there are more rings than `rung`. Returns false after `patienceMs` without one. */
  async rings(rung: number, waitOn: WaitOn): Promise<boolean> {
    await waitOn(this.#words, bell, rung, patienceMs);
    return Atomics.load(this.#words, bell) !== rung;
  }

  /** Waits until a file is done, or no other thread claims it, or that thread has stalled. */
  async settled(file: number, waitOn: WaitOn): Promise<void> {
    for (;;) {
      const { rung } = this; // Read before the state, so that no ring is missed.
      const state = Atomics.load(this.#words, this.#at(file));
      if (state === 0 || state === done || state === this.#thread) return;
      if (!(await this.rings(rung, waitOn))) return; // The other thread has stalled.
    }
  }
}
