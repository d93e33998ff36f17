// How many workers there should be: what readers and workers tell, as the autoscaler takes it.

import type { JobSpec } from "../../src/job/job.ts";
import { Autoscaler, type ServiceNews } from "./autoscaler.ts";

/** What a reader tells. */
export interface ReaderNews {
  /** Splits that it has, and will need next. */
  readonly buffered: number;
  /** Splits that it needs, and has not. */
  readonly wanted: number;
  /** How long it has waited for splits so far, in milliseconds. */
  readonly stalledMs: number;
}

export class WorkerCount {
  readonly #scaler: Autoscaler;
  readonly #readers = new Map<number, ReaderNews>();
  /** How long each reader had waited when the interval began. */
  #stalledMs = new Map<number, number>();
  /** Of all workers, since the interval began. */
  #worked = { busyMs: 0, forMs: 0 };
  #busy = 0;
  #sinceMs: number;

  constructor({ workersMin, workersMax }: NonNullable<JobSpec["preprocessing"]>, nowMs: number) {
    this.#scaler = new Autoscaler({ least: workersMin, most: workersMax, atMs: nowMs });
    this.#sinceMs = nowMs;
  }

  tellReader(reader: number, news: ReaderNews): void {
    if (!this.#stalledMs.has(reader)) this.#stalledMs.set(reader, news.stalledMs);
    this.#readers.set(reader, news);
  }

  /** A worker has made splits for `busyMs` of the last `forMs` milliseconds. */
  tellWorker(busyMs: number, forMs: number): void {
    this.#worked = {
      busyMs: this.#worked.busyMs + Math.min(busyMs, forMs),
      forMs: this.#worked.forMs + forMs,
    };
  }

  /** How many there should be, where so many live, and why. Begins another interval. */
  hear(workers: number, nowMs: number): ServiceNews & { readonly wanted: number } {
    const news = this.#newsOf(workers, nowMs);
    this.#sinceMs = nowMs;
    this.#worked = { busyMs: 0, forMs: 0 };
    for (const [reader, { stalledMs }] of this.#readers) this.#stalledMs.set(reader, stalledMs);
    return { ...news, wanted: this.#scaler.hear(news) };
  }

  #newsOf(workers: number, atMs: number): ServiceNews {
    const { busyMs, forMs } = this.#worked;
    // Workers whose splits take longer than an interval say nothing in it.
    if (forMs > 0) this.#busy = busyMs / forMs;
    const readers = [...this.#readers];
    const passedMs = Math.max(1, atMs - this.#sinceMs);
    const stalls = readers.map(([reader, { stalledMs }]) => {
      return Math.min(1, (stalledMs - (this.#stalledMs.get(reader) ?? 0)) / passedMs);
    });
    const shares = readers.map(([, { buffered, wanted }]) => {
      return buffered + wanted === 0 ? 1 : buffered / (buffered + wanted);
    });
    return {
      atMs,
      workers,
      busy: this.#busy,
      stalled: Math.max(0, ...stalls),
      buffered: Math.min(1, ...shares),
      isWanted: readers.some(([, { wanted }]) => wanted > 0),
    };
  }
}
