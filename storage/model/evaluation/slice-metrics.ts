// Metrics of a trained model on slices of its data: the samples of each value of a column.

import type { SliceValues } from "../../../src/data/cache/slice-values.ts";
import { scoredLabelsOf } from "../../../src/data/targets.ts";
import type { EvaluationData } from "../../../src/job/evaluation-options.ts";
import { expected } from "../../../src/ports/check-options.ts";
import { evaluateScores, type Metrics, type Scores } from "../../../src/training/loop/metrics.ts";
import type { EvaluateOptions, Model } from "../model.ts";
import { withEvaluation } from "./open-evaluation.ts";
import { scoreSamples } from "./score-samples.ts";

/** Options of `sliceMetrics`, beside those of `Model.evaluate`. */
export interface SliceOptions extends EvaluateOptions {
  /** Files to evaluate on, as for `Model.evaluate`. @default what the job holds out */
  readonly data?: EvaluationData | undefined;
  /** Most slices; the largest are reported, from 1 to 10,000. @default 20 */
  readonly slicesMax?: number | undefined;
}

/** The samples of one value of a column. */
export interface Slice {
  /** The value as its text in the files; null: a missing value. */
  readonly value: string | null;
  readonly metrics: Metrics;
}

export interface ColumnSlices {
  readonly column: string;
  /** Largest slice first; ties in the order of their first occurrence in the data. */
  readonly slices: readonly Slice[];
  /** The samples of all other values together; left out if there are none. */
  readonly others?: {
    /** Number of other values; a lower bound if `isMore`. */
    readonly values: number;
    /** Whether some values were not counted, as the column has more than 131,072. */
    readonly isMore: boolean;
    readonly metrics: Metrics;
  };
}

/**
 * The metrics of a model for each value of each of `columns`, which may be any columns of the
 * data's files; the model need not read them. A slice's metrics are those of an evaluation of its
 * samples alone: its normalized entropy is relative to the slice's own share of positives.
 * @throws as `Model.evaluate`; InvalidOptionError where the files have no such column
 */
export async function sliceMetrics(
  model: Model,
  columns: readonly string[],
  options: SliceOptions = {},
): Promise<ColumnSlices[]> {
  const { data, slicesMax = 20, thresholds = model.job.evaluation?.thresholds } = options;
  if (!(Number.isInteger(slicesMax) && slicesMax >= 1 && slicesMax <= 10_000)) {
    throw expected("slicesMax", "an integer from 1 to 10000", slicesMax);
  }
  if (!Array.isArray(columns) || columns.length === 0 || !columns.every(isName)) {
    throw expected("by", "names of columns", columns);
  }
  return await withEvaluation(model, data, options, async ({ dataset, valuesOf }) => {
    const scores = await scoreSamples(model, dataset);
    const labels = scoredLabelsOf(model.job.data);
    const metricsOf = (samples: Uint32Array) => {
      return evaluateScores(scoresOf(scores, samples, labels.length), labels, thresholds);
    };
    const found: ColumnSlices[] = [];
    for (const column of columns)
      found.push(slicesOf(await valuesOf(column), slicesMax, metricsOf));
    return found;
  });
}

function isName(column: unknown): boolean {
  return typeof column === "string" && column !== "";
}

function slicesOf(
  { column, places, texts }: SliceValues,
  slicesMax: number,
  metricsOf: (samples: Uint32Array) => Metrics,
): ColumnSlices {
  const counts = new Uint32Array(texts.length + 1);
  for (const place of places) counts[place] = (counts[place] ?? 0) + 1;
  const named = [...texts.keys()].filter((place) => (counts[place] ?? 0) > 0);
  named.sort((a, b) => (counts[b] ?? 0) - (counts[a] ?? 0) || a - b);
  const chosen = named.slice(0, slicesMax);
  const slices = chosen.map((place): Slice => {
    const own = chosenOf(places, (one) => one === place, counts[place] ?? 0);
    return { value: texts[place] ?? null, metrics: metricsOf(own) };
  });
  const isMore = (counts[texts.length] ?? 0) > 0;
  if (chosen.length === named.length && !isMore) return { column, slices };
  const known = new Set(chosen);
  const rest = chosen.reduce((left, place) => left - (counts[place] ?? 0), places.length);
  const samples = chosenOf(places, (one) => !known.has(one), rest);
  const values = named.length - chosen.length;
  return { column, slices, others: { values, isMore, metrics: metricsOf(samples) } };
}

/** Indices, ascending, of the samples whose value index is chosen. */
function chosenOf(places: Uint32Array, isChosen: (place: number) => boolean, count: number) {
  const samples = new Uint32Array(count);
  let next = 0;
  for (let i = 0; i < places.length; i++) if (isChosen(places[i] ?? 0)) samples[next++] = i;
  return samples;
}

/** The scores of some samples. L = labels of a sample. */
function scoresOf(all: Scores, samples: Uint32Array, L: number): Scores {
  const { length } = samples;
  const own = (values: Float32Array) => {
    return Float32Array.from({ length: L * length }, (_, i) => {
      return values[L * (samples[Math.floor(i / L)] ?? 0) + (i % L)] ?? Number.NaN;
    });
  };
  const { groups } = all;
  const half = (second: number) => (_: unknown, i: number) =>
    groups?.[second * all.samples + (samples[i] ?? 0)] ?? 0;
  return {
    samples: length,
    logits: own(all.logits),
    labels: own(all.labels),
    ...(groups && {
      groups: Float32Array.from([
        ...Float32Array.from({ length }, half(0)),
        ...Float32Array.from({ length }, half(1)),
      ]),
    }),
  };
}
