// Errors of the SSD tier: the disk fails to write or read rows that do not fit into memory.

import { TrainingError } from "./training-error.ts";

/** The disk has no room for rows evicted from memory. A replay would need the same room. */
export class TierDiskFullError extends TrainingError {
  readonly code = "TIER_DISK_FULL";
  readonly recovery = "stop";
  readonly path: string;

  constructor(what: string, path: string, reason: string, options?: ErrorOptions) {
    super(
      `Expected room for ${what} in ${path}, the disk is full (${reason}): ` +
        "make room or name another directory; a run goes on from its last checkpoint",
      options,
    );
    this.path = path;
  }
}

/** The disk failed to read rows of the tier. */
export class TierReadError extends TrainingError {
  readonly code = "TIER_READ";
  readonly recovery = "restore";
  readonly path: string;

  constructor(what: string, path: string, reason: string, options?: ErrorOptions) {
    super(
      `Cannot read ${what} from ${path} (${reason}): ` +
        "check the disk, or name another directory; a run goes on from its last checkpoint",
      options,
    );
    this.path = path;
  }
}

/** The disk failed to write rows of the tier, although it is not full. */
export class TierWriteError extends TrainingError {
  readonly code = "TIER_WRITE";
  readonly recovery = "restore";
  readonly path: string;

  constructor(what: string, path: string, reason: string, options?: ErrorOptions) {
    super(
      `Cannot write ${what} to ${path} (${reason}): check that the directory is there and the ` +
        "disk is well; a run goes on from its last checkpoint",
      options,
    );
    this.path = path;
  }
}

/** The bytes on the disk differ from the row that was written. The row was not returned. */
export class RecordCorruptError extends TrainingError {
  readonly code = "RECORD_CORRUPT";
  readonly recovery = "restore";
  readonly path: string;

  constructor(what: string, path: string, reason: string, options?: ErrorOptions) {
    super(
      `Expected ${what} in ${path} as it was written, ${reason}: ` +
        "check the disk; a run goes on from its last checkpoint",
      options,
    );
    this.path = path;
  }
}
