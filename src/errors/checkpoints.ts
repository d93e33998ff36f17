// Errors of checkpoints: missing, corrupt, of another job, refused by the disk, or not replayable.

import { TrainingError } from "./training-error.ts";

/** The requested place has no checkpoint. */
export class CheckpointMissingError extends TrainingError {
  readonly code = "CHECKPOINT_MISSING";
  readonly recovery = "stop";

  constructor(where: string, options?: ErrorOptions) {
    super(`There is no checkpoint in ${where}`, options);
  }
}

/** A checkpoint's bytes differ from the hashes in its manifest. */
export class CheckpointCorruptError extends TrainingError {
  readonly code = "CHECKPOINT_CORRUPT";
  readonly recovery = "stop";
  readonly path: string;
  /** The reason without the path, from which callers make another error for the same path. */
  readonly reason: string;

  constructor(path: string, reason: string, options?: ErrorOptions) {
    super(`Checkpoint ${path} is damaged: ${reason}`, options);
    this.path = path;
    this.reason = reason;
  }
}

/** The checkpoint belongs to another job: another model, data, optimizer or seed. */
export class CheckpointForeignError extends TrainingError {
  readonly code = "CHECKPOINT_FOREIGN";
  readonly recovery = "stop";

  constructor(directory: string, difference: string) {
    super(
      `${directory} holds a run of another job (${difference}); ` +
        "name another directory, or delete that one",
    );
  }
}

/** A newer generation owns the store: this writer is a zombie and stops. */
export class GenerationFencedError extends TrainingError {
  readonly code = "GENERATION_FENCED";
  readonly recovery = "stop";

  constructor(directory: string, generation: number, newest: number, taker = "another writer") {
    super(
      `${directory} was taken over by ${taker}, which writes generation ${newest} there: ` +
        `generation ${generation} may not write any more. Let that run end, or name another ` +
        "`checkpoint.directory`",
    );
  }
}

/** Another live process of this machine trains into the directory. */
export class DirectoryHeldError extends TrainingError {
  readonly code = "DIRECTORY_HELD";
  readonly recovery = "stop";

  constructor(directory: string, pid: string, since: string) {
    super(
      `${directory} is in use: process ${pid} of this machine trains into it since ${since}; let that ` +
        "run end, name another `checkpoint.directory`, or end that run with --take-over",
    );
  }
}

/** A read or a write of the disk failed, or a data server did not respond. */
export class StoreFailedError extends TrainingError {
  readonly code = "STORE_FAILED";
  readonly recovery = "restore";
  readonly path: string;

  constructor(action: string, path: string, options?: ErrorOptions) {
    const reason = options?.cause instanceof Error ? `: ${options.cause.message}` : "";
    super(`Cannot ${action} ${path}${reason}`, options);
    this.path = path;
  }
}

/**
 * The disk refuses a directory or a file permanently: no permission, a read-only file system, a
 * file in the place of a directory. A restart would fail in the same way.
 */
export class DiskRefusedError extends TrainingError {
  readonly code = "DISK_REFUSED";
  readonly recovery = "stop";
  readonly path: string;

  constructor(action: string, path: string, why: string, options?: ErrorOptions) {
    super(`Cannot ${action} ${path}: ${why}`, options);
    this.path = path;
  }
}

/** The training between two checkpoints does not depend on the first checkpoint alone. */
export class NotReplayableError extends TrainingError {
  readonly code = "NOT_REPLAYABLE";
  readonly recovery = "stop";

  constructor(interval: string, why: string) {
    super(`${interval} cannot be replayed bit by bit: ${why}`);
  }
}

/** A delta was made from another version of the model than the version that it is applied to. */
export class DeltaRefusedError extends TrainingError {
  readonly code = "DELTA_REFUSED";
  readonly recovery = "stop";
  readonly path: string;

  constructor(path: string, why: string) {
    super(`Cannot apply ${path}: ${why}`);
    this.path = path;
  }
}

/** Calibrated predictions are requested of a model that has no stored calibration. */
export class CalibrationMissingError extends TrainingError {
  readonly code = "CALIBRATION_MISSING";
  readonly recovery = "stop";

  constructor(where: string, digest: string) {
    const message = `There is no calibration of the model ${digest} in ${where}`;
    super(`${message}: run \`osiris calibrate\`, or ask for no calibrated predictions`);
  }
}

/** A loaded model is used after it was closed. */
export class ModelClosedError extends TrainingError {
  readonly code = "MODEL_CLOSED";
  readonly recovery = "stop";

  constructor(call: string) {
    super(
      `Cannot ${call} with a model that is closed: ` +
        "close it after the last call, or load it again with `loadModel`",
    );
  }
}
