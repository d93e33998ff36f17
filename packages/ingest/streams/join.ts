// A windowed join of two streams that is a function of their contents alone, independent of clocks
// and of the order of arrival. W is the window, L the allowed lateness.
//
//   The time of a stream is the latest time of its messages so far. A message is late if its time
//   is more than L before the stream's time; late messages are dropped.
//   A message of features is repeated if an earlier message of its request has a time >= its own
//   time - W: only the first message of a request counts.
//   Every other message of features makes one row, in the order of the stream. Its label combines,
//   by the rule, the events of its request with  time <= event's time <= time + W.
//   Before a row is made, events are read until their stream's time exceeds the latest time of the
//   features so far + W + L: after that, no event of the row can come any more.
//
// Invariants
//   O1. After a message of features, the join's state is a function of both streams up to their
//       positions, and the events' position is a function of the features' position.
//   O2. A request is held until the features' time exceeds its own + 2 W + L, an event until it
//       exceeds its own + L. So if a request and an event match, the one that is read first is
//       still held when the other one is read.
//   O3. The held state is a function of the messages from `resume()` on and the streams' times
//       there: a join that replays these messages reaches the same state.

import { WindowFullError } from "../../../internal.ts";
import { type HeldEvent, HeldEvents, HeldRequests, type Place } from "./held.ts";
import type { IngestSpec } from "./ingest-options.ts";
import type { Decoded, EventMessage, FeaturesMessage } from "./messages.ts";

export type JoinOptions = Pick<IngestSpec, "windowMs" | "latenessMs" | "rule" | "stateBytes">;

/** A valid message of a stream, and its sequence. */
export type Placed<Message> = Exclude<Decoded<Message>, { readonly kind: "bad" }> & {
  readonly sequence: number;
};

/** A joined row: features, and the combined values of their events. */
export interface JoinedRow extends FeaturesMessage {
  readonly sequence: number;
  /** The label, then the values; undefined: no value. */
  readonly numbers: readonly (number | undefined)[];
}

/** Counts of messages by outcome. */
export interface JoinCounts {
  rows: number;
  /** Rows without an event. */
  negatives: number;
  lateFeatures: number;
  repeatedFeatures: number;
  lateEvents: number;
  /** Events within the window of a request. */
  matchedEvents: number;
  /** Events after the window of their request, up to another W. */
  missedEvents: number;
  /** Events without a request. */
  orphanEvents: number;
}

/** Counts of a join that has taken no messages. */
export const noCounts: JoinCounts = {
  rows: 0,
  negatives: 0,
  lateFeatures: 0,
  repeatedFeatures: 0,
  lateEvents: 0,
  matchedEvents: 0,
  missedEvents: 0,
  orphanEvents: 0,
};

/** Replay positions of both streams. */
export interface JoinPlaces {
  readonly features: Place;
  readonly events: Place;
}

/** Joins two streams. */
export class Join {
  readonly counts: JoinCounts;
  readonly #options: JoinOptions;
  readonly #requests = new HeldRequests();
  readonly #events = new HeldEvents();
  #featuresMs: number | null;
  #eventsMs: number | null;
  /** Latest time of features read so far, including a message that still waits for events. */
  #headMs: number | null;

  constructor(options: JoinOptions, places?: JoinPlaces, counts: JoinCounts = noCounts) {
    this.#options = options;
    this.counts = { ...counts };
    this.#featuresMs = places?.features.timeMs ?? null;
    this.#eventsMs = places?.events.timeMs ?? null;
    this.#headMs = this.#featuresMs;
  }

  get featuresMs(): number | null {
    return this.#featuresMs;
  }

  get eventsMs(): number | null {
    return this.#eventsMs;
  }

  /** Estimated memory of the held requests and events. */
  get bytes(): number {
    return this.#requests.bytes + this.#events.bytes;
  }

