// Checks the checkpoints of a chain: reads their manifests, and distinguishes damage from failures
// of the disk, which may be transient.

import {
  CheckpointCorruptError,
  CheckpointMissingError,
  StoreFailedError,
} from "../../../src/errors/errors.ts";
import { diskCode } from "../../../src/ports/disk-refusals.ts";
import { onDisk } from "../../disk/durable-files.ts";
import type { Damage, Manifest } from "./checkpoint-store.ts";
import { decodeManifest } from "./manifest.ts";
import { filesNeeded, type NeededFile } from "./part-index.ts";
import type { PartPlace, Place } from "./place.ts";

/** The part of a place that checking a checkpoint needs. */
export type Looking = PartPlace & Pick<Place, "jobIdentity" | "manifests" | "read">;

/** The name of a checkpoint. */
type Of = Pick<Manifest, "cut" | "generation">;

/** Damage, and the checkpoint that it makes unusable. */
export interface FoundDamage extends Damage {
  readonly of?: Of;
}

/** The reason given for a file that is missing. */
export const notThere = "it is not there";

/** Most manifests in memory: the newest, the best, a baseline, and some between. */
const manifestsMax = 8;

/** The reason given for a checkpoint in `passOver`, which a reader found damaged. */
const unreadable = "a reader found one of its parts damaged";

/**
 * The checkpoint from which a generation continues, and the damaged ones above it: the newest that
 * is not among the hashes `passOver`, or the one with the hash `sha256`.
 * @throws CheckpointMissingError where no checkpoint of the chain has that hash
 */
export function firstUsable(
  { address, paths }: Looking,
  chain: Iterable<Manifest | FoundDamage>,
  sha256: string | undefined,
  passOver: readonly string[],
): { readonly latest: Manifest | undefined; readonly damaged: readonly FoundDamage[] } {
  const damaged: FoundDamage[] = [];
  for (const found of chain) {
    if ("reason" in found) damaged.push(found);
    else if (passOver.includes(found.sha256)) {
      const of = { cut: found.cut, generation: found.generation };
      damaged.push({ path: paths.manifest(of.cut, of.generation), reason: unreadable, of });
    } else if (sha256 === undefined || found.sha256 === sha256) return { latest: found, damaged };
  }
  if (sha256 === undefined) return { latest: undefined, damaged };
  throw new CheckpointMissingError(`${address} whose manifest has the hash ${sha256}`);
}

/**
 * Reads and checks the manifest of one checkpoint. `sha256`: the hash that it must have. Files are
 * checked by size only; `isKnown`: not at all.
 */
export function lookAt(
  place: Looking,
  of: Of,
  sha256: string | undefined,
  isKnown = false,
): Manifest | FoundDamage {
  const { cut, generation } = of;
  const path = place.paths.manifest(cut, generation);
  try {
    const bytes = onDisk("read", path, () => place.read(path));
    const manifest = decodeManifest(bytes, path, place.manifests);
    forgetOldest(place);
    if (manifest.cut !== cut || manifest.generation !== generation) {
      return {
        path,
        of,
        reason: `it is of cut ${manifest.cut}, generation ${manifest.generation}`,
      };
    }
    if (manifest.jobIdentity !== place.jobIdentity) return { path, reason: "it is of another job" };
    if (sha256 !== undefined && manifest.sha256 !== sha256) {
      const reason = `its hash is ${manifest.sha256}, a generation began from ${sha256}`;
      return { path, of, reason };
    }
    if (!isKnown) checkFiles(place, filesNeeded(manifest));
    return manifest;
  } catch (error) {
    if (!isDamage(error)) throw error;
    return {
      path: error.path,
      of,
      reason: error instanceof CheckpointCorruptError ? error.reason : error.message,
    };
  }
}

function forgetOldest({ manifests }: Looking): void {
  for (const sha256 of manifests.keys()) {
    if (manifests.size <= manifestsMax) return;
    manifests.delete(sha256);
  }
}

/**
 * @throws CheckpointCorruptError naming the first of the files that is missing or has another size
 */
export function checkFiles(place: PartPlace, files: readonly NeededFile[]): void {
  for (const { cut, generation, file, end, isOwn } of files) {
    const path = place.paths.file(cut, generation, file);
    const size = onDisk("read", path, () => place.size(path));
    if (size === undefined) throw new CheckpointCorruptError(path, notThere);
    // A file of an earlier checkpoint may also have parts that this one does not need.
    if (size === end || (size > end && !isOwn)) continue;
    const expected = isOwn ? `${end}` : `at least ${end}`;
    throw new CheckpointCorruptError(path, `it has ${size} bytes, expected ${expected}`);
  }
}

/**
 * Whether an error means that the checkpoint is damaged. Another failure of the disk may be
 * transient: skipping the checkpoint because of it would lose committed steps, and `collect` would
 * remove them.
 */
export function isDamage(error: unknown): error is CheckpointCorruptError | StoreFailedError {
  if (error instanceof CheckpointCorruptError) return true;
  return error instanceof StoreFailedError && diskCode(error.cause) === "ENOENT";
}
