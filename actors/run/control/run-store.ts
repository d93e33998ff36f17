// The checkpoint store of a run, as its leader uses it: calls that return promises. A store in a
// directory is called at once, on the leader's thread. One over a network has a thread of its own,
// so that the leader answers messages while the store is slow or away.
//
// Invariants
//   S1. Every call has a deadline. When it passes, the thread is killed and the call rejects with a
//       StepTimeoutError that names it. A request that is then still on its way takes effect only
//       if the next generation sees it in the store's log; otherwise the log refuses it.

import { PeerLostError, RemoteError, StepTimeoutError } from "../../../src/errors/errors.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import { type Launcher, type Thread, workerLauncher } from "../../../src/ports/launcher.ts";
import { isObjectAddress } from "../../../src/ports/object-store.ts";
import {
  type OpenedStore,
  type StoreCalls,
  storeCalls,
} from "../../../storage/checkpoints/store-calls.ts";
import type { StoreAnswered, StoreCall, StoreTask } from "../../threads/store-program.ts";
import { threadFile } from "../../threads/thread-file.ts";

/** The calls of a run's store, as promises. Arguments and results are plain data. */
export type RunStore = {
  readonly [Name in keyof StoreCalls]: (
    ...given: Parameters<StoreCalls[Name]>
  ) => Promise<Awaited<ReturnType<StoreCalls[Name]>>>;
} & {
  readonly directory: string;
  /** Whether calls wait for a network, and may fail because it is away for a while. */
  readonly isRemote: boolean;
  /** The store, with another deadline for its calls. */
  within(deadlineMs: number): RunStore;
  close(): void;
};

export interface RunStoreOptions {
  readonly opened: OpenedStore;
  readonly disk: Disk;
  readonly clock: Clock;
  /** Deadline of each call over a network. */
  readonly deadlineMs: number;
  /** @default worker threads of this process */
  readonly launcher?: Launcher;
}

/** Opens the store at its first call. */
export function openRunStore(options: RunStoreOptions): RunStore {
  const { opened, disk, deadlineMs } = options;
  const { directory } = opened;
  // The objects of a simulated machine cannot be reached from another thread.
  const isRemote = isObjectAddress(directory) && disk.objects === undefined;
  if (isRemote) {
    const thread = new StoreThread(options);
    return callable(directory, deadlineMs, thread);
  }
  const calls = storeCalls(opened, disk);
  const make: Caller["call"] = async (name, given) => {
    const call = calls[name] as (...given: readonly unknown[]) => unknown;
    return call(...given);
  };
  return callable(directory, deadlineMs, { isRemote, call: make, close: () => undefined });
}

interface Caller {
  readonly isRemote: boolean;
  call(name: keyof StoreCalls, given: readonly unknown[], deadlineMs: number): Promise<unknown>;
  close(): void;
}

function callable(directory: string, deadlineMs: number, caller: Caller): RunStore {
  const of =
    (name: keyof StoreCalls) =>
    (...given: readonly unknown[]) =>
      caller.call(name, given, deadlineMs);
  const calls = {
    ...{ open: of("open"), beginGeneration: of("beginGeneration"), adopt: of("adopt") },
    ...{ commit: of("commit"), commitPartial: of("commitPartial"), collect: of("collect") },
    ...{ latest: of("latest"), list: of("list") },
  } as Pick<RunStore, keyof StoreCalls>;
  return {
    ...calls,
    ...{ directory, isRemote: caller.isRemote },
    within: (ms) => callable(directory, ms, caller),
    close: () => caller.close(),
  };
}

/** The action of each call, for error messages. */
const deeds: Record<keyof StoreCalls, string> = {
  open: "be opened",
  beginGeneration: "begin a generation",
  adopt: "adopt the checkpoint of the warm start",
  commit: "commit a checkpoint",
  commitPartial: "commit a partial recovery",
  collect: "remove old checkpoints",
  latest: "find the newest checkpoint",
  list: "list the checkpoints",
};

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** Calls on a thread, which is started when a call needs it. */
class StoreThread implements Caller {
  readonly isRemote = true;
  readonly #options: RunStoreOptions;
  readonly #bell = new Int32Array(new SharedArrayBuffer(4));
  readonly #waiting = new Map<number, Waiting>();
  #thread: Thread<StoreCall, StoreAnswered> | undefined;
  #calls = 0;

  constructor(options: RunStoreOptions) {
    this.#options = options;
  }

  call(name: keyof StoreCalls, given: readonly unknown[], deadlineMs: number): Promise<unknown> {
    const { clock, opened } = this.#options;
    const number = ++this.#calls;
    const thread = this.#started();
    return new Promise<unknown>((resolve, reject) => {
      const cancel = clock.after(deadlineMs, () => {
        this.#waiting.delete(number);
        const wait = `the checkpoint store ${opened.directory} to ${deeds[name]}`;
        reject(new StepTimeoutError(wait, deadlineMs)); // S1
        this.#end(new PeerLostError("store", "it was killed after a call had timed out"));
      });
      this.#waiting.set(number, {
        resolve: (result) => {
          cancel();
          resolve(result);
        },
        reject: (error) => {
          cancel();
          reject(error);
        },
      });
      thread.send({ number, name, given });
      Atomics.add(this.#bell, 0, 1);
      Atomics.notify(this.#bell, 0);
    });
  }

  close(): void {
    this.#end(new PeerLostError("store", "its run has ended or begun anew"));
  }

  #started(): Thread<StoreCall, StoreAnswered> {
    if (this.#thread !== undefined) return this.#thread;
    const { launcher = workerLauncher, opened } = this.#options;
    const { buffer } = this.#bell;
    const task: StoreTask = { program: "store", opened, doorbell: buffer };
    const thread = launcher.start<StoreCall, StoreAnswered>(threadFile, task, "store");
    thread.onReport(({ number, result, error }) => {
      const waiting = this.#waiting.get(number);
      this.#waiting.delete(number);
      if (error === undefined) waiting?.resolve(result);
      else waiting?.reject(new RemoteError(error));
    });
    void thread.ended.then((end) => {
      if (this.#thread !== thread) return;
      const lost = end.kind === "lost" ? end.reason : "its thread exited unexpectedly";
      this.#end(
        end.kind === "failed" ? new RemoteError(end.error) : new PeerLostError("store", lost),
      );
    });
    this.#thread = thread;
    return thread;
  }

  /** Kills the thread. Calls that wait for it fail with `error`. */
  #end(error: Error): void {
    const thread = this.#thread;
    this.#thread = undefined;
    thread?.kill();
    for (const [number, waiting] of this.#waiting) {
      this.#waiting.delete(number);
      waiting.reject(error);
    }
  }
}
