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
  DeltaRefusedError,
  type Disk,
  type EncodedBatch,
  expected,
  type JobSpec,
  type Kernels,
  kernelsOf,
  type LoadOptions,
  ModelClosedError,
  type OpenCheckpoint,
  openModel,
  type Piece,
  Predictor,
  type ProgressOptions,
  progressOf,
  realDisk,
  type SampleRecord,
  type Scorer,
  scorerOf,
} from "../../../internal.ts";
import { servedDense } from "../../formats/index.ts";
import {
  bestOf,
  type Ranked,
  type RankOptions,
  type Scored,
  type ServedVersion,
  told,
} from "./answers.ts";
import { nextTables } from "./apply-delta.ts";
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
  extends Omit<LoadOptions, "calibration">,
    TierOptions,
    Pick<ProgressOptions, "onProgress" | "signal"> {
  /**
   * Whether probabilities are calibrated by the calibration that `calibrateModel` stored for the
   * model, or for the version that a delta produces. @default "stored"
   */
  readonly calibration?: CalibrationChoice | undefined;
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
interface Made {
  readonly path: string;
  readonly jobText: string;
  readonly jobIdentity: string;
  readonly arithmetic: string;
  readonly calibration: CalibrationChoice;
  /** The opened checkpoint, whose directory has the calibrations of other versions too. */
  readonly checkpoint: OpenCheckpoint;
  readonly kernels: Kernels;
  readonly disk: Disk;
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
  readonly #made: Made;
  #serving: Serving | undefined;
  #spare: Scorer;
  #closed: Promise<void> | undefined;
  /** The last requested delta or export; they run one after the other. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(job: JobSpec, made: Made, serving: Serving) {
    this.job = job;
    this.tasks = serving.predictor.tasks;
    this.#made = made;
    this.#spare = made.spare;
    this.#serving = serving;
  }

  /**
   * Loads the model of a checkpoint directory for predictions, without optimizer state. The thread
   * is yielded often, so that another model can serve meanwhile.
   * @throws CheckpointMissingError, CheckpointCorruptError
   * @throws ArithmeticMismatchError where this process does not have the arithmetic of training
   * @throws InvalidOptionError where `memoryBytes` has no room for the smallest caches
   * @throws TierDiskFullError, TierWriteError
   */
  static async open(path: string, options: ServeOptions = {}): Promise<ServedModel> {
    const { disk = realDisk, arithmetic = "same", calibration = "stored" } = options;
    const checkpoint = openModel(path, options.manifest, disk);
    const { job, manifest, store } = checkpoint;
    const kernels = kernelsOf(arithmetic, manifest.arithmetic, path);
    const calibrations = calibrationsOf(checkpoint, calibration);
    prepareIndexCheck();
    const [scorer, spare] = [scorerOf(job, kernels), scorerOf(job, kernels)];
    const dense = servedDense(checkpoint, scorer.graph);
    scorer.setDense(dense);
    const places = tierPlacesOf(job, scorer.lookups, disk, options);
    const tables = await loadTables(checkpoint, kernels, progressOf(options), places);
    const isTiered = tables.some(({ tier }) => tier !== undefined);
    const tiered = isTiered ? new TieredScoring(scorer.lookups, tables) : undefined;
    const { jobIdentity, means } = manifest;
    const { manifest: hash, ...version } = versionOf(manifest);
    const made = {
      ...{ path, jobText: store.jobText, jobIdentity, arithmetic: manifest.arithmetic },
      ...{ calibration, checkpoint, kernels, disk, tiered, spare },
    };
    return new ServedModel(job, made, {
      ...{ version: told(version, calibrations), manifest: hash, scorer, dense, means },
      predictor: new Predictor(job, means, calibrations),
      rows: { tables, steps: manifest.cut },
    });
  }

  /** The version that answers now. @throws ModelClosedError */
  get version(): ServedVersion {
    return this.#live("tell the version").version;
  }

  /** The arithmetic of training, and the arithmetic of its answers. */
  get arithmetic(): { readonly trained: string; readonly own: string } {
    return { trained: this.#made.arithmetic, own: this.#made.kernels.arithmetic };
  }

  /** The tables that are on disk because of `memoryBytes`. */
  get onDisk(): readonly TableOnDisk[] {
    const { tables } = this.#live("tell its tables").rows;
    return tables.flatMap(({ tier }, i) => {
      const { name, rows } = this.job.model.tables[i] ?? { name: "", rows: 0 };
      return tier === undefined ? [] : [{ table: name, rows, cachedRows: tier.table.capacity }];
    });
  }

  /** Cache hits and misses of rows of tables on disk. */
  get rowCounts(): RowCounts {
    return this.#made.tiered?.counts ?? { hits: 0, misses: 0 };
  }

  /**
   * Scores (B), or (B,T), of records: see `Model.predict`. They are computed before the call
   * returns its promise, unless tables are on disk: then calls are computed one at a time.
   * @throws InvalidOptionError naming the record and the column
   * @throws ModelClosedError
   */
  async predict(records: readonly SampleRecord[]): Promise<Scored> {
    const serving = this.#live("predict");
    const { tiered } = this.#made;
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
    const { tiered } = this.#made;
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
    const { tiered } = this.#made;
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
        const serving = this.#live("calibrate");
        const predictor = new Predictor(this.job, serving.means, calibrations);
        this.#serving = { ...serving, predictor, version: told(version, calibrations) };
      };
      await (this.#made.tiered?.alone(change) ?? change());
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
    const { job } = this;
    return this.#inTurn(() =>
      exportServed({ job, ...this.#made, ...this.#live("export") }, path, options),
    );
  }

  /** Waits for a delta or export in progress and frees the model. Safe to call twice. */
  async close(): Promise<void> {
    this.#serving = undefined;
    await this.#last;
    this.#closed ??= this.#made.tiered?.close();
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
    const { kernels, disk } = this.#made;
    const file = openDelta(disk, path);
    try {
      const index = await readDeltaIndex(file);
      this.#checkFollows(path, index, before);
      const data = new DeltaData(file);
      const { tables } = before.rows;
      let entered: ServedVersion;
      const next = await nextTables(kernels, this.job, tables, index, data, { path, signal });
      try {
        const dense = await this.#nextDense(path, index, data);
        data.finish(index);
        const { manifest, ...version } = index.to;
        const { means } = index;
        const calibrations = this.#calibrationsOf(version);
        const serving = {
          ...{ version: told(version, calibrations), manifest, scorer: this.#spare, dense, means },
          predictor: new Predictor(this.job, means, calibrations),
          rows: { tables: next.tables, steps: version.step },
        };
        serving.predictor.warm(serving);
        await setImmediate();
        signal?.throwIfAborted();
        const change = async () => {
          await next.enter();
          this.#live("apply a delta");
          this.#serving = serving;
          this.#spare = before.scorer;
        };
        await (this.#made.tiered?.alone(change) ?? change());
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

  /** @throws DeltaRefusedError where the delta does not apply to the serving version */
  #checkFollows(path: string, index: DeltaIndex, { version }: Serving): void {
    const { jobIdentity, arithmetic } = this.#made;
    if (index.jobIdentity !== jobIdentity || index.tables.length !== this.job.model.tables.length) {
      throw new DeltaRefusedError(path, "it is of another job than the model that serves");
    }
    if (index.arithmetic !== arithmetic) {
      throw new DeltaRefusedError(path, `it was trained with the arithmetic ${index.arithmetic}`);
    }
    if (index.from.digest === version.digest && index.from.step === version.step) return;
    const leads = `it leads from step ${index.from.step} (${index.from.digest})`;
    const serves = `step ${version.step} (${version.digest}) serves`;
    throw new DeltaRefusedError(path, `${leads}, and ${serves}`);
  }

  /** Reads the next version's dense parameters into the spare scorer. */
  async #nextDense(path: string, { dense: { at, count } }: DeltaIndex, data: DeltaData) {
    const { graph } = this.#spare;
    if (count !== graph.layout.length) {
      throw new DeltaRefusedError(path, "it has other layers than the model that serves");
    }
    const bytes = await data.next(at, 4 * count);
    const dense = new Float32Array(bytes.slice().buffer);
    this.#spare.setDense(dense);
    return dense;
  }

  /** The calibrations of a version. @throws CalibrationMissingError, CheckpointCorruptError */
  #calibrationsOf({ digest }: ServedVersion): Calibrations | undefined {
    const { checkpoint, calibration } = this.#made;
    return calibrationsOf(checkpoint, calibration, digest.replace(/^sha256:/, ""));
  }

  /** @throws ModelClosedError */
  #live(call: string): Serving {
    if (this.#serving === undefined) throw new ModelClosedError(call);
    return this.#serving;
  }
}
