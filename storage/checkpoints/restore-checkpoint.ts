// Going back: a checkpoint of the chain becomes its newest one again. Nothing is copied or removed;
// a new generation's record says that it goes on from there (manifest-chain.ts), and what came
// later is off the chain from then on.

import { CheckpointCorruptError } from "../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { type PaceOptions, paceOf } from "../disk/progress.ts";
import { type CheckpointRecord, recordOf } from "./list-checkpoints.ts";
import { openCheckpoint } from "./open-checkpoint.ts";
import { digestOfParts } from "./part-digest.ts";

/** What going back means, before or after it was done. */
export interface RestoreReport {
  /** The newest from then on. */
  readonly checkpoint: CheckpointRecord;
  /** Later ones, newest first: off the chain, and removed by the run's next checkpoints. */
  readonly givenUp: readonly CheckpointRecord[];
  /** The generation that was claimed for it; undefined where it is the newest already. */
  readonly generation: number | undefined;
}

/** What going back to a checkpoint would give up; nothing is changed. Errors as below. */
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
 * Makes the checkpoint whose manifest's hash begins with `manifest` the newest of its directory,
 * once it was read back whole: a run that is submitted there goes on from it. A run that still
 * writes there is fenced, and ends.
 * @throws CheckpointMissingError, CheckpointCorruptError, InputUnusableError
 */
export async function restoreCheckpoint(
  directory: string,
  manifest: string,
  options: PaceOptions = {},
): Promise<RestoreReport> {
  const planned = planRestore(directory, manifest, options.disk);
  if (planned.givenUp.length === 0) return planned;
  const checkpoint = openCheckpoint(directory, planned.checkpoint.manifest, options.disk);
  const pace = paceOf(options);
  pace.expect(planned.checkpoint.bytes + planned.checkpoint.baseBytes);
  const digest = `sha256:${await digestOfParts(checkpoint, pace)}`;
  if (digest !== planned.checkpoint.digest) {
    const reason = `its parts have the digest ${digest}, expected ${planned.checkpoint.digest}`;
    throw new CheckpointCorruptError(directory, reason);
  }
  const { generation } = checkpoint.store.beginGeneration(checkpoint.manifest);
  return { ...planned, generation };
}
