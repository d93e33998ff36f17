// Regression metrics of a numeric label: functions of all predictions and labels, in float64 and in
// index order, like those of metrics.ts for two classes.

/** Regression metrics. A metric is NaN where the samples do not define it. */
export interface NumberMetrics {
  /** Mean of (prediction - label)². NaN without samples. */
  readonly mse: number;
  /** Root of `mse`, in the unit of the label. */
  readonly rmse: number;
  /** Mean of |prediction - label|. */
  readonly mae: number;
  /**
   * 1 - sum of (prediction - label)² / sum of (label - mean label)²: 1 is perfect, and predicting
   * the mean label for every sample scores 0. NaN where all labels are equal.
   */
  readonly r2: number;
  /** Mean prediction over mean label; 1 is calibrated. NaN where the mean label is 0. */
  readonly calibration: number;
}

/** Returns the metrics of `predictions` (N) for `labels` (N). Neither array is changed. */
export function evaluateNumbers(predictions: Float32Array, labels: Float32Array): NumberMetrics {
  const samples = labels.length;
  const meanLabel = meanOf(labels);
  const meanPrediction = meanOf(predictions);
  let [squares, distances, spread] = [0, 0, 0];
  for (let i = 0; i < samples; i++) {
    const label = labels[i] ?? Number.NaN;
    const error = (predictions[i] ?? Number.NaN) - label;
    squares += error * error;
    distances += Math.abs(error);
    spread += (label - meanLabel) ** 2;
  }
  const mse = samples === 0 ? Number.NaN : squares / samples;
  return {
    mse,
    rmse: Math.sqrt(mse),
    mae: samples === 0 ? Number.NaN : distances / samples,
    r2: spread > 0 ? 1 - squares / spread : Number.NaN,
    calibration: meanLabel === 0 ? Number.NaN : meanPrediction / meanLabel,
  };
}

/** The mean; NaN without values. */
function meanOf(values: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] ?? 0;
  return values.length === 0 ? Number.NaN : sum / values.length;
}
