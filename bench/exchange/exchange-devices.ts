// The device threads of one host, and the memory that they share.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { abortCells, cellWords } from "../../src/exchange/cells.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { benchShape, type ExchangeWork } from "./exchange-rounds.ts";
import type { ExchangeThreadData } from "./exchange-thread.ts";

export interface HostDevices {
  readonly words: SharedArrayBuffer;
  readonly memory: SharedArrayBuffer;
  /** Milliseconds that all rounds took on the slowest device. */
  measure(rounds: number): Promise<number>;
  stop(): Promise<void>;
}

/** Starts the devices of `host`. The participant after all devices is the bridge. */
export function startDevices(work: ExchangeWork, host: number): HostDevices {
  const layout = layoutOf(benchShape(work));
  const participants = work.hostOf.length + 1;
  const words = new SharedArrayBuffer(4 * cellWords(participants, layout.cells));
  const memory = new SharedArrayBuffer(layout.bytes);
  const workers = (layout.hosts[host] ?? []).map((rank) => {
    const workerData: ExchangeThreadData = { work, rank, words, memory };
    return new Worker(new URL("./exchange-thread.js", import.meta.url), { workerData });
  });
  return {
    words,
    memory,
    async measure(rounds) {
      for (const worker of workers) worker.postMessage(rounds);
      const answers = await Promise.all(workers.map((worker) => once(worker, "message")));
      return Math.max(...answers.map(([ms]) => ms));
    },
    async stop() {
      abortCells(new Int32Array(words), participants);
      await Promise.all(workers.map((worker) => worker.terminate()));
    },
  };
}
