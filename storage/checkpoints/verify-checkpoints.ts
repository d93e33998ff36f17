// Verifies that checkpoints match their manifests: reads every byte, and computes the model's
// digest from the rows and weights on disk.

import { CheckpointMissingError, TrainingError } from "../../src/errors/errors.ts";
import { type ProgressOptions, progressOf } from "../disk/progress.ts";
import { jobOf, manifestOf } from "./open-checkpoint.ts";
import { digestOfParts } from "./part-digest.ts";
import {
  bytesToRead,
  type CheckpointStore,
  type Damage,
  type Manifest,
} from "./store/checkpoint-store.ts";
import { isDamage } from "./store/look-at-checkpoint.ts";
import { openExistingStore } from "./store/open-store.ts";

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
  /** Of a checkpoint in fewer bits than the model: the digest of the weights as stored. */
  readonly storedDigest: string | undefined;
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
  /** Parts of the model whose bytes lead to the digest, if the checkpoint is intact. */
  readonly proven: readonly string[];
  /**
   * Tables of a model file without the state of elements, which their digests cover: the export
   * computed these digests, and the bytes have hashes of their own.
   */
  readonly stated: readonly string[];
}

/**
 * Reads the checkpoints of a directory, or of a model file, newest first. The report names damaged
 * checkpoints, and leaves out checkpoints that their run removes meanwhile.
 * @throws CheckpointMissingError, InputUnusableError
 * @throws CheckpointCorruptError where the records of a model file are damaged
 */
export async function verifyCheckpoints(
  directory: string,
  options: VerifyOptions = {},
): Promise<VerifyReport> {
  const store = openExistingStore(directory, options.disk);
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
    let storedDigest: string | undefined;
    try {
      const found = await digestOfParts({ store, job, manifest }, progress);
      if (job.checkpoint.bits !== 32) storedDigest = `sha256:${found}`;
      else if (found !== modelDigest) {
        reason = `its parts have the digest sha256:${found}, expected sha256:${modelDigest}`;
      }
    } catch (error) {
      if (!(error instanceof TrainingError)) throw error;
      if (wasRemoved(store, manifest)) continue;
      reason = ((await blamedFile(store, manifest)) ?? error).message;
    }
    const [bytes, digest] = [bytesOf(manifest), `sha256:${modelDigest}`];
    const about = { cut, generation, manifest: sha256, bytes, digest };
    checkpoints.push({ ...about, storedDigest, reason });
  }
  const [first] = chosen;
  if (checkpoints.length === 0 && first !== undefined) {
    throw new CheckpointMissingError(
      `${directory} of step ${first.cut}, which was removed meanwhile`,
    );
  }
  const beside = named === undefined ? damaged : [];
  const isIntact = beside.length === 0 && checkpoints.every(({ reason }) => reason === undefined);
  const names = job.model.tables.map(({ name }) => `table ${name}`);
  const stated = store.statedDigests === undefined ? [] : names;
  const proven = ["dense network"];
  for (const { name, dynamic } of job.model.tables) {
    if (stated.length === 0) proven.push(`table ${name}`);
    if (dynamic !== undefined) proven.push(`ids of table ${name}`);
  }
  return { checkpoints, damaged: beside, isIntact, proven, stated };
}

/** Whether a run has removed the checkpoint since it was listed: its manifest goes first. */
function wasRemoved(store: CheckpointStore, manifest: Manifest): boolean {
  try {
    store.manifestText(manifest);
    return false;
  } catch (error) {
    if (isDamage(error)) return true;
    throw error;
  }
}

/**
 * The error that names the damaged file. A flipped byte may cause a decoding error before the
 * file's hash is checked; this error is clearer.
 */
async function blamedFile(
  store: CheckpointStore,
  manifest: Manifest,
): Promise<TrainingError | undefined> {
  try {
    await store.verify(manifest);
    return undefined;
  } catch (error) {
    if (!(error instanceof TrainingError)) throw error;
    return error;
  }
}

function bytesOf({ parts }: Manifest): number {
  return parts.reduce((sum, part) => sum + bytesToRead(part), 0);
}
