// Fits a calibration to samples that a model was not trained on, and stores it with the model.

import { shownPath } from "../../src/data/remote/addresses.ts";
import { CheckpointCorruptError, InvalidOptionError } from "../../src/errors/errors.ts";
import type { EvaluationData } from "../../src/job/evaluation-options.ts";
import { openCheckpoint } from "../checkpoints/open-checkpoint.ts";
import type { CheckpointStore } from "../checkpoints/store/checkpoint-store.ts";
import type { StoredCalibration } from "../checkpoints/store/stored-calibration.ts";
import { type LoadOptions, loadModel } from "./load-model.ts";
import type { EvaluateOptions } from "./model.ts";

/** Options of `calibrateModel`. */
export interface CalibrateOptions
  extends Pick<LoadOptions, "manifest" | "disk">,
    Omit<EvaluateOptions, "thresholds"> {
  /** Samples with labels. @default the samples that the job holds out */
  readonly data?: EvaluationData | undefined;
}

/** The stored calibration, and the model that it belongs to. */
export interface CalibrateReport extends StoredCalibration {
  readonly directory: string;
  readonly step: number;
}

/**
 * Fits a calibration to the labels of `data`, or of the samples that the job holds out, and stores
 * it in the directory, or the `.osiris` file, replacing an earlier one. The model and its digest do
 * not change.
 * @throws as `loadModel` and `Model.evaluate`; StoreFailedError
 * @throws InvalidOptionError where the samples are of one class, or all labels are numbers
 */
export async function calibrateModel(
  directory: string,
  { data, manifest, disk, ...how }: CalibrateOptions = {},
): Promise<CalibrateReport> {
  await using model = await loadModel(directory, { manifest, disk });
  const { digest, step } = model;
  if (!model.numeric.includes(false)) {
    const message = "Expected a model that predicts a probability: its labels are numbers";
    throw new InvalidOptionError("calibrate", message);
  }
  const fitted = await model.calibrate(data, how);
  const tasks = fitted.map((one, i) => one && { task: model.tasks[i] ?? "", ...one });
  const { paths = ["other data"] } = (data ?? {}) as { readonly paths?: readonly string[] };
  const by = data === undefined ? "held-out" : paths.map(shownPath).join(", ");
  const calibration: StoredCalibration = {
    ...{ version: 1, digest, by },
    tasks: tasks.map((one) => one ?? null),
  };
  const { store } = openCheckpoint(directory, manifest, disk);
  store.setCalibration({ modelDigest: hexOf(digest) }, calibration);
  return { directory, step, ...calibration };
}

/**
 * Removes the calibration of a model, even a damaged one. Returns whether there was one.
 * @throws CheckpointMissingError, CheckpointCorruptError, StoreFailedError
 * @throws InputUnusableError where `manifest` is a prefix of several hashes
 */
export function removeCalibration(
  directory: string,
  { manifest, disk }: Pick<LoadOptions, "manifest" | "disk"> = {},
): boolean {
  const { store, manifest: found } = openCheckpoint(directory, manifest, disk);
  const wasThere = isStored(store, found.modelDigest);
  if (wasThere) store.setCalibration(found, undefined);
  return wasThere;
}

function isStored(store: CheckpointStore, modelDigest: string): boolean {
  try {
    return store.calibration(modelDigest) !== undefined;
  } catch (error) {
    if (error instanceof CheckpointCorruptError) return true;
    throw error;
  }
}

function hexOf(digest: string): string {
  return digest.replace(/^sha256:/, "");
}
