// From records, or encoded batches, to predictions of one version of a model: checks, pieces that
// fit the device, probabilities. Everything that predicts shares it, so all scores are alike.
//
// B = samples, T = tasks.

import type { EncodedBatch } from "../../src/data/batch-rows.ts";
import type { Means } from "../../src/data/cache/cache-format.ts";
import {
  createRecordEncoder,
  type RecordEncoder,
  type SampleRecord,
} from "../../src/data/records.ts";
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

/** Samples that a scorer takes at once: of a batch, or candidates of a user. */
export type Piece = {
  /** The place of its first sample in the call. */
  readonly first: number;
} & (
  | { readonly batch: EncodedBatch; readonly ranked: undefined }
  | { readonly batch: undefined; readonly ranked: RankedBatch }
);

/** Of each label its calibration; undefined: its predictions stay as they are. */
export type Calibrations = readonly (Calibration | undefined)[];

/** What computes the predictions of one version. */
export interface PredictingVersion {
  readonly scorer: Scorer;
  readonly rows: ServedRows;
}

/** A scorer for a job's model; its dense parameters are 0. */
export function scorerOf({ model, optimizer, data }: JobSpec, kernels: Kernels): Scorer {
  const weighted = weightedOf(data, shapesOf(model));
  return new Scorer({ model, optimizer: optimizer.sparse, weighted, kernels });
}

export class Predictor {
  /** The labels that are predicted, T of them. */
  readonly tasks: readonly string[];
  /** Of each label, whether it is a number. */
  readonly numeric: readonly boolean[];
  readonly #encoder: RecordEncoder;
  readonly #shape: Parameters<typeof checkBatch>[1];
  readonly #calibrations: Calibrations;

  /** `calibrations`: of each label, how its probabilities are calibrated; empty: none is. */
  constructor({ data, model }: JobSpec, means: Means | undefined, calibrations: Calibrations = []) {
    this.#calibrations = calibrations;
    const shapes = shapesOf(model);
    this.tasks = labelsOf(data);
    this.numeric = areNumeric(data);
    this.#encoder = createRecordEncoder(data, shapes, means);
    this.#shape = {
      dense: model.dense,
      features: shapes.length,
      isWide: wideOf(shapes).includes(true),
      isWeighted: weightedOf(data, shapes).includes(true),
    };
  }

  /**
   * Predictions (B) or (B,T) for records. @throws InvalidOptionError naming the record and the
   * column
   */
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
   * Predictions (n) or (n,T) for one user with each of n candidates, whose columns win over the
   * user's. What depends on the user alone is computed once.
   * @throws InvalidOptionError naming the record and the column
   */
  rank(
    user: SampleRecord,
    candidates: readonly SampleRecord[],
    version: PredictingVersion,
  ): Float32Array {
    return this.#scoredAll(this.rankPieces(user, candidates), candidates.length, version);
  }

  /** Logits of encoded features; labels that are numbers have their values. */
  logitsOf(batch: EncodedBatch, version: PredictingVersion): Float32Array {
    const logitsOf = ({ batch: own, first }: Piece) => {
      return version.scorer.score(own as EncodedBatch, version.rows, first);
    };
    return this.#all(this.batchPieces(batch), batch.samples, logitsOf);
  }

  /** The pieces of `predict`, checked: for rows that are fetched before `scored` reads them. */
  recordPieces(records: readonly SampleRecord[]): Iterable<Piece> {
    if (!Array.isArray(records)) throw expected("records", "a list of records", records);
    return this.#slices(records, (some, first) => {
      return { first, batch: this.#encoder.encode(some), ranked: undefined };
    });
  }

  /** Those of `predictBatch`. */
  batchPieces(batch: EncodedBatch): Iterable<Piece> {
    if (typeof batch !== "object" || batch === null) {
      throw expected("batch", "an encoded batch (`predict` takes records)", batch);
    }
    checkBatch(batch, this.#shape);
    return this.#pieces(batch);
  }

  /** Those of `rank`. */
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

  /** Computes a sample without features, so that the first request finds everything ready. */
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

  /** Probabilities of logits; labels that are numbers have their values. In place. */
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

/** The probability of a logit, calibrated where there is a calibration. */
export function probabilityOf(logit: number, calibration?: Calibration): number {
  return calibration === undefined ? 1 / (1 + Math.exp(-logit)) : calibrated(logit, calibration);
}
