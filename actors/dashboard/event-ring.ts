// The newest events of all runs, numbered, so that a page that lost its connection gets what it
// missed. Bounded in events and in bytes: the oldest are forgotten first.

import type { RunEvent } from "../run/state/run-events.ts";

/** Some minutes of a busy cluster; a page that was away for longer asks for histories again. */
const usualLimits = { events: 20_000, bytes: 16 * 2 ** 20 };

/** An event as it came: whose it is, when, and how it is written. */
export interface KeptEvent {
  readonly number: number;
  readonly run: string;
  readonly tenant: string | undefined;
  readonly seq: number;
  readonly isProgress: boolean;
  readonly atMs: number;
  /** A ToldEvent in JSON. */
  readonly text: string;
}

/**
 * Of events that are told together, all but progress that nobody could see: of each run as many as
 * `most`, the newest among them.
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
    const isProgress = event.type === "run.progress";
    this.#events.push({ number: ++this.#last, run, tenant, seq, isProgress, atMs, text });
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
