// Turns records or encoded batches into predictions of one version of a model: checks the input,
// splits it into pieces that a scorer takes, and converts logits to probabilities. All prediction
// paths share it, so their scores are equal.
//
// B = samples, T = tasks.

import type { EncodedBatch } from "../../src/data/batch-rows.ts";
import type { Means } from "../../src/data/cache/cache-format.ts";
import {
  createRecordEncoder,
  type RecordEncoder,
  type SampleRecord,
} from "../../src/data/records.ts";
import { keyColumnOf } from "../../src/data/split-keys.ts";
import { areNumeric, labelsOf } from "../../src/data/targets.ts";
import { wideOf } from "../../src/data/text/columns.ts";
import { weightedOf } from "../../src/data/text/match-features.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { shapesOf } from "../../src/model/features.ts";
import { expected } from "../../src/ports/check-options.ts";
import {
  batchSamplesMax,
  type RankedBatch,
  Scorer,
  type ServedRows,
} from "../../src/serving/scorer.ts";
import { type Calibration, calibrated } from "./calibration.ts";
import { checkBatch, piecesOf } from "./encoded-batch.ts";
import { rankedBatch } from "./ranked-batch.ts";

/** Samples that a scorer takes at once: part of a batch, or candidates of one user. */
export type Piece = {
  /** Index of its first sample in the call. */
  readonly first: number;
} & (
  | { readonly batch: EncodedBatch; readonly ranked: undefined }
  | { readonly batch: undefined; readonly ranked: RankedBatch }
);

/** One calibration per label; undefined: the label's predictions are not calibrated. */
export type Calibrations = readonly (Calibration | undefined)[];

/** The scorer and rows of one version of a model. */
export interface PredictingVersion {
  readonly scorer: Scorer;
  readonly rows: ServedRows;
}

/** A scorer for a job's model, whose dense parameters are still 0. */
export function scorerOf({ model, optimizer, data }: JobSpec, kernels: Kernels): Scorer {
  const weighted = weightedOf(data, shapesOf(model));
  return new Scorer({ model, optimizer: optimizer.sparse, weighted, kernels });
}

export class Predictor {
  /** The predicted labels, T of them. */
  readonly tasks: readonly string[];
  /** For each label, whether it is a number (regression). */
  readonly numeric: readonly boolean[];
  readonly #encoder: RecordEncoder;
  readonly #shape: Parameters<typeof checkBatch>[1];
  readonly #calibrations: Calibrations;

