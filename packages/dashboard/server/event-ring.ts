// Ring buffer of the newest events of all runs, numbered so that a page that lost its connection
// receives the events it missed. Bounded in events and in bytes: the oldest are dropped first.

import type { RunEvent } from "../../../internal.ts";

/**
 * Some minutes of a busy cluster; a page that was disconnected for longer requests histories again.
 */
const usualLimits = { events: 20_000, bytes: 16 * 2 ** 20 };

/** A stored event: its run and tenant, time of receipt, and JSON. */
export interface KeptEvent {
  readonly number: number;
  readonly run: string;
  readonly tenant: string | undefined;
  readonly seq: number;
  readonly isProgress: boolean;
  readonly atMs: number;
  /** The event as a TimedEvent in JSON. */
  readonly text: string;
}

/**
 * Thins events that are sent together: keeps all events except progress too dense to be seen, of
 * which it keeps at most `most` per run, including the newest.
 */
export function seenTogether(events: readonly KeptEvent[], most: number): readonly KeptEvent[] {
  const counts = new Map<string, number>();
  for (const { run, isProgress } of events) {
    if (isProgress) counts.set(run, (counts.get(run) ?? 0) + 1);
  }
  if (Math.max(0, ...counts.values()) <= most) return events;
  const left = new Map(counts);
  return events.filter(({ run, isProgress }) => {
    if (!isProgress) return true;
    const after = (left.get(run) ?? 0) - 1;
    left.set(run, after);
    return after % Math.ceil((counts.get(run) ?? 0) / most) === 0;
  });
}

export class EventRing {
  readonly #events: KeptEvent[] = [];
  readonly #limits: typeof usualLimits;
  #bytes = 0;
  #last = 0;

  constructor(limits: typeof usualLimits = usualLimits) {
    this.#limits = limits;
  }

  /** The number of the newest event; 0: none so far. */
  get last(): number {
    return this.#last;
  }

  get size(): typeof usualLimits {
    return { events: this.#events.length, bytes: this.#bytes };
  }

  add(event: RunEvent, tenant: string | undefined, atMs: number): void {
    const { run, seq } = event;
    const text = JSON.stringify({ event, atMs });
    const isProgress = event.type === "run.progress";
    this.#events.push({ number: ++this.#last, run, tenant, seq, isProgress, atMs, text });
    this.#bytes += text.length;
    const { events, bytes } = this.#limits;
    while (this.#events.length > events || (this.#bytes > bytes && this.#events.length > 1)) {
      this.#bytes -= this.#events.shift()?.text.length ?? 0;
    }
  }

  /**
   * All events after `number`; undefined: some of them were dropped, or `number` is not of this
   * ring.
   */
  after(number: number): readonly KeptEvent[] | undefined {
    if (number > this.#last) return undefined;
    const first = this.#events[0]?.number ?? this.#last + 1;
    return number + 1 < first ? undefined : this.#events.slice(number + 1 - first);
  }

  /** When the events of a run were received, by their sequence numbers. */
  timesOf(run: string): ReadonlyMap<number, number> {
    const events = this.#events.filter((one) => one.run === run);
    return new Map(events.map(({ seq, atMs }) => [seq, atMs]));
  }
}
