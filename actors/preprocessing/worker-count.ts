// How many workers there should be: what readers and workers tell, as the law of autoscaler.ts
// takes it.

import type { JobSpec } from "../../src/job/job.ts";

/** What a reader tells. */
export interface ReaderNews {
  /** Splits that it has, and will need next. */
  readonly buffered: number;
  /** Splits that it needs, and has not. */
  readonly wanted: number;
  /** How long it has waited for splits so far. */
  readonly stalledMs: number;
}

export class WorkerCount {
  readonly #limits: NonNullable<JobSpec["preprocessing"]>;
  readonly #readers = new Map<number, ReaderNews>();
  readonly #busy = new Map<string, number>();

  constructor(limits: NonNullable<JobSpec["preprocessing"]>, _nowMs: number) {
    this.#limits = limits;
  }

  tellReader(reader: number, news: ReaderNews): void {
    this.#readers.set(reader, news);
  }

  tellWorker(worker: string, busy: number): void {
    this.#busy.set(worker, busy);
  }

  /** `workers`: those that live. */
  wanted(workers: readonly string[], _nowMs: number): number {
    for (const worker of this.#busy.keys()) {
      if (!workers.includes(worker)) this.#busy.delete(worker);
    }
    return this.#limits.workersMin;
  }
}
