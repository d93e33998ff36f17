// A trained model for serving: every answer names the version that computed it.
//
// The interface between the serving engine and its callers, such as a server:
//
//   open(checkpoint) ──▶ predict · predictBatch · rank ──▶ { scores, version }
//                   └──▶ applyDelta ──▶ the next version, between two batches
//
// Scores are those of `Model.predict`: probabilities of the label 1, or the values of a numeric
// label. Calls may be concurrent; they are answered in order.

import { setImmediate } from "node:timers/promises";
import {
  type CalibrationChoice,
  type Calibrations,
  calibrationsOf,
  type EncodedBatch,
  expected,
  type JobSpec,
  type LoadOptions,
  ModelClosedError,
  type OpenedModel,
  openForPredictions,
  type Piece,
  Predictor,
  type ProgressOptions,
  progressOf,
  type SampleRecord,
  type Scorer,
  scorerOf,
} from "../../../internal.ts";
import { servedDense } from "../../formats/index.ts";
import { checkFollows, nextDense, nextTables } from "./apply-delta.ts";
import { type TierOptions, tierPlacesOf } from "./choose-tiers.ts";
import {
  DeltaData,
  type DeltaIndex,
  openDelta,
  prepareIndexCheck,
  readDeltaIndex,
} from "./delta-file.ts";
import { versionOf } from "./export-delta.ts";
import { exportServed } from "./export-served.ts";
import { type LoadedTable, loadTables } from "./load-tables.ts";
import { TieredScoring } from "./tiered-scoring.ts";
import type { RowCounts, TableOnDisk } from "./tiered-table.ts";

/** Options of `ServedModel.open`. */
export interface ServeOptions
  extends LoadOptions,
    TierOptions,
    Pick<ProgressOptions, "onProgress" | "signal"> {
  /**
   * Whether probabilities are calibrated by the calibration that `calibrateModel` stored for the
   * model, or for the version that a delta produces. @default "stored"
   */
  readonly calibration?: CalibrationChoice | undefined;
}

/** The version of a model that computed an answer. */
export interface ServedVersion {
  /** `sha256:…`, equal to the digest in a run's result. */
  readonly digest: string;
  /** Number of training steps of this version. */
  readonly step: number;
  /** Present if probabilities are calibrated by the calibration stored with the version. */
  readonly calibrated?: true;
}

/** Scores that were all computed by one version. */
export interface Scored {
  /** (B), or (B,T) for a model with T tasks, in the order of the records; owned by the caller. */
  readonly scores: Float32Array;
  readonly version: ServedVersion;
}

/** A user's candidates, ranked by one version. */
export interface Ranked extends Scored {
  /**
   * Indices of the candidates with the highest scores for the first task, or for `by`, best first.
   * Of equal scores, the earlier candidate comes first. `scores` covers all candidates.
   */
  readonly order: Int32Array;
}

/** Options of `ServedModel.rank`. */
export interface RankOptions {
  /** Number of candidates in `order`. @default all */
  readonly top?: number | undefined;
  /** The task that ranks. @default the first */
  readonly by?: string | undefined;
}

/** The state of one version. */
interface Serving {
  readonly version: ServedVersion;
  /** Hash of the manifest of its checkpoint. */
  readonly manifest: string;
  readonly predictor: Predictor;
  readonly scorer: Scorer;
  readonly rows: { readonly tables: readonly LoadedTable[]; readonly steps: number };
  /** Its dense parameters, flat. */
  readonly dense: Float32Array;
  readonly means: DeltaIndex["means"];
}

/** The state of a served model that all versions share. */
interface Shared {
  /** The opened checkpoint, whose directory has the calibrations of other versions too. */
  readonly opened: OpenedModel;
  readonly calibration: CalibrationChoice;
  /** Scores with tables on disk; undefined: all tables are in memory. */
  readonly tiered: TieredScoring | undefined;
  /** The scorer for the next version, as each scorer holds one set of dense parameters. */
  readonly spare: Scorer;
}

