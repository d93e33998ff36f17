// The AUC of generated data's true logits. (The metrics of training are in src/training, a higher
// layer, which this file may not import.)

/** Most samples from which the best AUC is computed. */
export const rankedMax = 2 ** 24;

/**
 * Collects the true logits of the first `most` samples by label, in 8 bytes of memory per sample.
 */
export class RankedLogits {
  /** Logits of positive samples from the left, of negative samples from the right. */
  readonly #logits: Float64Array;
  readonly #most: number;
  #positives = 0;
  #negatives = 0;
  #taken = 0;

  constructor(most: number) {
    this.#most = most;
    this.#logits = new Float64Array(most);
  }

  /** Adds the next sample. A missing label (NaN) belongs to neither class. */
  add(label: number, logit: number): void {
    if (this.#taken++ >= this.#most) return;
    if (label === 1) this.#logits[this.#positives++] = logit;
    else if (label === 0) this.#logits[this.#most - ++this.#negatives] = logit;
  }

  auc(): number {
    const others = this.#logits.subarray(this.#most - this.#negatives);
    return rankAuc(this.#logits.subarray(0, this.#positives), others);
  }
}

/** Probability that a positive outranks a negative, ties half. Sorts both arrays in place. */
export function rankAuc(positives: Float64Array, negatives: Float64Array): number {
  positives.sort();
  negatives.sort();
  let below = 0;
  let belowOrEqual = 0;
  let wins = 0;
  for (const score of positives) {
    while (below < negatives.length && (negatives[below] ?? 0) < score) below++;
    belowOrEqual = Math.max(belowOrEqual, below);
    while (belowOrEqual < negatives.length && (negatives[belowOrEqual] ?? 0) <= score) {
      belowOrEqual++;
    }
    wins += (below + belowOrEqual) / 2;
  }
  return wins / (positives.length * negatives.length);
}
