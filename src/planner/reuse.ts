// A table as input of learned costs: its size, and how often and how evenly it is looked up. Its
// columns may be halved while each half is a multiple of four (NeuroShard: Zha et al., MLSys 2023).
// For tables without counted ids, the reuse of rows follows Zipf's law.

/**
 * Bins of how often a window of samples looks up a distinct row: once, twice, 3 to 4 …
 * above 32,768.
 */
export const reuseBins = 17;

/** The columns of a halved table are a multiple of this number, and at least this number. */
export const columnsUnit = 4;

/** A table, or the columns of one that are placed separately. */
export interface CostTable {
  readonly rows: number;
  /** Columns. */
  readonly dim: number;
  /** Mean ids of a sample. */
  readonly poolingFactor: number;
  /** Share of a window's distinct rows in each of the `reuseBins`. */
  readonly bins: readonly number[];
}

/** Bytes of its weights in float32. */
export function weightBytesOf({ rows, dim }: Pick<CostTable, "rows" | "dim">): number {
  return rows * dim * 4;
}

/** Whether its columns can be halved. */
export function isHalvable({ dim }: Pick<CostTable, "dim">): boolean {
  return dim % (2 * columnsUnit) === 0;
}

/** Samples of a window; independent of the batch size. */
export const windowSamples = 65_536;

/** Rows summed one by one, and points of the sum over the others, equally spaced in log(row). */
const firstRows = 64;
const points = 160;
/** Above this mean the Poisson distribution is approximated by a normal one. */
const poissonMeanMax = 40;

/**
 * Shares of the distinct rows of a window, by how often the window looks up each row; all 0 without
 * ids.
 */
export function reuseOf(table: {
  readonly rows: number;
  readonly poolingFactor: number;
  readonly zipf: number;
}): number[] {
  const { rows, zipf } = table;
  const draws = table.poolingFactor * windowSamples;
  const places = placesOf(rows);
  const all = places.reduce((sum, { row, count }) => sum + count * row ** -zipf, 0);
  const bins = new Array<number>(reuseBins).fill(0);
  for (const { row, count } of places) {
    const mean = (draws * row ** -zipf) / all;
    let below = shareUpTo(0, mean);
    for (const bin of bins.keys()) {
      const upTo = bin === reuseBins - 1 ? 1 : shareUpTo(2 ** bin, mean);
      bins[bin] = (bins[bin] ?? 0) + count * Math.max(0, upTo - below);
      below = upTo;
    }
  }
  return sharesOf(bins);
}

/** Divides the values by their sum; zeros if the sum is 0. */
export function sharesOf(values: readonly number[]): number[] {
  const all = values.reduce((sum, value) => sum + value, 0);
  return values.map((value) => (all === 0 ? 0 : value / all));
}

/** Ranks of rows by popularity, from 1; `count`: the number of rows that a rank stands for. */
function placesOf(rows: number): { row: number; count: number }[] {
  const few = Math.min(rows, firstRows);
  const places = Array.from({ length: few }, (_, i) => ({ row: i + 1, count: 1 }));
  if (rows <= firstRows) return places;
  const start = Math.log(firstRows + 0.5);
  const step = (Math.log(rows + 0.5) - start) / points;
  for (let i = 0; i < points; i++) {
    const [from, to] = [Math.exp(start + i * step), Math.exp(start + (i + 1) * step)];
    places.push({ row: Math.exp(start + (i + 0.5) * step), count: to - from });
  }
  return places;
}

/** The probability of at most `most` events of a Poisson distribution with this mean. */
function shareUpTo(most: number, mean: number): number {
  if (mean > poissonMeanMax) {
    // Logistic approximation of the normal law, to 0.02.
    const z = (most + 0.5 - mean) / Math.sqrt(mean);
    return 1 / (1 + Math.exp(-1.702 * z));
  }
  let term = Math.exp(-mean);
  let sum = term;
  // Beyond ten times the largest mean the probabilities are negligible.
  const last = Math.min(most, 10 * poissonMeanMax);
  for (let k = 1; k <= last; k++) {
    term *= mean / k;
    sum += term;
  }
  return Math.min(1, sum);
}