  /** Whether events have to be read before this message of features is taken. */
  needsEvents({ sequence: _, ...decoded }: Placed<FeaturesMessage>): boolean {
    const timeMs = decoded.kind === "tick" ? decoded.timeMs : decoded.message.timeMs;
    if (isLate(timeMs, this.#featuresMs, this.#options.latenessMs)) return false;
    this.#headMs = laterOf(this.#featuresMs, timeMs);
    const { windowMs, latenessMs } = this.#options;
    return this.#eventsMs === null || this.#eventsMs <= this.#headMs + windowMs + latenessMs;
  }

  /** Takes the next event. */
  takeEvent(decoded: Placed<EventMessage>): void {
    const before = this.#eventsMs;
    const event = this.#eventOf(decoded, before);
    if (event === undefined) {
      if (decoded.kind === "message") this.counts.lateEvents++;
      return;
    }
    // The event is so old that no future request can match it.
    if (event.timeMs + this.#options.latenessMs < (this.#headMs ?? 0)) this.#count(event);
    else this.#hold(event);
  }

  /** Takes the next features, once they need no more events. Returns their row, if any. */
  takeFeatures(decoded: Placed<FeaturesMessage>): JoinedRow | undefined {
    const { windowMs, latenessMs } = this.#options;
    const before = this.#featuresMs;
    const timeMs = decoded.kind === "tick" ? decoded.timeMs : decoded.message.timeMs;
    if (isLate(timeMs, before, latenessMs)) {
      if (decoded.kind === "message") this.counts.lateFeatures++;
      return undefined;
    }
    let row: JoinedRow | undefined;
    if (decoded.kind === "message") {
      const { sequence, message } = decoded;
      const { id } = message;
      const isRepeated = this.#requests.timesOf(id).some((one) => one >= timeMs - windowMs);
      this.#requests.add({ sequence, id, timeMs, before });
      for (const event of this.#events.of(id)) this.#match(event, timeMs);
      if (isRepeated) this.counts.repeatedFeatures++;
      else row = this.#rowOf(sequence, message);
      this.#checkBytes();
    }
    this.#featuresMs = laterOf(before, timeMs);
    this.#forget();
    return row;
  }

  /** Replays features that were taken before. O3 */
  replayFeatures(decoded: Placed<FeaturesMessage>): void {
    const before = this.#featuresMs;
    const timeMs = decoded.kind === "tick" ? decoded.timeMs : decoded.message.timeMs;
    if (isLate(timeMs, before, this.#options.latenessMs)) return;
    if (decoded.kind === "message") {
      this.#requests.add({ sequence: decoded.sequence, id: decoded.message.id, timeMs, before });
    }
    this.#featuresMs = laterOf(before, timeMs);
    this.#headMs = this.#featuresMs;
  }

  /** Replays an event that was taken before. Call it after all `replayFeatures`. O3 */
  replayEvent(decoded: Placed<EventMessage>): void {
    const event = this.#eventOf(decoded, this.#eventsMs);
    if (event === undefined) return;
    if (event.timeMs + this.#options.latenessMs >= (this.#featuresMs ?? 0)) this.#hold(event);
  }

  /** The replay positions, after the messages up to these sequences were taken. O3 */
  resume(features: number, events: number): JoinPlaces {
    return {
      features: this.#requests.place ?? { sequence: features + 1, timeMs: this.#featuresMs },
      events: this.#events.place ?? { sequence: events + 1, timeMs: this.#eventsMs },
    };
  }

  /** Advances the events' time. Returns the event, matched to held requests, unless it is late. */
  #eventOf(decoded: Placed<EventMessage>, before: number | null): HeldEvent | undefined {
    const timeMs = decoded.kind === "tick" ? decoded.timeMs : decoded.message.timeMs;
    this.#eventsMs = laterOf(before, timeMs);
    if (decoded.kind === "tick" || isLate(timeMs, before, this.#options.latenessMs))
      return undefined;
    const { id, numbers } = decoded.message;
    const held = { before, match: "none", isGone: false } as const;
    const event: HeldEvent = { sequence: decoded.sequence, id, timeMs, numbers, ...held };
    for (const requestMs of this.#requests.timesOf(id)) this.#match(event, requestMs);
    return event;
  }

  #hold(event: HeldEvent): void {
    this.#events.add(event);
    this.#checkBytes();
  }

  #match(event: HeldEvent, requestMs: number): void {
    const { windowMs } = this.#options;
    const afterMs = event.timeMs - requestMs;
    if (afterMs < 0 || afterMs > 2 * windowMs) return;
    if (afterMs <= windowMs) event.match = "matched";
    else if (event.match === "none") event.match = "missed";
  }

  #rowOf(sequence: number, message: FeaturesMessage): JoinedRow {
    const { windowMs, rule } = this.#options;
    const events = this.#events
      .of(message.id)
      .filter(({ timeMs }) => timeMs >= message.timeMs && timeMs <= message.timeMs + windowMs)
      .sort((a, b) => a.timeMs - b.timeMs || a.sequence - b.sequence);
    this.counts.rows++;
    if (events.length === 0) this.counts.negatives++;
    const columns = events[0]?.numbers.length ?? 1;
    const numbers = Array.from({ length: columns }, (_, column) =>
      combined(
        rule,
        events.flatMap(({ numbers: own }) => own[column] ?? []),
      ),
    );
    return { ...message, sequence, numbers: [numbers[0] ?? 0, ...numbers.slice(1)] };
  }

  /** Drops requests and events that cannot match any more. O2 */
  #forget(): void {
    const { windowMs, latenessMs } = this.#options;
    if (this.#featuresMs === null) return;
    this.#requests.forget(this.#featuresMs - 2 * windowMs - latenessMs);
    for (const event of this.#events.retire(this.#featuresMs - latenessMs)) this.#count(event);
  }

  #count({ match }: HeldEvent): void {
    if (match === "matched") this.counts.matchedEvents++;
    else if (match === "missed") this.counts.missedEvents++;
    else this.counts.orphanEvents++;
  }

  /** @throws WindowFullError */
  #checkBytes(): void {
    const { stateBytes } = this.#options;
    if (this.bytes <= stateBytes) return;
    const held = { requests: this.#requests.count, events: this.#events.count };
    throw new WindowFullError(stateBytes, held);
  }
}

function isLate(timeMs: number, streamMs: number | null, latenessMs: number): boolean {
  return streamMs !== null && timeMs < streamMs - latenessMs;
}

function laterOf(streamMs: number | null, timeMs: number): number {
  return streamMs === null ? timeMs : Math.max(streamMs, timeMs);
}

/** Combines numbers, which are ordered by time, by a rule; undefined: there are none. */
function combined(rule: JoinOptions["rule"], numbers: readonly number[]): number | undefined {
  if (numbers.length === 0) return undefined;
  switch (rule) {
    case "max":
      return numbers.reduce((a, b) => Math.max(a, b));
    case "sum":
      return numbers.reduce((a, b) => a + b);
    case "first":
      return numbers[0];
    case "last":
      return numbers.at(-1);
    default:
      return rule satisfies never;
  }
}
