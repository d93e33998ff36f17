// The readers of a host: reader i of n reads batches i, i + n, …, ahead of the devices while the
// ring has free slots. A slot is free once all devices of the host have released its batch.

import { ringSlots } from "../../../internal.ts";
import type { StepCostsOfCluster } from "../model.ts";
import type { SimulatedDevice, SimulatedHost } from "./cluster.ts";
import type { EventQueue } from "./events.ts";

export class HostReaders {
  /** Seconds of reading so far, summed over all readers. */
  busy = 0;
  readonly #queue: EventQueue;
  readonly #host: SimulatedHost;
  readonly #reading: StepCostsOfCluster["reading"];
  readonly #slots: number;
  /** Batches below this number may be read. */
  #granted: number;
  /** The next batch of each reader; and whether it is being read. */
  readonly #next: number[];
  readonly #isReading: boolean[];
  readonly #filled = new Set<number>();
  readonly #waiting = new Map<number, (() => void)[]>();
  readonly #released: Map<SimulatedDevice, number>;

  /** `ahead`: batches staged in addition to the ring; undefined: a batch is read on request. */
  constructor(
    queue: EventQueue,
    host: SimulatedHost,
    reading: StepCostsOfCluster["reading"],
    ahead: number | undefined,
  ) {
    this.#queue = queue;
    this.#host = host;
    this.#reading = reading;
    this.#slots = ringSlots + (ahead ?? 0);
    this.#granted = ahead === undefined ? 0 : Number.POSITIVE_INFINITY;
    this.#next = Array.from({ length: reading.readers }, (_, reader) => reader);
    this.#isReading = this.#next.map(() => false);
    this.#released = new Map(host.devices.map((device) => [device, 0]));
    this.#read();
  }

  /** Allows reading up to this batch, which the first device of the host requests. */
  grant(batch: number): void {
    if (batch < this.#granted) return;
    this.#granted = batch + 1;
    this.#read();
  }

  isFilled(batch: number): boolean {
    return this.#filled.has(batch);
  }

  whenFilled(batch: number, then: () => void): void {
    this.#waiting.set(batch, [...(this.#waiting.get(batch) ?? []), then]);
  }

  release(device: SimulatedDevice): void {
    this.#released.set(device, 1 + (this.#released.get(device) ?? 0));
    this.#read();
  }

  #read(): void {
    const released = Math.min(...this.#released.values());
    for (const [reader, batch] of this.#next.entries()) {
      const isFree = batch < this.#granted && batch < released + this.#slots;
      if (!isFree || this.#isReading[reader]) continue;
      this.#isReading[reader] = true;
      const from = this.#queue.now;
      const done = () => {
        this.busy += this.#queue.now - from;
        this.#isReading[reader] = false;
        this.#next[reader] = batch + this.#next.length;
        this.#filled.add(batch);
        for (const wake of this.#waiting.get(batch) ?? []) wake();
        this.#waiting.delete(batch);
        this.#read();
      };
      const { seconds } = this.#reading;
      if (this.#host.cores === undefined) this.#queue.at(from + seconds, done, undefined);
      else this.#host.cores.add(seconds, 1, done, undefined);
    }
  }
}
