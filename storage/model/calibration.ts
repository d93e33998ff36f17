// Platt scaling, which makes predicted probabilities right on average. The logit z of a model
// becomes scale * z + offset, fitted by the logistic loss of held-out samples (Platt, Probabilistic
// Outputs for Support Vector Machines, 1999, with his targets; the Newton steps with a line search
// of Lin, Lin and Weng, A Note on Platt's Probabilistic Outputs, 2007). For scale > 0 the ranking
// and so the AUC do not change. Sums are float64, in the order of the samples, so the same samples
// give the same result.

import { InvalidOptionError } from "../../src/errors/errors.ts";
import type { Calibration, StoredCalibration } from "../checkpoints/store/stored-calibration.ts";

export type { Calibration, StoredCalibration };

const iterationsMax = 100;
/** Norm of the gradient, per sample, at which the fit ends. */
const gradientMin = 1e-10;
const ridge = 1e-12;

/**
 * Fits logits (n) to labels (n) of 0 and 1. @throws InvalidOptionError where only one class occurs
 */
export function fitCalibration(logits: ArrayLike<number>, labels: ArrayLike<number>): Calibration {
  const { length: samples } = logits;
  let positives = 0;
  for (let i = 0; i < samples; i++) if ((labels[i] ?? 0) > 0) positives++;
  if (positives === 0 || positives === samples) {
    const message = `Expected samples of both classes to calibrate with, got ${positives} positives`;
    throw new InvalidOptionError("calibrate", `${message} of ${samples}`);
  }
  const [high, low] = [(positives + 1) / (positives + 2), 1 / (samples - positives + 2)];
  const target = (i: number) => ((labels[i] ?? 0) > 0 ? high : low);
  const lossAt = (a: number, b: number) => {
    let loss = 0;
    for (let i = 0; i < samples; i++) {
      const z = a * (logits[i] ?? 0) + b;
      // log(1 + exp(z)) - t z, computed without overflow.
      loss += Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z))) - target(i) * z;
    }
    return loss;
  };
  let [scale, offset] = [1, 0];
  let loss = lossAt(scale, offset);
  for (let iteration = 0; iteration < iterationsMax; iteration++) {
    let [haa, hab, hbb, ga, gb] = [ridge, 0, ridge, 0, 0];
    for (let i = 0; i < samples; i++) {
      const x = logits[i] ?? 0;
      const p = 1 / (1 + Math.exp(-(scale * x + offset)));
      const [slope, curve] = [p - target(i), p * (1 - p)];
      ga += slope * x;
      gb += slope;
      haa += curve * x * x;
      hab += curve * x;
      hbb += curve;
    }
    if (Math.hypot(ga, gb) <= gradientMin * samples) break;
    const determinant = haa * hbb - hab * hab;
    const da = -(hbb * ga - hab * gb) / determinant;
    const db = -(haa * gb - hab * ga) / determinant;
    let step = 1;
    let next = lossAt(scale + da, offset + db);
    while (next > loss + 1e-4 * step * (ga * da + gb * db) && step > 1e-10) {
      step /= 2;
      next = lossAt(scale + step * da, offset + step * db);
    }
    if (!(next < loss)) break;
    scale += step * da;
    offset += step * db;
    loss = next;
  }
  const calibratedLogLoss = logLossOf(logits, labels, { scale, offset });
  const logLoss = logLossOf(logits, labels, { scale: 1, offset: 0 });
  return { scale, offset, samples, positives, logLoss, calibratedLogLoss };
}

/** The calibrated probability of a logit. */
export function calibrated(
  logit: number,
  { scale, offset }: Pick<Calibration, "scale" | "offset">,
): number {
  return 1 / (1 + Math.exp(-(scale * logit + offset)));
}

/** Mean logistic loss of labels of 0 and 1. */
function logLossOf(
  logits: ArrayLike<number>,
  labels: ArrayLike<number>,
  { scale, offset }: Pick<Calibration, "scale" | "offset">,
): number {
  let loss = 0;
  for (let i = 0; i < logits.length; i++) {
    const z = scale * (logits[i] ?? 0) + offset;
    loss += Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z))) - ((labels[i] ?? 0) > 0 ? z : 0);
  }
  return loss / logits.length;
}
