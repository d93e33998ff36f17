// Errors of disks: failed reads and writes, refused directories, and rows of the SSD tier.

import { errorClass } from "./training-error.ts";

/** A read or a write of the disk failed, or a data server or an object store did not respond. */
export class StoreFailedError extends errorClass(
  "STORE_FAILED",
  "restore",
  (action: string, path: string, options?: ErrorOptions) => ({
    message:
      `Cannot ${action} ${path}` +
      (options?.cause instanceof Error ? `: ${options.cause.message}` : ""),
    path,
  }),
) {}

/**
 * An object store ignores `If-None-Match: *`, or returns older bytes than were written, so that two
 * leaders could both commit.
 */
export class StoreUnfencedError extends errorClass(
  "STORE_UNFENCED",
  "stop",
  (address: string, did: string) => ({
    message:
      `Cannot keep checkpoints in ${address}: ${did}, so that two writers could both commit; use ` +
      "a store that refuses the second, as Amazon S3, Ceph RGW and versitygw do, or a directory; " +
      "`osiris doctor --store` shows what this one does",
    path: address,
  }),
) {}

/**
 * The disk refuses a directory or a file permanently: no permission, a read-only file system, a
 * file in the place of a directory. A restart would fail in the same way.
 */
export class DiskRefusedError extends errorClass(
  "DISK_REFUSED",
  "stop",
  (action: string, path: string, why: string) => ({
    message: `Cannot ${action} ${path}: ${why}`,
    path,
  }),
) {}

/** The disk has no room for rows evicted from memory. A replay would need the same room. */
export class TierDiskFullError extends errorClass(
  "TIER_DISK_FULL",
  "stop",
  (what: string, path: string, reason: string) => ({
    message:
      `Expected room for ${what} in ${path}, the disk is full (${reason}): ` +
      "make room or name another directory; a run goes on from its last checkpoint",
    path,
  }),
) {}

/** The disk failed to read rows of the tier. */
export class TierReadError extends errorClass(
  "TIER_READ",
  "restore",
  (what: string, path: string, reason: string) => ({
    message:
      `Cannot read ${what} from ${path} (${reason}): ` +
      "check the disk, or name another directory; a run goes on from its last checkpoint",
    path,
  }),
) {}

/** The disk failed to write rows of the tier, although it is not full. */
export class TierWriteError extends errorClass(
  "TIER_WRITE",
  "restore",
  (what: string, path: string, reason: string) => ({
    message:
      `Cannot write ${what} to ${path} (${reason}): check that the directory exists and the ` +
      "disk works; a run goes on from its last checkpoint",
    path,
  }),
) {}

/** The bytes on the disk differ from the row that was written. The row was not returned. */
export class RecordCorruptError extends errorClass(
  "RECORD_CORRUPT",
  "restore",
  (what: string, path: string, reason: string) => ({
    message:
      `Expected ${what} in ${path} as it was written, ${reason}: ` +
      "check the disk; a run goes on from its last checkpoint",
    path,
  }),
) {}
