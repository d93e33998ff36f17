// A tournament: the least of many loads, found again in O(log n) after one has changed. A partition
// over thousands of devices asks for it once per part.

/** The loads of indices 0..n-1, which `set` changes. */
export interface Tournament {
  set(index: number, load: number): void;
  /** The index with the least load that is allowed; the lower of equal ones; -1: none is. */
  find(isAllowed: (index: number) => boolean): number;
}

export function createTournament(loads: Float64Array): Tournament {
  const leaves = 2 ** Math.ceil(Math.log2(Math.max(1, loads.length)));
  // Node i has the nodes 2i and 2i+1 below it; the leaves come last.
  const least = new Float64Array(2 * leaves).fill(Number.POSITIVE_INFINITY);
  least.set(loads, leaves);
  const leastOf = (node: number) => least[node] ?? Number.POSITIVE_INFINITY;
  for (let node = leaves - 1; node > 0; node--) {
    least[node] = Math.min(leastOf(2 * node), leastOf(2 * node + 1));
  }

  return {
    set(index, load) {
      least[leaves + index] = load;
      for (let node = (leaves + index) >> 1; node > 0; node >>= 1) {
        least[node] = Math.min(leastOf(2 * node), leastOf(2 * node + 1));
      }
    },

    find(isAllowed) {
      let best = -1;
      let bestLoad = Number.POSITIVE_INFINITY;
      const visit = (node: number, first: number, count: number): void => {
        const own = leastOf(node);
        if (own > bestLoad || own === Number.POSITIVE_INFINITY) return;
        if (own === bestLoad && first > best) return;
        if (count === 1) {
          if (isAllowed(first)) [best, bestLoad] = [first, own];
          return;
        }
        const half = count / 2;
        const isRightLess = leastOf(2 * node + 1) < leastOf(2 * node);
        if (isRightLess) visit(2 * node + 1, first + half, half);
        visit(2 * node, first, half);
        if (!isRightLess) visit(2 * node + 1, first + half, half);
      };
      visit(1, 0, leaves);
      return best;
    },
  };
}
