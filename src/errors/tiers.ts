// The errors of the SSD tier: what a disk does to rows that do not fit into memory.

import { TrainingError } from "./errors.ts";

/** There is no room for rows that have to leave memory. Replaying would need the same room. */
export class TierDiskFullError extends TrainingError {
  readonly code = "TIER_DISK_FULL";
  readonly recovery = "stop";
  readonly path: string;

  constructor(what: string, path: string, reason: string, options?: ErrorOptions) {
    super(
      `Expected room for ${what} in ${path}, the disk is full (${reason}): ` +
        "make room or name another directory; the run goes on from its last checkpoint",
      options,
    );
    this.path = path;
  }
}

/** The disk did not give back rows that lie on it. */
export class TierReadError extends TrainingError {
  readonly code = "TIER_READ";
  readonly recovery = "restore";
  readonly path: string;

  constructor(what: string, path: string, reason: string, options?: ErrorOptions) {
    super(
      `Cannot read ${what} from ${path} (${reason}): ` +
        "check the disk, or name another directory; the run goes on from its last checkpoint",
      options,
    );
    this.path = path;
  }
}

/** The disk refused rows for another reason than that it is full. */
export class TierWriteError extends TrainingError {
  readonly code = "TIER_WRITE";
  readonly recovery = "restore";
  readonly path: string;

  constructor(what: string, path: string, reason: string, options?: ErrorOptions) {
    super(
      `Cannot write ${what} to ${path} (${reason}): check that the directory is there and the ` +
        "disk is well; the run goes on from its last checkpoint",
      options,
    );
    this.path = path;
  }
}

/** What lies on the disk is not the row that was written there: it was never handed out. */
export class RecordCorruptError extends TrainingError {
  readonly code = "RECORD_CORRUPT";
  readonly recovery = "restore";
  readonly path: string;

  constructor(what: string, path: string, reason: string, options?: ErrorOptions) {
    super(
      `Expected ${what} in ${path} as it was written, ${reason}: ` +
        "check the disk; the run goes on from its last checkpoint",
      options,
    );
    this.path = path;
  }
}
