// A trained model: a checkpoint in memory that predicts. It runs the transforms and the kernels of
// training (src/data/records.ts, src/serving/scorer.ts) synchronously on the caller's thread: a
// prediction is complete before the call returns its promise.
//
// Invariants
//   M1. The weights equal the manifest's, and the model never changes them.

import { strict as assert } from "node:assert";
import type { EncodedBatch } from "../../src/data/batch-rows.ts";
import type { Means } from "../../src/data/cache/cache-format.ts";
import { type RunContents, recordedContents } from "../../src/data/contents.ts";
import type { SampleRecord } from "../../src/data/records.ts";
import { scoredLabelsOf } from "../../src/data/targets.ts";
import { InputUnusableError, ModelClosedError } from "../../src/errors/errors.ts";
import type { EvaluationData } from "../../src/job/evaluation-options.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { swapAverage } from "../../src/model/dense-optimizer.ts";
import { expected } from "../../src/ports/check-options.ts";
import type { Disk } from "../../src/ports/disk.ts";
import type { ServedRows, ServedTable } from "../../src/serving/scorer.ts";
import {
  densePart,
  digestOf,
  idsOfPart,
  type TablePart,
  tableOfPart,
} from "../../src/training/checkpoint/part-names.ts";
import { partsOf } from "../../src/training/checkpoint/parts.ts";
import { evaluateScores, type Metrics, type Scores } from "../../src/training/loop/metrics.ts";
import type { DeviceState } from "../../src/training/step/device-state.ts";
import { tableOf } from "../../src/training/topology/topology.ts";
import { needDirectory } from "../checkpoints/new-checkpoint.ts";
import type {
  CheckpointStore,
  Manifest,
  PartRecord,
} from "../checkpoints/store/checkpoint-store.ts";
import { needState } from "../checkpoints/store/file-checkpoint-store.ts";
import { openStore } from "../checkpoints/store/open-store.ts";
import { type Calibration, fitCalibration } from "./calibration.ts";
import {
  type OpenEvaluation,
  type OpenOptions,
  openEvaluation,
  withEvaluation,
} from "./evaluation/open-evaluation.ts";
import { scoreSamples } from "./evaluation/score-samples.ts";
import { type Calibrations, type PredictingVersion, Predictor, scorerOf } from "./predictor.ts";

/** The parts from which `loadModel` makes a model. */
export interface ModelParts {
  readonly device: DeviceState;
  readonly job: JobSpec;
  readonly manifest: Manifest;
  /** The store from which the model was read. */
  readonly store: CheckpointStore;
  /** One calibration per label; undefined: probabilities are not calibrated. */
  readonly calibrations: Calibrations | undefined;
  readonly disk: Disk;
}

/** A trained model in memory. It no longer needs its directory. Close it. */
export class Model implements AsyncDisposable {
  /** The job that trained the model, complete with defaults. */
  readonly job: JobSpec;
  /** Steps that the model was trained for. */
  readonly step: number;
  /** SHA-256 tree hash of weights and optimizer state, equal to the digest in a run's result. */
  readonly digest: string;
  /** The arithmetic of its predictions. */
  readonly arithmetic: string;
  /** The arithmetic of its training. */
  readonly trainedArithmetic: string;
  /** Means that replace missing values of dense features, as in training; undefined: none. */
  readonly means: Means | undefined;
  /** The labels that it predicts, T of them: one, unless it has several tasks. */
  readonly tasks: readonly string[];
  /** For each label, whether it is a number (regression). */
  readonly numeric: readonly boolean[];
  /** The calibrations that `predict` applies, one per label; undefined: none. */
  readonly calibrations: Calibrations | undefined;
  readonly #parts: ModelParts;
  readonly #predictor: Predictor;
  readonly #version: PredictingVersion;
  #device: DeviceState | undefined;

  constructor(parts: ModelParts) {
    const { device, job, manifest } = parts;
    this.job = job;
    this.digest = `sha256:${manifest.modelDigest}`;
    this.arithmetic = device.kernels.arithmetic;
    ({ cut: this.step, arithmetic: this.trainedArithmetic, means: this.means } = manifest);
    this.#parts = parts;
    this.#device = device;
    this.calibrations = parts.calibrations;
    this.#predictor = new Predictor(job, this.means, this.calibrations);
    this.tasks = this.#predictor.tasks;
    this.numeric = this.#predictor.numeric;
    const scorer = scorerOf(job, device.kernels);
    scorer.setDense(denseOfDevice(device));
    this.#version = { scorer, rows: rowsOfDevice(device) };
  }

  /**
   * Predicts records: the probability of the label 1, or the value of a numeric label, per record
   * (B); with several tasks (B,T), all tasks record by record. A record is an object with the job's
   * columns, for Criteo `I1`..`I13` and `C1`..`C26`. A list is a bag of several ids. An absent or
   * null column is a missing value. An empty list of records gives an empty array.
   * @throws InvalidOptionError naming the record and the column
   * @throws ModelClosedError
   */
  async predict(records: readonly SampleRecord[]): Promise<Float32Array> {
    this.#live("predict");
    return this.#predictor.predict(records, this.#version);
  }

