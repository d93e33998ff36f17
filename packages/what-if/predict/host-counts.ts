// Parses numbers of hosts: `16`, `1,2,4`, or a continued sequence: `1,2,4...16`, `2...5`.

/** Most numbers of a list. */
const countsMax = 64;

/** The numbers, ascending; undefined if the text has none of these forms. */
export function hostCountsFrom(text: string): number[] | undefined {
  const [, written = "", end] =
    /^([\d,\s]+?)(?:\s*,?\s*(?:\.\.\.|…)\s*,?\s*(\d+))?$/.exec(text) ?? [];
  const counts = written.split(",").map(Number);
  const [before, last] = [counts.at(-2), counts.at(-1)];
  if (last === undefined || !counts.every((count) => Number.isSafeInteger(count) && count > 0)) {
    return undefined;
  }
  if (end !== undefined) {
    const next = followerOf(before, last);
    if (next === undefined) return undefined;
    for (let count = next(last); count <= Number(end); count = next(count)) {
      if (counts.push(count) > countsMax) return undefined;
    }
    if (counts.at(-1) !== Number(end)) return undefined;
  }
  const sorted = [...new Set(counts)].sort((a, b) => a - b);
  return sorted.length <= countsMax ? sorted : undefined;
}

/** The rule of a sequence: doubles, if the last number does; else adds the difference, or 1. */
function followerOf(before: number | undefined, last: number) {
  if (before === undefined) return (count: number) => count + 1;
  if (before >= last) return undefined;
  return (count: number) => (last === 2 * before ? 2 * count : count + last - before);
}
