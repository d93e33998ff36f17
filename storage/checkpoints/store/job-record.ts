// Reads the record of the job that owns a directory, or explains what the directory holds instead.

import { join } from "node:path";
import { CheckpointMissingError, InputUnusableError } from "../../../src/errors/errors.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import { diskCode } from "../../../src/ports/disk-refusals.ts";
import { readWhole } from "../../disk/durable-files.ts";
import { decodeJob, type JobRecord } from "./manifest.ts";
import { pathsOf } from "./store-paths.ts";

/**
 * The job of a checkpoint directory. @throws CheckpointMissingError, CheckpointCorruptError,
 * InputUnusableError (job.json is of another program)
 */
export function readJob(directory: string, disk: Disk): JobRecord {
  const { job } = pathsOf(directory);
  if (!disk.exists(job))
    throw new CheckpointMissingError(`${directory}: ${foundIn(directory, disk)}`);
  const bytes = readWhole(disk, job);
  if (isForeign(bytes)) {
    const message = `Expected a checkpoint directory, but ${job} is no record of a checkpoint`;
    throw new InputUnusableError(job, `${message}; name another directory`);
  }
  return decodeJob(bytes, job);
}

/**
 * Whether a file is valid JSON of another kind, rather than a damaged record. A truncated record is
 * never valid JSON, and a record with one flipped bit still has one of the fields `jobIdentity` and
 * `sha256`.
 */
function isForeign(bytes: Uint8Array): boolean {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    if (typeof value !== "object" || value === null) return true;
    return !("jobIdentity" in value) && !("sha256" in value);
  } catch {
    return false;
  }
}

/** Describes, for an error message, what is at `directory` instead of a checkpoint directory. */
function foundIn(directory: string, disk: Disk): string {
  if (!disk.exists(directory)) return "there is no such directory";
  let names: string[];
  try {
    names = disk.list(directory);
  } catch (error) {
    if (diskCode(error) !== "ENOTDIR") throw error;
    return "that is a file, expected a checkpoint directory";
  }
  const [inner] = names.filter((name) => disk.exists(pathsOf(join(directory, name)).job)).sort();
  if (inner !== undefined) return `did you mean ${join(directory, inner)}?`;
  if (names.length === 0) return "the directory is empty";
  return "the directory has no job.json; it holds other files";
}