  /**
   * Probabilities (B), or (B,T), of the label 1, or values, for encoded features: transformed
   * dense values and rows of the tables. The caller owns the batch.
   * @throws InvalidOptionError where its arrays do not fit together
   * @throws IdOutOfRangeError where an id lies outside its table
   * @throws ModelClosedError
   */
  async predictBatch(batch: EncodedBatch): Promise<Float32Array> {
    this.#live("predict");
    return this.#predictor.predictBatch(batch, this.#version);
  }

  /**
   * Logits (B), or (B,T), for encoded features, bit for bit those of an evaluation; numeric labels
   * get their values. Never calibrated. @throws as `predictBatch`
   */
  async logitsOf(batch: EncodedBatch): Promise<Float32Array> {
    this.#live("predict");
    return this.#predictor.logitsOf(batch, this.#version);
  }

  /**
   * Metrics over all samples of `data`; options that `data` leaves out are those of the training
   * data. Without `data`: over the samples that the job holds out, or its test samples with `part:
   * "test"`. `dataDiffers`: whether `data` may be read differently from the training data.
   * @throws InvalidOptionError where the data do not fit the job, or the job holds nothing out
   * @throws InputUnusableError where the data cannot be read
   * @throws DataChangedError where the held-out samples differ from those of the run
   */
  async evaluate(
    data?: EvaluationData,
    { dataDiffers = false, part = "evaluation", thresholds }: EvaluateOptions = {},
  ): Promise<Metrics> {
    if (thresholds !== undefined) this.#checkThresholds(thresholds);
    const scores = await this.#scores(data, { dataDiffers, part });
    const labels = scoredLabelsOf(this.job.data);
    return evaluateScores(scores, labels, thresholds ?? this.job.evaluation?.thresholds);
  }

  /**
   * Opens the samples that `evaluate` evaluates, for other analyses (slice-metrics.ts,
   * feature-importance.ts). Close them. @throws as `evaluate`
   */
  async openEvaluation(data?: EvaluationData, options: OpenOptions = {}): Promise<OpenEvaluation> {
    this.#live("evaluate");
    const { disk, manifest } = this.#parts;
    return await openEvaluation({ job: this.job, manifest, disk }, data, options);
  }

