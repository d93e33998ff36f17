// In-memory streams for tests, and the rows of their messages by the law in docs/data.md.

import type {
  ReadOptions,
  StoredMessage,
  StreamFacts,
  StreamSource,
} from "../../../../src/wire/jetstream/stream-reader.ts";

/** The messages of a stream in order; undefined: a deleted message. */
export type Messages = readonly (object | string | Uint8Array | undefined)[];

export interface MemoryOptions {
  /** The number of messages that each stream has so far. @default all */
  readonly shown?: { readonly features: number; readonly events: number };
  /** Event-loop turns before a message arrives. @default at once */
  readonly pauses?: () => number;
  /** The number of messages that a stream redelivers after a message. @default 0 */
  readonly back?: () => number;
  /** The streams fail after so many messages were read, like the death of the process. */
  readonly diesAfter?: number;
  /** Called before each message. */
  readonly onRead?: (read: number) => void;
}

/** A source with the streams `features` and `events`. */
export class MemoryStreams implements StreamSource {
  readonly #messages: Readonly<Record<string, Messages>>;
  readonly #options: MemoryOptions;
  read_ = 0;

  constructor(features: Messages, events: Messages, options: MemoryOptions = {}) {
    this.#messages = { features, events };
    this.#options = options;
  }

  async facts(stream: string): Promise<StreamFacts> {
    return { created: "2024-01-01T00:00:00Z", first: 1, last: this.#last(stream) };
  }

  async *read(stream: string, options: ReadOptions): AsyncGenerator<StoredMessage, void> {
    const { pauses = () => 0, back = () => 0, diesAfter, onRead } = this.#options;
    const last = options.until ?? this.#last(stream);
    for (let sequence = options.from; sequence <= last; sequence++) {
      for (let pause = pauses(); pause > 0; pause--) await Promise.resolve();
      if (options.signal.aborted) return;
      const message = this.#messages[stream]?.[sequence - 1];
      if (message === undefined) continue;
      if (this.read_ === diesAfter) throw new Error("the process died");
      onRead?.(++this.read_);
      if (options.signal.aborted) return;
      yield { sequence, storedMs: Date.UTC(2025, 0, 1), data: bytesOf(message) };
      sequence = Math.max(options.from - 1, sequence - back());
    }
  }

  async close(): Promise<void> {}

  #last(stream: string): number {
    const { shown } = this.#options;
    const length = this.#messages[stream]?.length ?? 0;
    return Math.min(
      length,
      stream === "features" ? (shown?.features ?? length) : (shown?.events ?? length),
    );
  }
}

function bytesOf(message: object | string | Uint8Array): Uint8Array {
  if (message instanceof Uint8Array) return message;
  return Buffer.from(typeof message === "string" ? message : JSON.stringify(message));
}

/** A message of a drawn stream; without `request` it is a tick. */
export interface Drawn {
  readonly request?: string;
  readonly time: number;
  readonly label?: number;
  readonly price?: number;
}

export interface Law {
  readonly windowMs: number;
  readonly latenessMs: number;
}

/** The rows of drawn streams by the documented law: sequence, and label by the rule `max`. */
export function rowsByLaw(
  features: readonly Drawn[],
  events: readonly Drawn[],
  { windowMs, latenessMs }: Law,
): [sequence: number, label: number][] {
  const good = inTime(features, latenessMs);
  const clicks = inTime(events, latenessMs);
  const first = good.filter(({ request, time }, i) => {
    return !good.slice(0, i).some((one) => one.request === request && one.time >= time - windowMs);
  });
  // Finds the requests whose window is closed: the events have a time beyond any that could still
  // belong to it.
  const eventsMs = Math.max(-1, ...events.map(({ time }) => time));
  let latest = -1;
  let blocked = false;
  const closed = new Set<number>();
  for (const [i, one] of features.entries()) {
    const isLate = one.time < latest - latenessMs;
    if (!isLate) latest = Math.max(latest, one.time);
    blocked ||= !isLate && eventsMs <= latest + windowMs + latenessMs;
    if (!blocked) closed.add(i + 1);
  }
  return first
    .filter(({ sequence }) => closed.has(sequence))
    .map(({ request, time, sequence }) => {
      const own = clicks.filter((one) => {
        return one.request === request && one.time >= time && one.time <= time + windowMs;
      });
      return [sequence, Math.max(0, ...own.map(({ label = 0 }) => label))];
    });
}

/** Counts of events by the law, once both streams are far beyond all of their times. */
export function eventsByLaw(
  features: readonly Drawn[],
  events: readonly Drawn[],
  { windowMs, latenessMs }: Law,
): Record<"lateEvents" | "matchedEvents" | "missedEvents" | "orphanEvents", number> {
  const good = inTime(features, latenessMs);
  const clicks = inTime(events, latenessMs);
  const counts = { lateEvents: 0, matchedEvents: 0, missedEvents: 0, orphanEvents: 0 };
  const all = events.filter(({ request }) => request !== undefined).length;
  counts.lateEvents = all - clicks.length;
  for (const { request, time } of clicks) {
    const own = good.filter((one) => one.request === request).map((one) => time - one.time);
    if (own.some((after) => after >= 0 && after <= windowMs)) counts.matchedEvents++;
    else if (own.some((after) => after >= 0 && after <= 2 * windowMs)) counts.missedEvents++;
    else counts.orphanEvents++;
  }
  return counts;
}

/** The messages with a request that are not late. */
function inTime(stream: readonly Drawn[], latenessMs: number): (Drawn & { sequence: number })[] {
  return stream.flatMap((one, i) => {
    const before = stream.slice(0, i).map(({ time }) => time);
    const isLate = before.some((time) => time - latenessMs > one.time);
    return isLate || one.request === undefined ? [] : [{ ...one, sequence: i + 1 }];
  });
}
