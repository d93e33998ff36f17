// Lists the chain of a checkpoint directory for people.

import { statSync } from "node:fs";
import { dirname } from "node:path";
import { CheckpointCorruptError } from "../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { isObjectAddress } from "../../src/ports/object-store.ts";
import {
  bytesToRead,
  type CheckpointStore,
  type Damage,
  type Descent,
  type Manifest,
} from "./store/checkpoint-store.ts";
import { isModelFile } from "./store/file-checkpoint-store.ts";
import { openExistingStore } from "./store/open-store.ts";
import { checkpointName, parseCheckpointName, pathsOf } from "./store/store-paths.ts";

/** A checkpoint of the chain. */
export interface CheckpointRecord {
  readonly run: string;
  /** Step number. */
  readonly cut: number;
  readonly generation: number;
  /** Hash of its manifest. */
  readonly manifest: string;
  /** Hash of the preceding manifest on the chain; null for the first. */
  readonly parent: string | null;
  /** The generations that led to the checkpoint, oldest first. */
  readonly lineage: readonly Descent[];
  /** Bytes of its own files. */
  readonly bytes: number;
  /** Bytes of its base files, which belong to earlier checkpoints; 0 where it is whole. */
  readonly baseBytes: number;
  readonly parts: number;
  readonly best: boolean;
  /** Digest of the model: `sha256:…`. */
  readonly digest: string;
  readonly arithmetic: string;
  /** The instruction sets of the devices that trained it, where its manifest names them. */
  readonly sets?: Manifest["sets"];
  /** `async`: no other training gives this model again (`mode: "async"`). */
  readonly mode?: Manifest["mode"];
  /** Whether a calibration is stored for the model; absent: none, or not part of a list. */
  readonly calibration?: "stored" | "damaged";
  /**
   * Milliseconds since 1970, by the file system; undefined on a disk other than the machine's own,
   * and in an object store.
   */
  readonly committedAtMs: number | undefined;
}

/** The contents of a checkpoint directory. */
export interface CheckpointList {
  /** Newest first. */
  readonly checkpoints: readonly CheckpointRecord[];
  /** Checkpoints of the chain that cannot be used, and why. */
  readonly damaged: readonly Damage[];
  /**
   * Directories of checkpoints off the chain: given up by a restore, or never committed. The run's
   * next checkpoint removes them.
   */
  readonly offChain: readonly string[];
}

/**
 * Lists the checkpoints of a directory, or of a model file. Parts are checked by size only.
 * @throws CheckpointMissingError (no checkpoint directory), InputUnusableError
 */
export function listCheckpoints(
  directory: string,
  { disk = realDisk }: { readonly disk?: Disk } = {},
): CheckpointList {
  const store = openExistingStore(directory, disk);
  const { manifests, damaged } = store.list();
  const isFile = isModelFile(directory, disk);
  const timeOf = ({ cut, generation }: Manifest) => {
    if (disk !== realDisk || isObjectAddress(directory)) return undefined;
    const path = isFile ? directory : pathsOf(directory).manifest(cut, generation);
    return statSync(path, { throwIfNoEntry: false })?.mtimeMs; // A run may remove it.
  };
  const onChain = new Set(manifests.map(({ cut, generation }) => checkpointName(cut, generation)));
  const isDamaged = (name: string) =>
    damaged.some(({ path }) => dirname(path).endsWith(name) || path.endsWith(name));
  const offChain = store.checkpoints().filter((name) => {
    return parseCheckpointName(name) !== undefined && !onChain.has(name) && !isDamaged(name);
  });
  const checkpoints = manifests.map((one) => {
    return { ...recordOf(one, timeOf(one)), ...calibrationOf(store, one) };
  });
  return { checkpoints, damaged, offChain };
}

function calibrationOf(
  store: CheckpointStore,
  { modelDigest }: Manifest,
): Pick<CheckpointRecord, "calibration"> {
  try {
    return store.calibration(modelDigest) === undefined ? {} : { calibration: "stored" };
  } catch (error) {
    if (error instanceof CheckpointCorruptError) return { calibration: "damaged" };
    throw error;
  }
}

/** The public record of a manifest. */
export function recordOf(manifest: Manifest, committedAtMs?: number): CheckpointRecord {
  const { run, cut, generation, parent, lineage, parts, best, modelDigest, arithmetic } = manifest;
  return {
    run,
    cut,
    generation,
    manifest: manifest.sha256,
    parent: parent?.sha256 ?? null,
    lineage,
    bytes: parts.reduce((sum, part) => sum + part.bytes, 0),
    baseBytes: parts.reduce((sum, part) => sum + bytesToRead(part) - part.bytes, 0),
    parts: parts.length,
    best,
    digest: `sha256:${modelDigest}`,
    arithmetic,
    ...(manifest.sets !== undefined && { sets: manifest.sets }),
    ...(manifest.mode !== undefined && { mode: manifest.mode }),
    committedAtMs,
  };
}
