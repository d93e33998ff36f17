// The baseline of a first model: logistic regression in float64 with one weight per value of a
// column and an L2 penalty, trained by Adagrad. It shares only the rows of a log with the product.

import type { Log, LogRow } from "./logs.ts";

/** The AUC on the log's test rows of a regression fitted to nine tenths of its train rows. */
export function regressionAuc({ label, positive, features, train, test }: Log): number {
  const isPositive = (row: LogRow) => String(row[label]) === positive;
  const numbers = features.filter((name) => {
    const values = train.rows.map((row) => row[name]).filter((value) => value !== undefined);
    return values.every((value) => typeof value === "number") && new Set(values).size > 250;
  });
  const scales = new Map(numbers.map((name) => [name, scaleOf(train.rows, name)]));
  const places = new Map<string, number>();
  const encode = (row: LogRow, mayAdd: boolean): [number, number][] =>
    features.flatMap((name): [number, number][] => {
      const scale = scales.get(name);
      const value = row[name];
      const key = scale === undefined || value === undefined ? `${name}=${value}` : name;
      if (mayAdd && !places.has(key)) places.set(key, places.size + 1);
      const place = places.get(key);
      const x = scale === undefined || value === undefined ? 1 : scale(Number(value));
      return place === undefined ? [] : [[place, x]];
    });
  const rows = train.rows.slice(0, Math.ceil(0.9 * train.rows.length)); // The rest is held out.
  const seen = rows.map((row) => ({ x: encode(row, true), y: isPositive(row) ? 1 : 0 }));
  const held = test.rows.map((row) => ({ x: encode(row, false), y: isPositive(row) ? 1 : 0 }));
  const weights = fitted(seen, places.size + 1);
  return aucOf(held.map(({ x, y }) => [logit(weights, x), y]));
}

/** log(1 + x) of a column, standardised. */
function scaleOf(rows: readonly LogRow[], name: string): (value: number) => number {
  const logs = rows.flatMap((row) =>
    row[name] === undefined ? [] : [Math.log1p(Number(row[name]))],
  );
  const mean = logs.reduce((sum, one) => sum + one, 0) / logs.length;
  const deviation = Math.sqrt(logs.reduce((sum, one) => sum + (one - mean) ** 2, 0) / logs.length);
  return (value) => (Math.log1p(value) - mean) / deviation;
}

interface Example {
  readonly x: readonly (readonly [place: number, value: number])[];
  readonly y: number;
}

function logit(weights: Float64Array, x: Example["x"]): number {
  return x.reduce((sum, [place, value]) => sum + (weights[place] ?? 0) * value, weights[0] ?? 0);
}

/** Minimises the sum of the losses plus half the squared weights: scikit-learn's `C=1`. */
function fitted(examples: readonly Example[], size: number): Float64Array {
  const weights = new Float64Array(size);
  const squares = new Float64Array(size).fill(1e-8);
  const gradient = new Float64Array(size);
  for (let pass = 0; pass < 100; pass++) {
    for (let i = 1; i < size; i++) gradient[i] = weights[i] ?? 0;
    gradient[0] = 0;
    for (const { x, y } of examples) {
      const error = 1 / (1 + Math.exp(-logit(weights, x))) - y;
      gradient[0] = (gradient[0] ?? 0) + error;
      for (const [place, value] of x) gradient[place] = (gradient[place] ?? 0) + error * value;
    }
    for (let i = 0; i < size; i++) {
      const own = gradient[i] ?? 0;
      squares[i] = 0.95 * (squares[i] ?? 0) + 0.05 * own * own;
      weights[i] = (weights[i] ?? 0) - ((0.1 / (1 + pass / 20)) * own) / Math.sqrt(squares[i] ?? 1);
    }
  }
  return weights;
}

/** The share of pairs in which the positive sample scores higher; a tie counts half. */
export function aucOf(scored: readonly (readonly [score: number, label: number])[]): number {
  const sorted = [...scored].sort(([a], [b]) => a - b);
  let [ranks, positives] = [0, 0];
  for (let from = 0; from < sorted.length; ) {
    let end = from;
    while (end < sorted.length && sorted[end]?.[0] === sorted[from]?.[0]) end++;
    for (let i = from; i < end; i++) {
      if (sorted[i]?.[1] !== 1) continue;
      ranks += (from + 1 + end) / 2;
      positives++;
    }
    from = end;
  }
  const negatives = sorted.length - positives;
  return (ranks - (positives * (positives + 1)) / 2) / (positives * negatives);
}
