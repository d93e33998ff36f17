// Worker count: turns reports of readers and workers into the measurements of the autoscaler.

import type { JobSpec } from "../../../src/job/job.ts";
import { Autoscaler, type ServiceLoad } from "./autoscaler.ts";

export interface ReaderReport {
  /** Buffered splits, which it needs next. */
  readonly buffered: number;
  /** Splits that it needs and lacks. */
  readonly wanted: number;
  /** Total wait for splits so far, in milliseconds. */
  readonly stalledMs: number;
}

export class WorkerCount {
  readonly #scaler: Autoscaler;
  readonly #readers = new Map<number, ReaderReport>();
  /** Total wait of each reader at the start of the interval. */
  #stalledMs = new Map<number, number>();
  /** Sums over all workers since the interval began. */
  #worked = { busyMs: 0, forMs: 0 };
  #busy = 0;
  #sinceMs: number;

  constructor({ workersMin, workersMax }: NonNullable<JobSpec["preprocessing"]>, nowMs: number) {
    this.#scaler = new Autoscaler({ least: workersMin, most: workersMax, atMs: nowMs });
    this.#sinceMs = nowMs;
  }

  addReader(reader: number, report: ReaderReport): void {
    if (!this.#stalledMs.has(reader)) this.#stalledMs.set(reader, report.stalledMs);
    this.#readers.set(reader, report);
  }

  /** Adds a worker's report: it made splits for `busyMs` of the last `forMs` milliseconds. */
  addWorker(busyMs: number, forMs: number): void {
    this.#worked = {
      busyMs: this.#worked.busyMs + Math.min(busyMs, forMs),
      forMs: this.#worked.forMs + forMs,
    };
  }

  /** Ends the interval. Returns its measurements, and the wanted number of workers. */
  endInterval(workers: number, nowMs: number): ServiceLoad & { readonly wanted: number } {
    const report = this.#loadOf(workers, nowMs);
    this.#sinceMs = nowMs;
    this.#worked = { busyMs: 0, forMs: 0 };
    for (const [reader, { stalledMs }] of this.#readers) this.#stalledMs.set(reader, stalledMs);
    return { ...report, wanted: this.#scaler.decide(report) };
  }

  #loadOf(workers: number, atMs: number): ServiceLoad {
    const { busyMs, forMs } = this.#worked;
    // A worker whose split takes longer than an interval does not report in it: the last load
    // holds.
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
