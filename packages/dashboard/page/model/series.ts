// Points of an unbounded curve in bounded memory: when there are too many, every second point is
// dropped, and from then on only every second one is kept. The newest point is always kept.

/** A point: its x, then its values. */
export type Point = readonly number[];

export class Series {
  readonly #max: number;
  readonly #points: Point[] = [];
  #newest: Point | undefined;
  #every = 1;
  #seen = 0;

  /** `max`: most points kept; by default more than a chart has pixels in width. */
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

  /** The points in order of arrival. */
  points(): readonly Point[] {
    const last = this.#points.at(-1);
    if (this.#newest === undefined || last === this.#newest) return this.#points;
    return [...this.#points, this.#newest];
  }
}
