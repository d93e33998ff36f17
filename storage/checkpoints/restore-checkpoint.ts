// Makes an earlier checkpoint of the chain its newest again. Nothing is copied or removed: the
// record of a new generation names that checkpoint as its origin (manifest-chain.ts), which takes
// later checkpoints off the chain.

import { CheckpointCorruptError } from "../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { type ProgressOptions, progressOf } from "../disk/progress.ts";
import { type CheckpointRecord, recordOf } from "./list-checkpoints.ts";
import { openCheckpoint } from "./open-checkpoint.ts";
import { digestOfParts } from "./part-digest.ts";

/** The effect of a restore, planned or done. */
export interface RestoreReport {
  /** The newest checkpoint after the restore. */
  readonly checkpoint: CheckpointRecord;
  /** Later checkpoints, newest first: taken off the chain, and removed by the run's next commit. */
  readonly givenUp: readonly CheckpointRecord[];
  /**
   * The generation claimed for the restore; undefined where the checkpoint is the newest already.
   */
  readonly generation: number | undefined;
}

/**
 * Reports the checkpoints that a restore would give up, without changing anything. @throws as
 * `restoreCheckpoint`
 */
export function planRestore(
  directory: string,
  manifest: string,
  disk: Disk = realDisk,
): RestoreReport {
  const checkpoint = openCheckpoint(directory, manifest, disk);
  const { manifests } = checkpoint.store.list();
  const at = manifests.findIndex(({ sha256 }) => sha256 === checkpoint.manifest.sha256);
  const givenUp = manifests.slice(0, at).map((one) => recordOf(one));
  return { checkpoint: recordOf(checkpoint.manifest), givenUp, generation: undefined };
}

/**
 * Makes a checkpoint the newest of its directory, after reading it back and checking its digest.
 * `manifest` is a prefix of its manifest's hash. A run submitted to the directory continues from
 * it; a run that still writes there is fenced and ends. @throws CheckpointMissingError,
 * CheckpointCorruptError, InputUnusableError
 */
export async function restoreCheckpoint(
  directory: string,
  manifest: string,
  options: ProgressOptions = {},
): Promise<RestoreReport> {
  const planned = planRestore(directory, manifest, options.disk);
  if (planned.givenUp.length === 0) return planned;
  const checkpoint = openCheckpoint(directory, planned.checkpoint.manifest, options.disk);
  const progress = progressOf(options);
  progress.expect(planned.checkpoint.bytes + planned.checkpoint.baseBytes);
  const digest = `sha256:${await digestOfParts(checkpoint, progress)}`;
  // Parts in fewer bits have another digest than the model; their hashes were checked.
  if (checkpoint.job.checkpoint.bits === 32 && digest !== planned.checkpoint.digest) {
    const reason = `its parts have the digest ${digest}, expected ${planned.checkpoint.digest}`;
    throw new CheckpointCorruptError(directory, reason);
  }
  const { generation } = checkpoint.store.beginGeneration(checkpoint.manifest);
  return { ...planned, generation };
}