  /** @throws InvalidOptionError where thresholds are no probabilities, or all labels are numeric */
  #checkThresholds(thresholds: readonly number[]): void {
    const isProbability = (one: number) => one > 0 && one < 1;
    if (!Array.isArray(thresholds) || !thresholds.every(isProbability)) {
      throw expected("thresholds", "numbers between 0 and 1", thresholds);
    }
    if (this.numeric.includes(false)) return;
    throw expected("thresholds", "left out, as the model predicts no class", thresholds);
  }

  /**
   * Fits a calibration (calibration.ts) for each task to the samples of `data`, or to those that
   * the job holds out; undefined for a numeric label.
   * @throws as `evaluate`; InvalidOptionError where the samples are of one class
   */
  async calibrate(
    data?: EvaluationData,
    { dataDiffers = false, part = "evaluation" }: Omit<EvaluateOptions, "thresholds"> = {},
  ): Promise<(Calibration | undefined)[]> {
    const { logits, labels } = await this.#scores(data, { dataDiffers, part });
    const { length: tasks } = this.tasks;
    return this.tasks.map((_, task) => {
      if (this.numeric[task] === true) return undefined;
      const own = (values: Float32Array) => values.filter((_value, i) => i % tasks === task);
      const [scores, truths] = [own(logits), own(labels)];
      const isKnown = (_value: number, i: number) => !Number.isNaN(truths[i]);
      return fitCalibration(scores.filter(isKnown), truths.filter(isKnown));
    });
  }

  /** The logits, labels and groups of all samples. */
  async #scores(data: EvaluationData | undefined, options: OpenOptions): Promise<Scores> {
    const logitsOf = async (batch: EncodedBatch, first: number) => {
      this.#live("evaluate");
      const { scorer, rows } = this.#version;
      return scorer.score(batch, rows, first);
    };
    return await withEvaluation(this, data, options, ({ dataset }) => {
      return scoreSamples({ tasks: this.tasks, logitsOf }, dataset);
    });
  }

  /**
   * Writes the model into a new or empty directory, from which `loadModel` loads it with the same
   * digest. A model from a file without optimizer state is refused.
   * @throws InputUnusableError, StoreFailedError, ModelClosedError
   */
  async save(directory: string): Promise<void> {
    const device = this.#live("save");
    const { manifest, store: source, disk } = this.#parts;
    needState(source, "`Model.save`");
    needDirectory(directory);
    const { jobIdentity } = manifest;
    const calibration = source.calibration(manifest.modelDigest);
    // A directory with a run is refused, as claiming a generation there would fence the run.
    if (disk.list(directory).length > 0) {
      const message = `Expected ${directory} to be new or empty, as a model is saved there whole`;
      throw new InputUnusableError(directory, `${message}; name another directory`);
    }
    const store = openStore({ directory, disk, jobIdentity, jobText: source.jobText });
    const { generation } = store.beginGeneration();
    const leaves = new Map<string, readonly string[]>();
    const parts: PartRecord[] = [];
    const writer = store.packWriter(generation, manifest.cut, "saved");
    for (const part of partsOf(device)) {
      writer.begin(part.name);
      for await (const bytes of part.bytes()) writer.write(bytes);
      parts.push(writer.end());
      leaves.set(part.name, await part.leaves());
    }
    writer.finish();
    const modelDigest = digestOf(leaves, this.job.model.tables);
    // Weights that are stored in fewer bits change the digest.
    assert(this.job.checkpoint.bits !== 32 || modelDigest === manifest.modelDigest, "M1");
    const createdBy = `Model.save of ${process.pid}`;
    const saved = store.commit({ ...manifest, modelDigest, generation, parts, createdBy });
    // With a changed digest, the calibration would belong to another model.
    if (modelDigest === manifest.modelDigest) store.setCalibration(saved, calibration);
  }

  /**
   * The leaves of the model's digest, computed from the state in memory: hex SHA-256 of the dense
   * part (`dense`), of each row block's quanta and row state (`table a, block 0, quantum 1`), and
   * of its dynamic ids, if it has any (`table a, block 0, ids`). Comparing the leaves of two models
   * shows the tables and blocks in which they differ.
   */
  async leaves(): Promise<Map<string, string>> {
    const { tables } = this.job.model;
    needState(this.#parts.store, "`Model.leaves`");
    const leaves = new Map<string, string>();
    for (const part of partsOf(this.#live("list the leaves"))) {
      const tile = tableOfPart(part.name, tables);
      const ids = idsOfPart(part.name, tables);
      const own = await part.leaves();
      for (const [i, leaf] of own.entries()) {
        const block = (ids?.firstBlock ?? 0) + i;
        const ofIds = ids && `table ${tables[ids.table]?.name}, block ${block}, ids`;
        leaves.set(ofIds ?? leafName(tile, own.length, i, tables), leaf);
      }
    }
    return leaves;
  }

  /** The data on which it was trained and evaluated; undefined: not recorded. */
  get contents(): RunContents | undefined {
    return recordedContents(this.#parts.manifest.metrics);
  }

  /** Frees the model; later calls throw. Safe to call twice. */
  async close(): Promise<void> {
    this.#device = undefined;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** The model's state, for a call. @throws ModelClosedError */
  #live(call: string): DeviceState {
    if (this.#device === undefined) throw new ModelClosedError(call);
    return this.#device;
  }
}

/** Options of `Model.evaluate`. */
export interface EvaluateOptions extends OpenOptions {
  /** Decision thresholds of precision, recall and F1. @default those of the job */
  readonly thresholds?: readonly number[] | undefined;
}

/**
 * The name of leaf `i` of `count` leaves of a whole table. `tile` undefined: the dense part.
 */
function leafName(
  tile: TablePart | undefined,
  count: number,
  i: number,
  tables: JobSpec["model"]["tables"],
): string {
  if (tile === undefined) return densePart;
  const perBlock = count / tile.blocks;
  const place = i % perBlock;
  const what = place < tile.quanta ? `quantum ${place}` : "row state";
  return `table ${tables[tile.table]?.name}, block ${Math.floor(i / perBlock)}, ${what}`;
}

/** All rows of a device that holds whole tables. The memory is shared with the device. */
export function rowsOfDevice(device: DeviceState): ServedRows {
  const { slab, replicas, distinct, ids, topology, trained } = device;
  const served = new Map<number, ServedTable>();
  for (const own of [slab, replicas, ...distinct.slabs]) {
    for (const [at, { table }] of own.shards.entries()) {
      const rows = own.rowsOf[at];
      if (rows === undefined) continue;
      const { rows: count, dim } = tableOf(topology.input.model.tables, table);
      assert(rows.rows === count && rows.dim === dim, "a device without others has whole tables");
      const find = own === slab ? ids[at]?.reading : undefined;
      served.set(table, { rows, places: undefined, base: 0, find });
    }
  }
  const tables = topology.input.model.tables.map(({ name }, table): ServedTable => {
    const own = served.get(table);
    if (own === undefined) throw new RangeError(`The device has no rows of table ${name}`);
    return own;
  });
  return { steps: trained.steps, tables };
}

/** A copy of a device's dense parameters, or of their moving averages if it has them. */
export function denseOfDevice(device: DeviceState): Float32Array {
  const { kernels, network, denseState, recipe, topology } = device;
  const { layout } = topology.graph;
  const swap = () => swapAverage(kernels, recipe.optimizer.dense, denseState, layout, network.flat);
  swap();
  try {
    return kernels.read(network.flat);
  } finally {
    swap();
  }
}
