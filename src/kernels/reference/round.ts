// The rounding of the reference arithmetic: each operation, and each fused multiply-add, rounds
// once, as the instructions of the native kernels do.

/** Rounds to the precision of the arithmetic. */
export interface Round {
  (value: number): number;
  /** acc + a * b, rounded once. */
  fused(acc: number, a: number, b: number): number;
}

/** Rounds to float32. The operands of `fused` are float32. */
export const single: Round = Object.assign((value: number) => Math.fround(value), { fused });

/** Rounds nothing. */
export const double: Round = Object.assign((value: number) => value, {
  fused: (acc: number, a: number, b: number) => acc + a * b,
});

/**
 * The product of two float32 is exact in a float64. The sum may be rounded twice, to float64 and to
 * float32. This gives another float32 only where the first rounding ends in the middle of two
 * float32, and the exact sum is not there.
 */
function fused(acc: number, a: number, b: number): number {
  const product = a * b;
  const sum = acc + product;
  const rounded = Math.fround(sum);
  const rest = sum - rounded;
  // From the middle of two float32, the way to one is as long as the way to the other.
  if (rest === 0 || Math.fround(sum + rest) !== sum + rest) return rounded;
  // The exact error of a sum: Knuth, The Art of Computer Programming 2, section 4.2.2, theorem B.
  const added = sum - acc;
  const error = acc - (sum - added) + (product - added);
  if (error === 0) return rounded;
  return Math.fround(sum + Math.sign(error) * Math.abs(sum) * 2 ** -50);
}
