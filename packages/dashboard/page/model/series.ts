// Points of a curve that never ends, in bounded memory: when there are too many, every second one
// is left out, and from then on only every second one is taken. The newest point is always there.

/** A point: its x, then its values. */
export type Point = readonly number[];

export class Series {
  readonly #max: number;
  readonly #points: Point[] = [];
  #newest: Point | undefined;
  #every = 1;
  #seen = 0;

  /** `max`: points kept; more than a chart is wide. */
  constructor(max = 2048) {
    this.#max = max;
  }

  add(point: Point): void {
    this.#newest = point;
    if (this.#seen++ % this.#every !== 0) return;
    this.#points.push(point);
    if (this.#points.length <= this.#max) return;
    for (let at = 0; 2 * at < this.#points.length; at++) {
      const kept = this.#points[2 * at];
      if (kept !== undefined) this.#points[at] = kept;
    }
    this.#points.length = Math.ceil(this.#points.length / 2);
    this.#every *= 2;
  }

  get last(): Point | undefined {
    return this.#newest;
  }

  /** In the order in which they came. */
  points(): readonly Point[] {
    const last = this.#points.at(-1);
    if (this.#newest === undefined || last === this.#newest) return this.#points;
    return [...this.#points, this.#newest];
  }
}
