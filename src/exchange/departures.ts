// What a bridge has to send: it looks at the cells of its host's devices, and gives the links each
// round that is due, and what is written of rounds that are not.

import type { Clock } from "../ports/clock.ts";
import { bytesIn, type Cells } from "./cells.ts";
import type { Link } from "./link.ts";
import type { Departure, PartToSend, RoutedChannel } from "./routes.ts";

/** What this host sends, and what of it the bridge has sent. */
interface Leaving {
  readonly of: Departure;
  /** The last round. */
  round: number;
  /** The cell `of.ahead.count`, as last seen; and by route, bytes of the round after `round`. */
  aheadSeen: number;
  readonly ahead: Map<number, number>;
}

export class Departures {
  /** Bytes given to the links on each channel, counted once for each receiving host. */
  readonly bytes: Record<RoutedChannel, number>;
  readonly #leaving: readonly Leaving[];
  readonly #links: ReadonlyMap<number, Link>;
  readonly #cells: Pick<Cells, "load">;
  readonly #clock: Pick<Clock, "epochMs">;
  #isWaiting = false;

  constructor(options: {
    readonly departures: readonly Departure[];
    readonly links: ReadonlyMap<number, Link>;
    readonly cells: Pick<Cells, "load">;
    readonly clock: Pick<Clock, "epochMs">;
  }) {
    this.#leaving = options.departures.map((of) => {
      return { of, round: 0, aheadSeen: 0, ahead: new Map<number, number>() };
    });
    this.#links = options.links;
    this.#cells = options.cells;
    this.#clock = options.clock;
    const zeros = options.departures.map(({ channel }) => [channel, 0]);
    this.bytes = Object.fromEntries(zeros);
  }

  /** Whether the links were given something since the last call that returned true. */
  takeNews(): boolean {
    this.collect();
    const isWaiting = this.#isWaiting;
    this.#isWaiting = false;
    return isWaiting;
  }

  /** Gives the links what is due on any route: one look at the cells finds all of it. */
  collect(): void {
    const load = (cell: number) => this.#cells.load(cell);
    for (const one of this.#leaving) {
      this.#collectAhead(one);
      const round = this.#roundOf(one);
      if (round === one.round) continue;
      one.round = round;
      this.#isWaiting = true;
      for (const part of one.of.parts(load)) {
        this.#addRest(one, part, round, part.bytes);
        this.bytes[one.of.channel] += part.bytes * part.to.length;
      }
      one.ahead.clear();
    }
  }

  #isAhead({ of: { ahead }, aheadSeen }: Leaving): boolean {
    return ahead !== undefined && this.#cells.load(ahead.count) !== aheadSeen;
  }

  /** Adds what is written of the next round, before the round is due. */
  #collectAhead(one: Leaving): void {
    const { ahead } = one.of;
    if (ahead === undefined || !this.#isAhead(one)) return;
    const load = (cell: number) => this.#cells.load(cell);
    one.aheadSeen = load(ahead.count);
    const round = load(ahead.round);
    if (round === one.round) return; // It is sent already.
    for (const part of ahead.parts(load)) {
      this.#addRest(one, part, round, part.ready);
      this.#isWaiting = true;
      one.ahead.set(part.route, part.ready);
    }
  }

  /** Adds a part up to its byte `end`, without what left before. */
  #addRest(one: Leaving, part: PartToSend, round: number, end: number): void {
    const { route, to, at, first, bytes: total } = part;
    const left = one.ahead.get(route) ?? 0;
    if (end === left && left > 0) return;
    const dueMs = this.#clock.epochMs();
    const rest = { at: at + left, first: first + left, bytes: end - left, dueMs };
    for (const host of to) this.#links.get(host)?.add({ route, round, total, ...rest });
  }

  /**
   * The round that all cells of a departure have; the last one sent, as long as none is later.
   * Small parts of an all-to-all wait for those of the other devices, to share their frames: a
   * receiver needs the parts of all devices before it goes on.
   */
  #roundOf({ of, round }: { readonly of: Departure; readonly round: number }): number {
    const next = this.#leastOf(of.cells, round);
    const { together } = of;
    if (next === round || together === undefined) return next;
    if (bytesIn(this.#cells.load(together.words)) > together.bytesMax) return next;
    return this.#leastOf(together.cells, round) === round ? round : next;
  }

  /** The least value of some cells, but not less than `round`. */
  #leastOf(some: readonly number[], round: number): number {
    let least = Number.POSITIVE_INFINITY;
    for (const cell of some) {
      least = Math.min(least, this.#cells.load(cell));
      if (least <= round) return round;
    }
    return least;
  }
}
