// The bytes that a bridge has to send: it reads the cells of its host's devices, and passes to the
// links each round that is due, and the written bytes of rounds that are not due yet.

import type { Clock } from "../ports/clock.ts";
import { bytesIn, type Cells } from "./cells.ts";
import type { Link } from "./link.ts";
import type { Departure, PartToSend, RoutedChannel } from "./routes.ts";

/** A departure of this host, and how far the bridge has passed it to the links. */
interface Leaving {
  readonly of: Departure;
  /** The last round that was passed to the links. */
  round: number;
  /**
   * The last value of the cell `of.ahead.count`; and by route, bytes of the next round passed on
   * ahead.
   */
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

  /** Passes due bytes to the links. Returns whether the links got any since the last call. */
  takeNews(): boolean {
    this.collect();
    const isWaiting = this.#isWaiting;
    this.#isWaiting = false;
    return isWaiting;
  }

  /** Passes to the links all bytes that the cells show as due, on all routes. */
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

  /** Passes on the written bytes of the next round before that round is due. */
  #collectAhead(one: Leaving): void {
    const { ahead } = one.of;
    if (ahead === undefined || !this.#isAhead(one)) return;
    const load = (cell: number) => this.#cells.load(cell);
    one.aheadSeen = load(ahead.count);
    const round = load(ahead.round);
    if (round === one.round) return; // The whole round was passed on already.
    for (const part of ahead.parts(load)) {
      this.#addRest(one, part, round, part.ready);
      this.#isWaiting = true;
      one.ahead.set(part.route, part.ready);
    }
  }

  /** Passes on a part up to byte `end`, without the bytes that were passed on before. */
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
