// Selects a checkpoint of a directory, and parses its job.

import {
  CheckpointCorruptError,
  CheckpointMissingError,
  InputUnusableError,
  PathForbiddenError,
} from "../../src/errors/errors.ts";
import { type JobSpec, resolveJob } from "../../src/job/job.ts";
import { allowedModels, allowedModule } from "../../src/model/custom/allowed-modules.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import type { CheckpointStore, Manifest } from "./store/checkpoint-store.ts";
import { openExistingStore } from "./store/open-store.ts";

/** A checkpoint opened for reading. */
export interface OpenCheckpoint {
  readonly store: CheckpointStore;
  readonly job: JobSpec;
  readonly manifest: Manifest;
}

/**
 * Opens a checkpoint: `which` is a prefix of its manifest's hash, `best` or `last`. Left out: the
 * best checkpoint where the job has early stopping, else the newest. @throws
 * CheckpointMissingError, CheckpointCorruptError, InputUnusableError (the prefix is ambiguous)
 */
export function openCheckpoint(
  directory: string,
  which?: string,
  disk: Disk = realDisk,
): OpenCheckpoint {
  const store = openExistingStore(directory, disk);
  const job = jobOf(store);
  return { store, job, manifest: manifestOf(store, job, which) };
}

/** The job of a store. @throws CheckpointCorruptError where it is not JSON */
export function jobOf({
  directory,
  jobText,
}: Pick<CheckpointStore, "directory" | "jobText">): JobSpec {
  try {
    return resolveJob(JSON.parse(jobText));
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new CheckpointCorruptError(directory, "its job is not valid JSON", { cause });
  }
}

/**
 * Opens a checkpoint in order to run its model. A custom model's job names a module that would be
 * executed, so the module must be on the allowed list. @throws as `openCheckpoint`;
 * PathForbiddenError
 */
export function openModel(directory: string, which?: string, disk?: Disk): OpenCheckpoint {
  const checkpoint = openCheckpoint(directory, which, disk);
  return { ...checkpoint, job: withAllowedModule(directory, checkpoint.job) };
}

/** The job, with the allowed path of its custom module. @throws PathForbiddenError */
export function withAllowedModule(directory: string, job: JobSpec): JobSpec {
  const { model } = job;
  if (model.kind !== "custom") return job;
  const path = allowedModule(model.path);
  if (path !== undefined) return { ...job, model: { ...model, path } };
  throw PathForbiddenError.ofCheckpoint(directory, model.path, allowedModels());
}

/** See `openCheckpoint`. */
export function manifestOf(store: CheckpointStore, job: JobSpec, which?: string): Manifest {
  const { manifests, damaged } = store.list();
  const found = foundIn(store, job, manifests, which);
  if (found !== undefined) return found;
  const [first] = damaged;
  if (first !== undefined) throw new CheckpointCorruptError(first.path, first.reason);
  throw new CheckpointMissingError(`${store.directory}${whichIs(which)}`);
}

function foundIn(
  store: CheckpointStore,
  job: JobSpec,
  manifests: readonly Manifest[],
  which: string | undefined,
): Manifest | undefined {
  switch (which) {
    case undefined:
      return usual(manifests, job);
    case "best":
      return manifests.find((one) => one.best);
    case "last":
      return manifests[0];
    default:
      return named(store, manifests, which);
  }
}

/** End of the error message about a missing checkpoint. */
function whichIs(which: string | undefined): string {
  if (which === undefined || which === "last") return "";
  if (which !== "best") return ` whose manifest has the hash ${which}`;
  return " that is the best: `evaluation.keepBest` or `evaluation.earlyStopping` keeps one";
}

function usual(manifests: readonly Manifest[], job: JobSpec): Manifest | undefined {
  const best = manifests.find((one) => one.best);
  return job.evaluation?.earlyStopping === undefined ? manifests[0] : (best ?? manifests[0]);
}

function named(
  { directory }: CheckpointStore,
  manifests: readonly Manifest[],
  sha256: string,
): Manifest | undefined {
  const [first, second] = manifests.filter((one) => one.sha256.startsWith(sha256));
  if (second === undefined) return first;
  const message = `Expected one manifest whose hash begins with ${sha256} in ${directory}, found two`;
  throw new InputUnusableError(directory, `${message}; give more of its digits`);
}
