// Pins a checkpoint: makes a second directory in which it is the newest, from hard links to its
// files, or copies where there are no links, as from an object store. The pinned checkpoint
// survives changes and removal of the first directory, and writes to one directory never affect the
// other.

import { copyFileSync, linkSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import {
  CheckpointCorruptError,
  CheckpointMissingError,
  StoreFailedError,
} from "../../src/errors/errors.ts";
import { makeDirectories, realDisk } from "../../src/ports/disk.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";
import { isObjectAddress } from "../../src/ports/object-store.ts";
import type { FileSource } from "../disk/held-files.ts";
import type { CheckpointStore, Manifest } from "./store/checkpoint-store.ts";
import { notThere } from "./store/look-at-checkpoint.ts";
import { encodeRecord, formatVersion } from "./store/manifest.ts";
import { partPlaceOf } from "./store/open-parts.ts";
import { filesNeeded } from "./store/part-index.ts";
import type { NewFile } from "./store/place.ts";
import { pathsOf } from "./store/store-paths.ts";

/**
 * Makes `to`, which must not exist, a checkpoint directory of the same job that continues from this
 * checkpoint of `from`. @throws CheckpointMissingError where the checkpoint was removed during the
 * call
 */
export function pinCheckpoint(store: CheckpointStore, manifest: Manifest, to: string): void {
  const { directory: from, jobText } = store;
  const [source, target] = [partPlaceOf(from, realDisk), pathsOf(to)];
  const { cut, generation, sha256, jobIdentity } = manifest;
  try {
    makeDirectories(target.generations);
    const job = { version: formatVersion, jobIdentity, jobText } as const;
    writeFileSync(target.job, encodeRecord(job).bytes);
    for (const { cut, generation, file } of filesNeeded(manifest)) {
      const path = source.paths.file(cut, generation, file);
      const copy = partPlaceOf(to, realDisk);
      if (isObjectAddress(from)) copyFile(source, path, copy.newFile(cut, generation, file));
      else hold(path, target.file(cut, generation, file));
    }
    // The store may rewrite or remove a manifest, so it is copied, never linked.
    writeFileSync(target.manifest(cut, generation), store.manifestText(manifest));
  } catch (error) {
    const cause = error instanceof StoreFailedError ? error.cause : error;
    const isGone = error instanceof CheckpointCorruptError || diskCode(cause) === "ENOENT";
    if (!isGone) throw error;
    throw new CheckpointMissingError(`${from} of step ${cut}, which was removed meanwhile`);
  }
  const { bytes } = encodeRecord({
    ...{ version: formatVersion, generation: generation + 1, jobIdentity },
    ...{ from: { cut, generation, sha256 }, writer: realDisk.writer },
  });
  writeFileSync(target.generation(generation + 1), bytes);
}

/** Bytes that are copied at once. */
const copyBytes = 0x40_0000;

/** Copies a file of a checkpoint. @throws CheckpointCorruptError (it is not there) */
export function copyFile(source: FileSource, path: string, copy: NewFile): void {
  const file = source.open(path);
  if (file === undefined) throw new CheckpointCorruptError(path, notThere);
  try {
    const buffer = new Uint8Array(copyBytes);
    for (let at = 0; at < file.size(); ) {
      const count = file.read(buffer, at);
      if (count === 0) throw new CheckpointCorruptError(path, `it ends after ${at} bytes`);
      copy.write(buffer.subarray(0, count), at);
      at += count;
    }
    copy.close();
    copy.finish();
  } finally {
    file.close();
  }
}

/**
 * Hard-links `from` to `to`, or copies where links are impossible; the bytes are durable, but not
 * the name. An existing `to` is replaced.
 */
export function hold(from: string, to: string): void {
  makeDirectories(dirname(to));
  rmSync(to, { force: true });
  try {
    linkSync(from, to);
  } catch (error) {
    if (!unlinkable.has(diskCode(error) ?? "")) throw error;
    copyFileSync(from, to);
    const copy = realDisk.open(to, "update");
    copy.sync();
    copy.close();
  }
}

/**
 * Error codes after which the file is copied: another file system, no support for links, too many
 * links, or a file of another user.
 */
const unlinkable = new Set(["EXDEV", "EPERM", "ENOTSUP", "EMLINK", "ENOSYS", "EACCES"]);
