// Least squares for y = -a + b * x^c, the law that Wukong's authors fit to log loss over compute
// (arXiv 2403.02545, section 7).

export interface PowerLaw {
  readonly a: number;
  readonly b: number;
  readonly c: number;
  /** y of each point minus that of the law. */
  readonly residuals: readonly number[];
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** Exponents of the search grid, without 0, for which the law is constant. */
const exponents = Array.from({ length: 3000 }, (_, i) => -3 + 0.001 * i);

/**
 * Fits the law to three or more points: a grid search over the exponent, with least squares for a
 * and b.
 */
export function fitPowerLaw(points: readonly Point[]): PowerLaw {
  const laws = exponents.map((c) => lineOver(points, c));
  return laws.reduce((best, law) => (squaresOf(law) < squaresOf(best) ? law : best));
}

export function lawAt({ a, b, c }: PowerLaw, x: number): number {
  return -a + b * x ** c;
}

function lineOver(points: readonly Point[], c: number): PowerLaw {
  const n = points.length;
  const us = points.map(({ x }) => x ** c);
  const uMean = us.reduce((sum, u) => sum + u, 0) / n;
  const yMean = points.reduce((sum, { y }) => sum + y, 0) / n;
  const uy = points.reduce((sum, { y }, i) => sum + ((us[i] ?? 0) - uMean) * (y - yMean), 0);
  const b = uy / us.reduce((sum, u) => sum + (u - uMean) ** 2, 0);
  const law = { a: b * uMean - yMean, b, c };
  return { ...law, residuals: points.map(({ x, y }) => y - (-law.a + b * x ** c)) };
}

function squaresOf({ residuals }: PowerLaw): number {
  return residuals.reduce((sum, one) => sum + one * one, 0);
}
