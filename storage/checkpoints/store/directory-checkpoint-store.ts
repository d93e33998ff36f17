// The checkpoint store in a directory: opening it, and its part of the store over a place
// (store-over-place.ts, whose invariants it keeps). The layout is in manifest.ts, the fence and the
// chain are in manifest-chain.ts.

import { strict as assert } from "node:assert";
import { dirname, join } from "node:path";
import { CheckpointForeignError } from "../../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import {
  makeDurableDirectory,
  readWhole,
  replaceDurably,
  temporarySuffix,
} from "../../disk/durable-files.ts";
import type { CheckpointStore, Generation, Manifest } from "./checkpoint-store.ts";
import { type DirectoryPlace, directoryPlace } from "./directory-place.ts";
import { checkFence } from "./fence.ts";
import { readJob } from "./job-record.ts";
import { checkFiles } from "./look-at-checkpoint.ts";
import { decodeJob, encodeRecord, formatVersion } from "./manifest.ts";
import {
  type ChainPlace,
  claimGeneration,
  hasCheckpoints,
  readGeneration,
  walkChain,
} from "./manifest-chain.ts";
import { filesNeeded } from "./part-index.ts";
import type { Place } from "./place.ts";
import { foreignError, type StoreOptions, storeAt, usable } from "./store-over-place.ts";
import { manifestName } from "./store-paths.ts";

/** See `openStore`. */
export function openDirectoryStore(options: StoreOptions): CheckpointStore {
  const { directory, disk = realDisk, packBytes, jobIdentity, jobText } = options;
  const files = directoryPlace(directory, disk, packBytes);
  const { paths } = files;
  return usable(directory, () => {
    makeDurableDirectory(disk, directory);
    const sign = () => {
      const record = { version: formatVersion, jobIdentity, jobText } as const;
      replaceDurably(disk, paths.job, encodeRecord(record).bytes, disk.writer);
    };
    if (!disk.exists(paths.job)) sign();
    const found = readJob(directory, disk);
    if (found.jobIdentity !== jobIdentity) {
      if (hasCheckpoints(files)) throw foreignError(found, options);
      sign(); // K4
    }
    makeDurableDirectory(disk, paths.generations);
    makeDurableDirectory(disk, paths.checkpoints);
    return storeAt(placeOf(files, jobIdentity), jobText);
  });
}

export function openExistingDirectory(directory: string, disk: Disk): CheckpointStore {
  return usable(directory, () => {
    const { jobIdentity, jobText } = readJob(directory, disk);
    return storeAt(placeOf(directoryPlace(directory, disk), jobIdentity), jobText);
  });
}

function placeOf(files: DirectoryPlace, jobIdentity: string): Place {
  const { disk, paths, address } = files;
  const read = (path: string) => readWhole(disk, path);
  const own: ChainPlace = { ...files, jobIdentity, manifests: new Map(), read };
  return {
    ...own,
    write(path, bytes) {
      if (bytes === undefined) {
        disk.remove(path);
        if (disk.exists(dirname(path))) disk.syncDirectory(dirname(path));
        return;
      }
      makeDurableDirectory(disk, dirname(path));
      replaceDurably(disk, path, bytes, disk.writer);
    },
    claim: (sha256, passOver) => claim(own, sha256, passOver),
    chain: () => walkChain(own),
    putManifest: (manifest, bytes) => putManifest(own, manifest, bytes),
    beginOf(generation) {
      const record = readGeneration(own, generation);
      return record && (record.from?.cut ?? 0);
    },
    checkpoints: () => disk.list(paths.checkpoints),
    beginRemoval: () => undefined, // Removing the manifest takes a checkpoint off the chain.
    removeCheckpoint(name) {
      const path = join(paths.checkpoints, name);
      if (disk.exists(join(path, manifestName))) {
        disk.remove(join(path, manifestName)); // K3
        disk.syncDirectory(path);
      }
      disk.remove(path);
    },
    tidy() {
      disk.syncDirectory(paths.checkpoints);
      // Remove files of an `openStore` that died while it made the directory.
      for (const name of disk.list(address)) {
        if (name.endsWith(temporarySuffix)) disk.remove(join(address, name));
      }
    },
  };
}

function claim(
  place: ChainPlace,
  sha256: string | undefined,
  passOver: readonly string[],
): Generation {
  const { disk, paths, jobIdentity, address } = place;
  // Two jobs may have opened an empty directory at the same moment; the slower one fails.
  const meet = () => new CheckpointForeignError(address, "it was started there at the same moment");
  const owner = decodeJob(readWhole(disk, paths.job), paths.job).jobIdentity;
  if (owner !== jobIdentity) throw meet();
  const before = readGeneration(place, place.newestGeneration())?.jobIdentity ?? jobIdentity;
  const claimed = claimGeneration(place, sha256, passOver);
  // This claim has fenced the other job's generation. If it had committed, the directory is its
  // own.
  if (before !== jobIdentity && hasCheckpoints(place)) throw meet();
  return claimed;
}

function putManifest(place: ChainPlace, manifest: Manifest, bytes: Uint8Array): void {
  const { disk, paths } = place;
  const { cut, generation } = manifest;
  const path = paths.manifest(cut, generation);
  assert(!disk.exists(path), `cut ${cut} of generation ${generation} is committed already`);
  disk.makeDirectory(dirname(path));
  checkFiles(place, filesNeeded(manifest));
  disk.syncDirectory(dirname(path)); // K1
  disk.syncDirectory(paths.checkpoints);
  checkFence(place, generation);
  replaceDurably(disk, path, bytes);
  checkFence(place, generation); // C3 of manifest-chain.ts
}
