// Opens a trained model for predictions: selects the checkpoint, the arithmetic and the stored
// calibration. `loadModel` also restores all rows with their state.

import { labelsOf } from "../../src/data/targets.ts";
import { weightedOf } from "../../src/data/text/match-features.ts";
import {
  ArithmeticMismatchError,
  CalibrationMissingError,
  CheckpointCorruptError,
} from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { shapesOf } from "../../src/model/features.ts";
import { expected } from "../../src/ports/check-options.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { partsNeeded, restorePart } from "../../src/training/checkpoint/parts.ts";
import { createSoloDevice } from "../../src/training/loop/inference-device.ts";
import { type OpenCheckpoint, openModel } from "../checkpoints/open-checkpoint.ts";
import type { StoredCalibration } from "../checkpoints/store/stored-calibration.ts";
import { Model } from "./model.ts";
import type { Calibrations } from "./predictor.ts";

/**
 * Whether predictions are calibrated. `stored`: if a calibration is stored with the model.
 * `required`: always; a model without a calibration is refused. `none`: never.
 */
export type CalibrationChoice = "stored" | "required" | "none";

/** Options of `loadModel`. */
export interface LoadOptions {
  /**
   * Hash of the checkpoint's manifest, as a run's result names it, or a prefix of the hash; or
   * `best`, `last`.
   * @default the best checkpoint if the job has early stopping, else the newest
   */
  readonly manifest?: string | undefined;
  /**
   * `same`: the arithmetic of training, so that predictions equal the run's evaluations bit for
   * bit. `auto`: the fastest that this process has. `native`, `reference`: this one. With another
   * arithmetic than training's, predictions may differ in their last bits. @default "same"
   */
  readonly arithmetic?: "same" | "auto" | "native" | "reference" | undefined;
  /**
   * Whether `predict` applies the calibration that `calibrateModel` stored with the model.
   * `evaluate` never does. @default "none"
   */
  readonly calibration?: CalibrationChoice | undefined;
  /** The file system. @default the machine's own */
  readonly disk?: Disk | undefined;
}

/**
 * Loads a whole model into memory from a checkpoint directory, written by a run or by `Model.save`,
 * or from a `.osiris` file written by `exportModel`.
 * @throws CheckpointMissingError, CheckpointCorruptError, CalibrationMissingError
 * @throws ArithmeticMismatchError where this process does not have the arithmetic of training
 * @throws InputUnusableError where `manifest` is a prefix of several hashes
 * @throws PathForbiddenError where the model is a module that `allowModels` does not allow
 */
export async function loadModel(directory: string, options: LoadOptions = {}): Promise<Model> {
  const { store, job, manifest, kernels, calibrations, disk } = openForPredictions(
    directory,
    options,
  );
  const { slices, optimizer, seed } = job;
  const tables = job.model.tables.map((table) => ({ ...table, tier: "memory" as const }));
  const model = { ...job.model, tables };
  const shapes = shapesOf(job.model);
  const idsMax = shapes.map(() => 1);
  const weighted = weightedOf(job.data, shapes);
  // The device only holds the state; it runs no batches.
  const input = { model, slices, idsMax, weighted, batchSize: 1 };
  const device = createSoloDevice({ input, recipe: { optimizer, seed }, kernels });
  device.trained.steps = manifest.cut;
  const names = manifest.parts.map(({ name }) => name);
  for (const name of partsNeeded(device, names)) {
    const files = store.readFiles(manifest, name);
    await restorePart(device, name, files, new Set(), store.statedDigests === undefined);
  }
  return new Model({ device, job, manifest, store, disk, calibrations });
}

/** A checkpoint that is opened in order to predict. */
export interface OpenedModel extends OpenCheckpoint {
  readonly kernels: Kernels;
  /** One calibration per label; undefined: predictions are not calibrated. */
  readonly calibrations: Calibrations | undefined;
  readonly disk: Disk;
}

/**
 * Opens the model of a checkpoint directory or of a `.osiris` file, without reading its rows.
 * @throws as `loadModel`
 */
export function openForPredictions(
  path: string,
  { manifest, arithmetic = "same", calibration = "none", disk = realDisk }: LoadOptions,
): OpenedModel {
  const checkpoint = openModel(path, manifest, disk);
  const calibrations = calibrationsOf(checkpoint, calibration);
  const kernels = kernelsOf(arithmetic, checkpoint.manifest.arithmetic, path);
  return { ...checkpoint, kernels, calibrations, disk };
}

/** Opens the chosen kernels. @throws ArithmeticMismatchError */
function kernelsOf(
  choice: NonNullable<LoadOptions["arithmetic"]>,
  trained: string,
  directory: string,
): Kernels {
  if (choice !== "same") return openKernels(choice);
  const fastest = openKernels("auto");
  if (fastest.arithmetic === trained) return fastest;
  const reference = openKernels("reference");
  if (reference.arithmetic === trained) return reference;
  throw new ArithmeticMismatchError(trained, fastest.arithmetic, directory);
}

/**
 * The calibrations of a model's labels; undefined: predictions are not calibrated. `modelDigest`:
 * the model's digest, if it differs from the checkpoint's.
 * @throws CalibrationMissingError, CheckpointCorruptError
 */
export function calibrationsOf(
  { store, job, manifest }: OpenCheckpoint,
  choice: CalibrationChoice,
  modelDigest = manifest.modelDigest,
): Calibrations | undefined {
  const choices = ["stored", "required", "none"];
  if (!choices.includes(choice)) throw expected("calibration", choices.join(", "), choice);
  if (choice === "none") return undefined;
  const found = store.calibration(modelDigest);
  if (found !== undefined) return checked(found, job, store.directory);
  if (choice === "stored") return undefined;
  throw new CalibrationMissingError(store.directory, `sha256:${modelDigest}`);
}

/** @throws CheckpointCorruptError where the calibration's labels differ from the job's */
function checked({ tasks }: StoredCalibration, { data }: JobSpec, path: string): Calibrations {
  const labels = labelsOf(data);
  const isOfJob =
    tasks.length === labels.length &&
    tasks.every((one, i) => one === null || one.task === labels[i]);
  if (isOfJob) return tasks.map((one) => one ?? undefined);
  const reason = `its calibration is of other labels than ${labels.join(", ")}`;
  throw new CheckpointCorruptError(path, `${reason}; calibrate the model again`);
}
