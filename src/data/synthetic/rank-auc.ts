// The AUC of generated data's true logits. (src/training, above this room, has the metrics of
// training.)

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
