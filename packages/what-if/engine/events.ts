// Virtual time: tasks run in the order of their times; those of one time in the order in which they
// were added.

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
  /** A binary heap. */
  readonly #heap: Event[] = [];

  /** Runs `run(of)` at a time. Events are many: functions that take `of` spare a closure each. */
  at<T>(time: number, run: (of: T) => void, of: T): void {
    const heap = this.#heap;
    const event = { time, order: this.#added++, run: run as (of: unknown) => void, of };
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

  /** Runs events until none is left, or `isOver`. */
  run(isOver: () => boolean): void {
    for (let event = this.#take(); event !== undefined; event = this.#take()) {
      this.now = event.time;
      this.handled++;
      event.run(event.of);
      if (isOver()) return;
    }
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
