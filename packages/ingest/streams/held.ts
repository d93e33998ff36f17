// The state of a join's window: the requests read so far, and the events that may still match a
// request. Requests and events each know their stream's replay position: the message from which the
// stream must be read again to rebuild this state.

/** A replay position: a message's sequence, and the stream's time before it. */
export interface Place {
  readonly sequence: number;
  /** Null: before the first message. */
  readonly timeMs: number | null;
}

/** Estimated memory of an entry besides its id: map entries, objects and queue slots. */
const requestBytes = 160;
const eventBytes = 240;

interface Request {
  readonly sequence: number;
  readonly id: string;
  readonly timeMs: number;
  readonly before: number | null;
}

/** The requests of the window, in the order of their messages. */
export class HeldRequests {
  readonly #times = new Map<string, number[]>();
  readonly #queue = new Queue<Request>();
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  get count(): number {
    return this.#queue.length;
  }

  /** The times of all messages with this request id. */
  timesOf(id: string): readonly number[] {
    return this.#times.get(id) ?? [];
  }

  add(request: Request): void {
    this.#queue.push(request);
    this.#bytes += bytesOf(requestBytes, request.id);
    const times = this.#times.get(request.id);
    if (times === undefined) this.#times.set(request.id, [request.timeMs]);
    else times.push(request.timeMs);
  }

  /** Removes the oldest messages up to the first one whose time is `timeMs` or later. */
  forget(timeMs: number): void {
    for (;;) {
      const oldest = this.#queue.first;
      if (oldest === undefined || oldest.timeMs >= timeMs) return;
      this.#queue.shift();
      this.#bytes -= bytesOf(requestBytes, oldest.id);
      const times = this.#times.get(oldest.id) ?? [];
      if (times.length <= 1) this.#times.delete(oldest.id);
      else times.splice(times.indexOf(oldest.timeMs), 1);
    }
  }

  /** The replay position of the features' stream; undefined: no request is held. */
  get place(): Place | undefined {
    return placeOf(this.#queue.first);
  }
}

/** An event of the window. */
export interface HeldEvent {
  readonly sequence: number;
  readonly id: string;
  readonly timeMs: number;
  readonly numbers: readonly (number | undefined)[];
  readonly before: number | null;
  /** Whether its request was seen: `matched` within the window, `missed` after it. */
  match: "none" | "missed" | "matched";
  isGone: boolean;
}

/** The events of the window. */
export class HeldEvents {
  readonly #byId = new Map<string, HeldEvent[]>();
  readonly #queue = new Queue<HeldEvent>();
  readonly #earliest = new EarliestFirst();
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  get count(): number {
    return this.#earliest.length;
  }

  of(id: string): readonly HeldEvent[] {
    return this.#byId.get(id) ?? [];
  }

  add(event: HeldEvent): void {
    this.#queue.push(event);
    this.#earliest.push(event);
    this.#bytes += bytesOf(eventBytes, event.id) + 8 * event.numbers.length;
    const events = this.#byId.get(event.id);
    if (events === undefined) this.#byId.set(event.id, [event]);
    else events.push(event);
  }

  /** Removes and yields the events whose times are before `timeMs`. */
  *retire(timeMs: number): Generator<HeldEvent> {
    for (;;) {
      const event = this.#earliest.first;
      if (event === undefined || event.timeMs >= timeMs) break;
      this.#earliest.shift();
      event.isGone = true;
      this.#bytes -= bytesOf(eventBytes, event.id) + 8 * event.numbers.length;
      const events = this.#byId.get(event.id) ?? [];
      if (events.length <= 1) this.#byId.delete(event.id);
      else events.splice(events.indexOf(event), 1);
      yield event;
    }
    while (this.#queue.first?.isGone === true) this.#queue.shift();
  }

  /** The replay position of the events' stream; undefined: no event is held. */
  get place(): Place | undefined {
    return placeOf(this.#queue.first);
  }
}

function bytesOf(fixed: number, id: string): number {
  return fixed + 2 * id.length;
}

function placeOf(
  first: { readonly sequence: number; readonly before: number | null } | undefined,
): Place | undefined {
  return first === undefined ? undefined : { sequence: first.sequence, timeMs: first.before };
}

/** First in, first out. */
class Queue<Entry> {
  #entries: Entry[] = [];
  #taken = 0;

  get length(): number {
    return this.#entries.length - this.#taken;
  }

  get first(): Entry | undefined {
    return this.#entries[this.#taken];
  }

  push(entry: Entry): void {
    this.#entries.push(entry);
  }

  shift(): void {
    this.#taken++;
    if (this.#taken < 1024 || 2 * this.#taken < this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#taken);
    this.#taken = 0;
  }
}

/** A binary heap: the event with the earliest time, of equal ones the earlier message. */
class EarliestFirst {
  readonly #heap: HeldEvent[] = [];

  get length(): number {
    return this.#heap.length;
  }

  get first(): HeldEvent | undefined {
    return this.#heap[0];
  }

  push(event: HeldEvent): void {
    let at = this.#heap.push(event) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!this.#swapIfLater(above, at)) return;
      at = above;
    }
  }

  shift(): void {
    const last = this.#heap.pop();
    if (last === undefined || this.#heap.length === 0) return;
    this.#heap[0] = last;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      const least = this.#isLater(left, left + 1) ? left + 1 : left;
      if (!this.#swapIfLater(at, least)) return;
      at = least;
    }
  }

  #isLater(one: number, other: number): boolean {
    const [a, b] = [this.#heap[one], this.#heap[other]];
    if (a === undefined || b === undefined) return false;
    return a.timeMs > b.timeMs || (a.timeMs === b.timeMs && a.sequence > b.sequence);
  }

  #swapIfLater(above: number, below: number): boolean {
    const [a, b] = [this.#heap[above], this.#heap[below]];
    if (a === undefined || b === undefined || !this.#isLater(above, below)) return false;
    this.#heap[above] = b;
    this.#heap[below] = a;
    return true;
  }
}
