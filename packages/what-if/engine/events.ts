// Virtual time: events run in the order of their times; events of the same time run in the order in
// which they were added.

interface Event {
  readonly time: number;
  readonly order: number;
  readonly run: (of: unknown) => void;
  readonly of: unknown;
}

export class EventQueue {
  now = 0;
  /** Events that have run so far. */
  handled = 0;
  #added = 0;
  /** A binary heap of the events that were added before their time. */
  readonly #heap: Event[] = [];
  /** Events added for the current time; they run after the heap's events of that time. */
  #sudden: Event[] = [];
  #suddenRun = 0;

  /** Runs `run(of)` at a time. The argument `of` spares a closure for each of the many events. */
  at<T>(time: number, run: (of: T) => void, of: T): void {
    const event = { time, order: this.#added++, run: run as (of: unknown) => void, of };
    if (time === this.now) this.#sudden.push(event);
    else this.#add(event);
  }

  /** Runs events until none is left, or `isOver`. */
  run(isOver: () => boolean): void {
    for (let event = this.#next(); event !== undefined; event = this.#next()) {
      this.now = event.time;
      this.handled++;
      event.run(event.of);
      if (isOver()) return;
    }
  }

  #next(): Event | undefined {
    const event = this.#sudden[this.#suddenRun];
    if (event === undefined || this.#heap[0]?.time === this.now) return this.#take();
    this.#suddenRun++;
    if (this.#suddenRun === this.#sudden.length) [this.#sudden, this.#suddenRun] = [[], 0];
    return event;
  }

  #add(event: Event): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || !isBefore(event, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = event;
  }

  #take(): Event | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || first === last) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      let below = heap[child];
      if (below === undefined) break;
      const other = heap[child + 1];
      if (other !== undefined && isBefore(other, below)) [child, below] = [child + 1, other];
      if (!isBefore(below, last)) break;
      heap[at] = below;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.time < b.time || (a.time === b.time && a.order < b.order);
}
