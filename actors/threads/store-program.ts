// The program of the thread of a run's checkpoint store, where the store is reached over a network:
// it makes the leader's calls, one after the other, so that the leader never waits for the network.
//
// Takes  calls of run-store.ts
// Emits  the answer to each

import { type ErrorRecord, recordError } from "../../src/errors/errors.ts";
import type { Disk } from "../../src/ports/disk.ts";
import {
  type OpenedStore,
  type StoreCalls,
  storeCalls,
} from "../../storage/checkpoints/store-calls.ts";

export interface StoreTask {
  readonly program: "store";
  readonly opened: OpenedStore;
  /** One word, which changes when a call was sent. */
  readonly doorbell: SharedArrayBuffer;
}

/** A call, with a number that its answer repeats. */
export interface StoreCall {
  readonly number: number;
  readonly name: keyof StoreCalls;
  readonly given: readonly unknown[];
}

export interface StoreAnswered {
  readonly number: number;
  readonly result?: unknown;
  readonly error?: ErrorRecord;
}

/** Longest sleep: a call sent before the thread started does not wake it. */
const sleepMs = 100;

/** Makes calls until the thread is killed. */
export async function runStoreThread(
  { opened, doorbell }: StoreTask,
  ports: {
    readonly disk: Disk;
    take(): StoreCall | undefined;
    report(answer: StoreAnswered): void;
  },
): Promise<never> {
  const calls = storeCalls(opened, ports.disk);
  const bell = new Int32Array(doorbell);
  for (;;) {
    const rung = Atomics.load(bell, 0);
    const call = ports.take();
    if (call === undefined) {
      Atomics.wait(bell, 0, rung, sleepMs);
      continue;
    }
    const { number, name, given } = call;
    try {
      const make = calls[name] as (...given: readonly unknown[]) => unknown;
      ports.report({ number, result: await make(...given) });
    } catch (error) {
      ports.report({ number, error: recordError(error) });
    }
  }
}
