// Finds the calibration stored with a model, according to the caller's choice.

import { labelsOf } from "../../src/data/targets.ts";
import { CalibrationMissingError, CheckpointCorruptError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { expected } from "../../src/ports/check-options.ts";
import type { OpenCheckpoint } from "../checkpoints/open-checkpoint.ts";
import type { StoredCalibration } from "../checkpoints/store/stored-calibration.ts";
import type { Calibrations } from "./predictor.ts";

/**
 * Whether predictions are calibrated. `stored`: if a calibration is stored with the model.
 * `required`: always; a model without a calibration is refused. `none`: never.
 */
export type CalibrationChoice = "stored" | "required" | "none";

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
