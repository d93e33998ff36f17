// The newest events of all runs, numbered, so that a page that lost its connection gets what it
// missed. Bounded in events and in bytes: the oldest are forgotten first.

import type { RunEvent } from "../run-state/run-events.ts";

/** Some minutes of a busy cluster; a page that was away for longer asks for histories again. */
const usualLimits = { events: 20_000, bytes: 16 * 2 ** 20 };

/** An event as it came: whose it is, when, and how it is written. */
export interface KeptEvent {
  readonly number: number;
  readonly run: string;
  readonly tenant: string | undefined;
  readonly seq: number;
  readonly atMs: number;
  /** A ToldEvent in JSON. */
  readonly text: string;
}

export class EventRing {
  readonly #events: KeptEvent[] = [];
  readonly #limits: typeof usualLimits;
  #bytes = 0;
  #last = 0;

  constructor(limits: typeof usualLimits = usualLimits) {
    this.#limits = limits;
  }

  /** The number of the newest event; 0: there was none. */
  get last(): number {
    return this.#last;
  }

  get size(): typeof usualLimits {
    return { events: this.#events.length, bytes: this.#bytes };
  }

  add(event: RunEvent, tenant: string | undefined, atMs: number): void {
    const { run, seq } = event;
    const text = JSON.stringify({ event, atMs });
    this.#events.push({ number: ++this.#last, run, tenant, seq, atMs, text });
    this.#bytes += text.length;
    const { events, bytes } = this.#limits;
    while (this.#events.length > events || (this.#bytes > bytes && this.#events.length > 1)) {
      this.#bytes -= this.#events.shift()?.text.length ?? 0;
    }
  }

  /** All that came after `number`; undefined: some of it is forgotten, or `number` is not ours. */
  after(number: number): readonly KeptEvent[] | undefined {
    if (number > this.#last) return undefined;
    const first = this.#events[0]?.number ?? this.#last + 1;
    return number + 1 < first ? undefined : this.#events.slice(number + 1 - first);
  }

  /** When the events of a run were heard of, by their sequence numbers. */
  timesOf(run: string): ReadonlyMap<number, number> {
    const own = this.#events.filter((one) => one.run === run);
    return new Map(own.map(({ seq, atMs }) => [seq, atMs]));
  }
}