/** A model that predicts and can be updated to newer versions meanwhile. Close it. */
export class ServedModel implements AsyncDisposable {
  /** The job that trained the model, complete with defaults. */
  readonly job: JobSpec;
  /** The labels that it predicts, T of them: one, unless it has several tasks. */
  readonly tasks: readonly string[];
  readonly #shared: Shared;
  #serving: Serving | undefined;
  #spare: Scorer;
  #closed: Promise<void> | undefined;
  /** The last requested delta or export; they run one after the other. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(job: JobSpec, shared: Shared, serving: Serving) {
    this.job = job;
    this.tasks = serving.predictor.tasks;
    this.#shared = shared;
    this.#spare = shared.spare;
    this.#serving = serving;
  }

  /**
   * Loads the model of a checkpoint directory for predictions, without optimizer state. The thread
   * is yielded often, so that another model can serve meanwhile.
   * @throws as `loadModel`
   * @throws InvalidOptionError where `memoryBytes` has no room for the smallest caches
   * @throws TierDiskFullError, TierWriteError
   */
  static async open(path: string, options: ServeOptions = {}): Promise<ServedModel> {
    const { calibration = "stored" } = options;
    const opened = openForPredictions(path, { ...options, calibration });
    const { job, manifest, kernels, calibrations, disk } = opened;
    prepareIndexCheck();
    const [scorer, spare] = [scorerOf(job, kernels), scorerOf(job, kernels)];
    const dense = servedDense(opened, scorer.graph);
    scorer.setDense(dense);
    const places = tierPlacesOf(job, scorer.lookups, disk, options);
    const tables = await loadTables(opened, kernels, progressOf(options), places);
    const isTiered = tables.some(({ tier }) => tier !== undefined);
    const tiered = isTiered ? new TieredScoring(scorer.lookups, tables) : undefined;
    const { means, cut: steps } = manifest;
    const { manifest: hash, ...version } = versionOf(manifest);
    const parts = { manifest: hash, scorer, dense, means, rows: { tables, steps } };
    const serving = servingOf(job, version, calibrations, parts);
    return new ServedModel(job, { opened, calibration, tiered, spare }, serving);
  }

  /** The version that answers now. @throws ModelClosedError */
  get version(): ServedVersion {
    return this.#live("read the version").version;
  }

  /** The arithmetic of training, and the arithmetic of its answers. */
  get arithmetic(): { readonly trained: string; readonly own: string } {
    const { manifest, kernels } = this.#shared.opened;
    return { trained: manifest.arithmetic, own: kernels.arithmetic };
  }

  /** The tables that are on disk because of `memoryBytes`. */
  get onDisk(): readonly TableOnDisk[] {
    const { tables } = this.#live("list the tables").rows;
    return tables.flatMap(({ tier }, i) => {
      const { name, rows } = this.job.model.tables[i] ?? { name: "", rows: 0 };
      return tier === undefined ? [] : [{ table: name, rows, cachedRows: tier.table.capacity }];
    });
  }

  /** Cache hits and misses of rows of tables on disk. */
  get rowCounts(): RowCounts {
    return this.#shared.tiered?.counts ?? { hits: 0, misses: 0 };
  }

