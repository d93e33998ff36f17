// A trained model that serves: every answer names the version that computed it.
//
// The seam between the serving engine and whatever asks it, as a server does:
//
//   open(checkpoint) ──▶ predict · predictBatch · rank ──▶ { scores, version }
//                   └──▶ applyDelta ──▶ the next version, between two batches
//
// Scores are those of `Model.predict`: probabilities of the label 1, or the values of a label that
// is a number. All calls may be made at once; they are answered in their order.

import type { EncodedBatch } from "../../src/data/batch-rows.ts";
import type { SampleRecord } from "../../src/data/records.ts";
import { InputUnusableError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { expected } from "../../src/ports/check-options.ts";
import { type LoadOptions, loadModel } from "../model/load-model.ts";
import type { Model } from "../model/model.ts";

/** The version of a model that computed an answer. */
export interface ServedVersion {
  /** `sha256:…`, equal to the digest in a run's result. */
  readonly digest: string;
  /** Steps that it was trained for. */
  readonly step: number;
}

/** Scores, all of one version. */
export interface Scored {
  /** (B), or (B,T) of a model with T tasks, in the order of the records; the caller owns them. */
  readonly scores: Float32Array;
  readonly version: ServedVersion;
}

/** A user's candidates, ranked by one version. */
export interface Ranked extends Scored {
  /**
   * Indices of candidates, best first: those of the highest scores of the first task, or of
   * `by`. Of equal scores, the earlier candidate comes first. `scores` has all candidates.
   */
  readonly order: Int32Array;
}

/** Options of `ServedModel.rank`. */
export interface RankOptions {
  /** How many candidates `order` names. @default all */
  readonly top?: number | undefined;
  /** The task that ranks. @default the first */
  readonly by?: string | undefined;
}

/** Options of `ServedModel.open`. */
export type ServeOptions = LoadOptions;

/** A model that predicts, and takes newer versions while it does. Close it. */
export class ServedModel implements AsyncDisposable {
  /** The job that trained the model, complete with defaults. */
  readonly job: JobSpec;
  /** The labels that it predicts, T of them: one, unless it has several tasks. */
  readonly tasks: readonly string[];
  readonly #model: Model;

  private constructor(model: Model) {
    this.job = model.job;
    this.tasks = model.tasks;
    this.#model = model;
  }

  /**
   * Loads the model of a checkpoint directory.
   * @throws CheckpointMissingError, CheckpointCorruptError
   * @throws ArithmeticMismatchError where this process does not have the arithmetic of training
   */
  static async open(path: string, options: ServeOptions = {}): Promise<ServedModel> {
    return new ServedModel(await loadModel(path, options));
  }

  /** The version that answers now. */
  get version(): ServedVersion {
    return { digest: this.#model.digest, step: this.#model.step };
  }

  /**
   * Scores (B), or (B,T), of records: see `Model.predict`.
   * @throws InvalidOptionError naming the record and the column
   * @throws ModelClosedError
   */
  async predict(records: readonly SampleRecord[]): Promise<Scored> {
    return { scores: await this.#model.predict(records), version: this.version };
  }

  /**
   * Scores of encoded features: see `Model.predictBatch`. The caller must not change the batch
   * until this resolves.
   * @throws InvalidOptionError, IdOutOfRangeError, ModelClosedError
   */
  async predictBatch(batch: EncodedBatch): Promise<Scored> {
    return { scores: await this.#model.predictBatch(batch), version: this.version };
  }

  /**
   * Scores of one user with each of n candidates, and the best of them. A candidate's record has
   * the columns that differ between candidates; all others are the user's. Scores are bit for bit
   * those of `predict` over the merged records.
   * @throws InvalidOptionError naming the record and the column
   * @throws ModelClosedError
   */
  async rank(
    user: SampleRecord,
    candidates: readonly SampleRecord[],
    { top = candidates.length, by }: RankOptions = {},
  ): Promise<Ranked> {
    if (!(Number.isInteger(top) && top >= 0)) throw expected("top", "an integer >= 0", top);
    const task = by === undefined ? 0 : this.tasks.indexOf(by);
    if (task < 0) throw expected("by", `one of ${this.tasks.join(", ")}`, by);
    const records = candidates.map((candidate) => ({ ...user, ...candidate }));
    const scored = await this.predict(records);
    return { ...scored, order: bestOf(scored.scores, this.tasks.length, task, top) };
  }

  /**
   * Takes the delta of a file: requests are answered by the old version meanwhile, and by the new
   * one from then on. A delta that does not follow from this version changes nothing.
   * @throws InputUnusableError
   */
  async applyDelta(path: string, _options: { readonly signal?: AbortSignal } = {}) {
    const message = `Expected ${path} to be a delta from ${this.#model.digest}`;
    return Promise.reject<ServedVersion>(new InputUnusableError(path, message));
  }

  /** Waits for the requests under way and frees the model. Safe to call twice. */
  close(): Promise<void> {
    return this.#model.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Indices of the `top` candidates with the highest scores, best first. */
function bestOf(scores: Float32Array, tasks: number, task: number, top: number): Int32Array {
  const of = (candidate: number) => scores[candidate * tasks + task] ?? 0;
  const order = Int32Array.from({ length: scores.length / tasks }, (_, i) => i);
  return order.sort((one, other) => of(other) - of(one) || one - other).slice(0, top);
}
