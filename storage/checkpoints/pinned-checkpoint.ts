// Pins a checkpoint: makes a second directory in which it is the newest, from hard links to its
// files, or copies where the file system has no links. The pinned checkpoint survives changes and
// removal of the first directory, and writes to one directory never affect the other.

import { copyFileSync, linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { CheckpointMissingError } from "../../src/errors/errors.ts";
import { makeDirectories, realDisk } from "../../src/ports/disk.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";
import type { Manifest } from "./store/checkpoint-store.ts";
import { encodeRecord, formatVersion } from "./store/manifest.ts";
import { filesNeeded } from "./store/part-index.ts";
import { pathsOf } from "./store/store-paths.ts";

/**
 * Makes `to`, which must not exist, a checkpoint directory of the same job that continues from this
 * checkpoint of `from`. @throws CheckpointMissingError where the checkpoint was removed during the
 * call
 */
export function pinCheckpoint(from: string, manifest: Manifest, to: string): void {
  const [source, target] = [pathsOf(from), pathsOf(to)];
  const { cut, generation, sha256, jobIdentity } = manifest;
  try {
    makeDirectories(target.generations);
    copyFileSync(source.job, target.job);
    for (const { cut, generation, file } of filesNeeded(manifest)) {
      hold(source.file(cut, generation, file), target.file(cut, generation, file));
    }
    // The store may rewrite or remove a manifest, so it is copied, never linked.
    const path = target.manifest(cut, generation);
    writeFileSync(path, readFileSync(source.manifest(cut, generation)));
  } catch (error) {
    if (diskCode(error) !== "ENOENT") throw error;
    throw new CheckpointMissingError(`${from} of step ${cut}, which was removed meanwhile`);
  }
  const { bytes } = encodeRecord({
    ...{ version: formatVersion, generation: generation + 1, jobIdentity },
    ...{ from: { cut, generation, sha256 }, writer: realDisk.writer },
  });
  writeFileSync(target.generation(generation + 1), bytes);
}

/**
 * Hard-links `from` to `to`, or copies where links are impossible. An existing `to` is replaced.
 */
export function hold(from: string, to: string): void {
  makeDirectories(dirname(to));
  rmSync(to, { force: true });
  try {
    linkSync(from, to);
  } catch (error) {
    if (!unlinkable.has(diskCode(error) ?? "")) throw error;
    copyFileSync(from, to);
  }
}

/**
 * Error codes after which the file is copied: another file system, no support for links, too many
 * links, or a file of another user.
 */
const unlinkable = new Set(["EXDEV", "EPERM", "ENOTSUP", "EMLINK", "ENOSYS", "EACCES"]);