  /**
   * Scores (B), or (B,T), of records: see `Model.predict`. They are computed before the call
   * returns its promise, unless tables are on disk: then calls are computed one at a time.
   * @throws InvalidOptionError naming the record and the column
   * @throws ModelClosedError
   */
  async predict(records: readonly SampleRecord[]): Promise<Scored> {
    const serving = this.#live("predict");
    const { tiered } = this.#shared;
    if (tiered !== undefined) {
      return this.#scored(tiered, "predict", (predictor) => {
        return [predictor.recordPieces(records), records.length];
      });
    }
    return { scores: serving.predictor.predict(records, serving), version: serving.version };
  }

  /**
   * Scores of encoded features: see `Model.predictBatch`. As `predict`, computed at once.
   * @throws InvalidOptionError, IdOutOfRangeError, ModelClosedError
   */
  async predictBatch(batch: EncodedBatch): Promise<Scored> {
    const serving = this.#live("predict");
    const { tiered } = this.#shared;
    if (tiered !== undefined) {
      return this.#scored(tiered, "predict", (predictor) => {
        return [predictor.batchPieces(batch), batch.samples];
      });
    }
    return { scores: serving.predictor.predictBatch(batch, serving), version: serving.version };
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
    const serving = this.#live("rank");
    const { tiered } = this.#shared;
    const { scores, version } =
      tiered === undefined
        ? { scores: serving.predictor.rank(user, candidates, serving), version: serving.version }
        : await this.#scored(tiered, "rank", (predictor) => {
            return [predictor.rankPieces(user, candidates), candidates.length];
          });
    return { scores, version, order: bestOf(scores, this.tasks.length, task, top) };
  }

  /**
   * Applies a delta file. Until it is applied, the current version answers requests; afterwards the
   * next version does. Rows of the next version are written beside those of the current one, in
   * slices of the thread; then one reference is switched. Resolves to the next version. A delta
   * that is damaged or does not follow the current version changes nothing. Deltas are applied one
   * at a time.
   * @throws InputUnusableError, CheckpointCorruptError, DeltaRefusedError, ModelClosedError
   * @throws the reason of `signal`
   */
  applyDelta(
    path: string,
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<ServedVersion> {
    return this.#inTurn(() => this.#apply(path, options.signal));
  }

  /**
   * Reloads the calibration stored for the serving version, and switches to it between two calls.
   * @throws CalibrationMissingError, CheckpointCorruptError, ModelClosedError
   */
  recalibrate(): Promise<ServedVersion> {
    return this.#inTurn(async () => {
      const version = { digest: this.version.digest, step: this.version.step };
      const calibrations = this.#calibrationsOf(version);
      const change = async () => {
        this.#serving = servingOf(this.job, version, calibrations, this.#live("calibrate"));
      };
      await (this.#shared.tiered?.alone(change) ?? change());
      return this.version;
    });
  }

  /**
   * Writes the serving version to one file, byte for byte as `exportModel` writes it from a
   * checkpoint. Deltas requested earlier are included; later ones wait until the file is written,
   * because the next delta but one overwrites rows of this version.
   * @throws InputUnusableError, ModelClosedError
   */
  export(path: string, options: ProgressOptions = {}): Promise<void> {
    return this.#inTurn(() => {
      return exportServed({ ...this.#shared, ...this.#live("export") }, path, options);
    });
  }

  /** Waits for a delta or export in progress and frees the model. Safe to call twice. */
  async close(): Promise<void> {
    this.#serving = undefined;
    await this.#last;
    this.#closed ??= this.#shared.tiered?.close();
    await this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => {}); // The caller gets the error; the next call does not.
    return done;
  }

  /** Scores pieces with tables on disk, by the version that serves when their turn comes. */
  #scored(
    tiered: TieredScoring,
    call: string,
    piecesOf: (predictor: Predictor) => [pieces: Iterable<Piece>, samples: number],
  ): Promise<Scored> {
    return tiered.alone(async () => {
      const serving = this.#live(call);
      const scores = await tiered.scores(...piecesOf(serving.predictor), serving);
      return { scores, version: serving.version };
    });
  }

  async #apply(path: string, signal: AbortSignal | undefined): Promise<ServedVersion> {
    const before = this.#live("apply a delta");
    const { opened, tiered } = this.#shared;
    const file = openDelta(opened.disk, path);
    try {
      const index = await readDeltaIndex(file);
      checkFollows(path, index, opened, before.version);
      const data = new DeltaData(file);
      const { tables } = before.rows;
      let entered: ServedVersion;
      const next = await nextTables(opened, tables, index, data, { path, signal });
      try {
        const dense = await nextDense(path, index, data, this.#spare);
        data.finish(index);
        const { manifest, ...version } = index.to;
        const { means } = index;
        const calibrations = this.#calibrationsOf(version);
        const rows = { tables: next.tables, steps: version.step };
        const parts = { manifest, scorer: this.#spare, dense, means, rows };
        const serving = servingOf(this.job, version, calibrations, parts);
        serving.predictor.warm(serving);
        await setImmediate();
        signal?.throwIfAborted();
        const change = async () => {
          await next.enter();
          this.#live("apply a delta");
          this.#serving = serving;
          this.#spare = before.scorer;
        };
        await (tiered?.alone(change) ?? change());
        entered = serving.version;
      } catch (error) {
        await next.undo();
        throw error;
      }
      await next.leave();
      return entered;
    } finally {
      file.close();
    }
  }

  /** The calibrations of a version. @throws CalibrationMissingError, CheckpointCorruptError */
  #calibrationsOf({ digest }: ServedVersion): Calibrations | undefined {
    const { opened, calibration } = this.#shared;
    return calibrationsOf(opened, calibration, digest.replace(/^sha256:/, ""));
  }

  /** @throws ModelClosedError */
  #live(call: string): Serving {
    if (this.#serving === undefined) throw new ModelClosedError(call);
    return this.#serving;
  }
}

/** The state of a version; its answers say whether they are calibrated. */
function servingOf(
  job: JobSpec,
  version: ServedVersion,
  calibrations: Calibrations | undefined,
  parts: Omit<Serving, "version" | "predictor">,
): Serving {
  const predictor = new Predictor(job, parts.means, calibrations);
  const calibrated = calibrations && ({ calibrated: true } as const);
  return { ...parts, version: { ...version, ...calibrated }, predictor };
}

/** Indices of the `top` candidates with the highest scores, best first. */
function bestOf(scores: Float32Array, tasks: number, task: number, top: number): Int32Array {
  const of = (candidate: number) => scores[candidate * tasks + task] ?? 0;
  const order = Int32Array.from({ length: scores.length / tasks }, (_, i) => i);
  return order.sort((one, other) => of(other) - of(one) || one - other).slice(0, top);
}
