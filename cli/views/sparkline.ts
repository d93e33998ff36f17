// A curve in one line of a terminal.

const heights = "▁▂▃▄▅▆▇█";

/**
 * The last `width` columns of a curve, each the mean of as many values: the lowest is the lowest
 * block, the highest the highest. Values that are no numbers are left out.
 */
export function sparkline(values: readonly number[], width: number): string {
  const known = values.filter(Number.isFinite);
  if (known.length < 2) return "";
  const columns = Math.min(width, known.length);
  const means = Array.from({ length: columns }, (_, at) => {
    const from = Math.floor((at * known.length) / columns);
    const own = known.slice(from, Math.floor(((at + 1) * known.length) / columns));
    return own.reduce((sum, value) => sum + value, 0) / own.length;
  });
  const [least, most] = [Math.min(...means), Math.max(...means)];
  return means
    .map((value) => {
      const share = most > least ? (value - least) / (most - least) : 0;
      return heights[Math.min(heights.length - 1, Math.floor(share * heights.length))];
    })
    .join("");
}
