// Zipf-distributed ranks, exact and without a table: rejection-inversion (Hörmann, Derflinger,
// "Rejection-inversion to generate variates from monotone discrete distributions", TOMACS 1996).

/**
 * Samples ranks 0..count-1 with probabilities proportional to (rank + 1)^-exponent, exponent >= 0.
 */
export class Zipf {
  readonly #count: number;
  readonly #exponent: number;
  readonly #first: number;
  readonly #last: number;
  readonly #shortcut: number;

  constructor(count: number, exponent: number) {
    this.#count = count;
    this.#exponent = exponent;
    this.#first = this.#integral(1.5) - 1;
    this.#last = this.#integral(count + 0.5);
    this.#shortcut = 2 - this.#inverse(this.#integral(2.5) - this.#weight(2));
  }

  /** Draws a rank. Takes as many uniform numbers in [0, 1) as needed: about 1.1 on average. */
  draw(uniform: () => number): number {
    for (;;) {
      const area = this.#last + uniform() * (this.#first - this.#last);
      const x = this.#inverse(area);
      const k = Math.min(Math.max(Math.floor(x + 0.5), 1), this.#count);
      if (k - x <= this.#shortcut) return k - 1;
      if (area >= this.#integral(k + 0.5) - this.#weight(k)) return k - 1;
    }
  }

  #weight(x: number): number {
    return Math.exp(-this.#exponent * Math.log(x));
  }

  /** An antiderivative of the weight: (x^(1-s) - 1) / (1 - s), or log x for s = 1. */
  #integral(x: number): number {
    const log = Math.log(x);
    const power = (1 - this.#exponent) * log;
    return log * (Math.abs(power) > 1e-8 ? Math.expm1(power) / power : 1 + power / 2);
  }

  #inverse(area: number): number {
    const power = Math.max(area * (1 - this.#exponent), -1);
    return Math.exp(area * (Math.abs(power) > 1e-8 ? Math.log1p(power) / power : 1 - power / 2));
  }
}
