// Binary search in ascending values.

/** The index of the first value that is `least` or more; the length, if there is none. */
export function lowerBound(ascending: ArrayLike<number>, least: number): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ascending[middle] ?? 0) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
