// Errors of checkpoints and models: missing, damaged, of another job, fenced, closed.

import { errorClass } from "./training-error.ts";

/** The requested place has no checkpoint. */
export class CheckpointMissingError extends errorClass(
  "CHECKPOINT_MISSING",
  "stop",
  (where: string) => `There is no checkpoint in ${where}`,
) {}

/** A checkpoint's bytes differ from the hashes in its manifest. */
export class CheckpointCorruptError extends errorClass(
  "CHECKPOINT_CORRUPT",
  "stop",
  (path: string, reason: string) => ({
    message: `Checkpoint ${path} is damaged: ${reason}`,
    path,
    /** The reason without the path, for callers that report it in another error. */
    reason,
  }),
) {}

/** The checkpoint belongs to another job: another model, data, optimizer or seed. */
export class CheckpointForeignError extends errorClass(
  "CHECKPOINT_FOREIGN",
  "stop",
  (directory: string, difference: string) =>
    `${directory} holds a run of another job (${difference}); ` +
    "name another directory, or delete that one",
) {}

/** Another live process of this machine trains into the directory. */
export class DirectoryHeldError extends errorClass(
  "DIRECTORY_HELD",
  "stop",
  (directory: string, pid: string, since: string) =>
    `${directory} is in use: process ${pid} of this machine trains into it since ${since}; let ` +
    "that run end, name another `checkpoint.directory`, or end that run with --take-over",
) {}

/** A newer generation owns the store: this writer is a zombie and stops. */
export class GenerationFencedError extends errorClass(
  "GENERATION_FENCED",
  "stop",
  (directory: string, generation: number, newest: number, taker: string = "another writer") =>
    `${directory} was taken over by ${taker}, which writes generation ${newest} there: ` +
    `generation ${generation} may not write any more. Let that run end, or name another ` +
    "`checkpoint.directory`",
) {}

/** The training between two checkpoints does not depend on the first checkpoint alone. */
export class NotReplayableError extends errorClass(
  "NOT_REPLAYABLE",
  "stop",
  (interval: string, why: string) => `${interval} cannot be replayed bit by bit: ${why}`,
) {}

/** A delta was made from another version of the model than the version that it is applied to. */
export class DeltaRefusedError extends errorClass(
  "DELTA_REFUSED",
  "stop",
  (path: string, why: string) => ({ message: `Cannot apply ${path}: ${why}`, path }),
) {}

/** Calibrated predictions are requested from a model without a stored calibration. */
export class CalibrationMissingError extends errorClass(
  "CALIBRATION_MISSING",
  "stop",
  (where: string, digest: string) =>
    `There is no calibration of the model ${digest} in ${where}: ` +
    "run `osiris calibrate`, or request predictions that are not calibrated",
) {}

/** A loaded model is used after it was closed. */
export class ModelClosedError extends errorClass(
  "MODEL_CLOSED",
  "stop",
  (call: string) =>
    `Cannot ${call} with a model that is closed: ` +
    "close it after the last call, or load it again with `loadModel`",
) {}
