// Verifies that checkpoints match their manifests: reads every byte, and computes the model's
// digest from the rows and weights on disk.

import { TrainingError } from "../../src/errors/errors.ts";
import { type ProgressOptions, progressOf } from "../disk/progress.ts";
import { jobOf, manifestOf } from "./open-checkpoint.ts";
import { digestOfParts } from "./part-digest.ts";
import {
  bytesToRead,
  type CheckpointStore,
  type Damage,
  type Manifest,
} from "./store/checkpoint-store.ts";
import { openExistingStore } from "./store/directory-checkpoint-store.ts";
import { needState } from "./store/file-checkpoint-store.ts";

/** Options of `verifyCheckpoints`. */
export interface VerifyOptions extends ProgressOptions {
  /** Prefix of a manifest's hash: verify only this checkpoint. @default all of the chain */
  readonly manifest?: string | undefined;
}

/** The result for one checkpoint that was read whole. */
export interface VerifiedCheckpoint {
  readonly cut: number;
  readonly generation: number;
  /** Hash of its manifest. */
  readonly manifest: string;
  /** Bytes read, of its own files and its base files. */
  readonly bytes: number;
  /** The digest in the manifest: `sha256:…`. */
  readonly digest: string;
  /** Why the checkpoint is not intact; undefined: it is. */
  readonly reason: string | undefined;
}

/** The result of `verifyCheckpoints`. */
export interface VerifyReport {
  /** Newest first. */
  readonly checkpoints: readonly VerifiedCheckpoint[];
  /** Checkpoints of the chain with an unreadable manifest. */
  readonly damaged: readonly Damage[];
  readonly isIntact: boolean;
}

/**
 * Reads checkpoints back, newest first. Damage is in the report. @throws CheckpointMissingError,
 * InputUnusableError
 */
export async function verifyCheckpoints(
  directory: string,
  options: VerifyOptions = {},
): Promise<VerifyReport> {
  const store = openExistingStore(directory, options.disk);
  needState(store, "the digest of whole rows");
  const job = jobOf(store);
  const { manifests, damaged } = store.list();
  const named = options.manifest;
  const chosen = named === undefined ? manifests : [manifestOf(store, job, named)];
  const progress = progressOf(options);
  for (const manifest of chosen) progress.expect(bytesOf(manifest));
  const checkpoints: VerifiedCheckpoint[] = [];
  for (const manifest of chosen) {
    const { cut, generation, sha256, modelDigest } = manifest;
    let reason: string | undefined;
    try {
      const found = await digestOfParts({ store, job, manifest }, progress);
      if (found !== modelDigest) {
        reason = `its parts have the digest sha256:${found}, expected sha256:${modelDigest}`;
      }
    } catch (error) {
      if (!(error instanceof TrainingError)) throw error;
      reason = (blamedFile(store, manifest) ?? error).message;
    }
    const [bytes, digest] = [bytesOf(manifest), `sha256:${modelDigest}`];
    checkpoints.push({ cut, generation, manifest: sha256, bytes, digest, reason });
  }
  const beside = named === undefined ? damaged : [];
  const isIntact = beside.length === 0 && checkpoints.every(({ reason }) => reason === undefined);
  return { checkpoints, damaged: beside, isIntact };
}

/**
 * The error that names the damaged file. A flipped byte may cause a decoding error before the
 * file's hash is checked; this error is clearer.
 */
function blamedFile(store: CheckpointStore, manifest: Manifest): TrainingError | undefined {
  try {
    store.verify(manifest);
    return undefined;
  } catch (error) {
    if (!(error instanceof TrainingError)) throw error;
    return error;
  }
}

function bytesOf({ parts }: Manifest): number {
  return parts.reduce((sum, part) => sum + bytesToRead(part), 0);
}