  /** `calibrations`: one per label; empty: no label is calibrated. */
  constructor(job: JobSpec, means: Means | undefined, calibrations: Calibrations = []) {
    const { data, model, evaluation } = job;
    this.#calibrations = calibrations;
    const shapes = shapesOf(model);
    this.tasks = labelsOf(data);
    this.numeric = areNumeric(data);
    this.#encoder = createRecordEncoder(data, shapes, means, keyColumnOf(evaluation?.split));
    this.#shape = {
      dense: model.dense,
      features: shapes.length,
      isWide: wideOf(shapes).includes(true),
      isWeighted: weightedOf(data, shapes).includes(true),
    };
  }

  /** Predictions (B) or (B,T) for records. @throws InvalidOptionError naming record and column */
  predict(records: readonly SampleRecord[], version: PredictingVersion): Float32Array {
    if (Array.isArray(records) && records.length > 0 && records.length <= batchSamplesMax) {
      return this.#predicted(version.scorer.score(this.#encoder.encode(records), version.rows));
    }
    return this.#scoredAll(this.recordPieces(records), records.length, version);
  }

  /**
   * Predictions for encoded features. @throws InvalidOptionError where its arrays do not fit
   * together, IdOutOfRangeError where an id lies outside its table
   */
  predictBatch(batch: EncodedBatch, version: PredictingVersion): Float32Array {
    return this.#scoredAll(this.batchPieces(batch), batch.samples, version);
  }

  /**
   * Predictions (n) or (n,T) for one user with each of n candidates, whose columns override the
   * user's. Computation that depends on the user alone is done once.
   * @throws InvalidOptionError naming the record and the column
   */
  rank(
    user: SampleRecord,
    candidates: readonly SampleRecord[],
    version: PredictingVersion,
  ): Float32Array {
    return this.#scoredAll(this.rankPieces(user, candidates), candidates.length, version);
  }

  /** Logits of encoded features; for numeric labels, their values. */
  logitsOf(batch: EncodedBatch, version: PredictingVersion): Float32Array {
    const logitsOf = ({ batch: own, first }: Piece) => {
      return version.scorer.score(own as EncodedBatch, version.rows, first);
    };
    return this.#all(this.batchPieces(batch), batch.samples, logitsOf);
  }

  /** The checked pieces of `predict`, for callers that fetch rows before they call `scored`. */
  recordPieces(records: readonly SampleRecord[]): Iterable<Piece> {
    if (!Array.isArray(records)) throw expected("records", "a list of records", records);
    return this.#slices(records, (some, first) => {
      return { first, batch: this.#encoder.encode(some), ranked: undefined };
    });
  }

  /** The checked pieces of `predictBatch`. */
  batchPieces(batch: EncodedBatch): Iterable<Piece> {
    if (typeof batch !== "object" || batch === null) {
      throw expected("batch", "an encoded batch (`predict` takes records)", batch);
    }
    checkBatch(batch, this.#shape);
    return this.#pieces(batch);
  }

  /** The checked pieces of `rank`. */
  rankPieces(user: SampleRecord, candidates: readonly SampleRecord[]): Iterable<Piece> {
    if (!Array.isArray(candidates)) throw expected("candidates", "a list of records", candidates);
    return this.#slices(candidates, (some, first) => {
      return { first, batch: undefined, ranked: rankedBatch(this.#encoder, user, some) };
    });
  }

  /** Predictions of a piece. */
  scored({ first, batch, ranked }: Piece, { scorer, rows }: PredictingVersion): Float32Array {
    return this.#predicted(
      ranked === undefined ? scorer.score(batch, rows, first) : scorer.rank(ranked, rows, first),
    );
  }

  /** Scores an empty sample, so that the first request does not pay for initialisation. */
  warm({ scorer, rows }: PredictingVersion): void {
    const { dense, features, isWide, isWeighted } = this.#shape;
    scorer.score(
      {
        samples: 1,
        dense: new Float32Array(dense),
        lengths: new Int32Array(features),
        ids: new Int32Array(0),
        highs: isWide ? new Int32Array(0) : undefined,
        weights: isWeighted ? new Float32Array(0) : undefined,
      },
      rows,
    );
  }

  #scoredAll(pieces: Iterable<Piece>, samples: number, version: PredictingVersion): Float32Array {
    return this.#all(pieces, samples, (piece) => this.scored(piece, version));
  }

  #all(
    pieces: Iterable<Piece>,
    samples: number,
    valuesOf: (piece: Piece) => Float32Array,
  ): Float32Array {
    const { length: tasks } = this.tasks;
    const out = new Float32Array(samples * tasks);
    for (const piece of pieces) out.set(valuesOf(piece), tasks * piece.first);
    return out;
  }

  *#slices(
    records: readonly SampleRecord[],
    pieceOf: (some: readonly SampleRecord[], first: number) => Piece,
  ): Generator<Piece> {
    for (let first = 0; first < records.length; first += batchSamplesMax) {
      yield pieceOf(records.slice(first, first + batchSamplesMax), first);
    }
  }

  *#pieces(batch: EncodedBatch): Generator<Piece> {
    let first = 0;
    for (const piece of piecesOf(batch, batchSamplesMax)) {
      yield { first, batch: piece, ranked: undefined };
      first += piece.samples;
    }
  }

  /** Converts logits to probabilities in place; values of numeric labels are unchanged. */
  #predicted(logits: Float32Array): Float32Array {
    const { length: tasks } = this.tasks;
    for (let i = 0; i < logits.length; i++) {
      const task = i % tasks;
      if (this.numeric[task] === true) continue;
      logits[i] = probabilityOf(logits[i] ?? 0, this.#calibrations[task]);
    }
    return logits;
  }
}

/** The probability of a logit, calibrated if a calibration is given. */
export function probabilityOf(logit: number, calibration?: Calibration): number {
  return calibration === undefined ? 1 / (1 + Math.exp(-logit)) : calibrated(logit, calibration);
}
