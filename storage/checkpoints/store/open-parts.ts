// Opens the parts of a checkpoint store for a thread that writes or restores them: without the
// manifests and records, whose schemas take long to load.

import { CheckpointMissingError, PathNotSharedError } from "../../../src/errors/errors.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import { isObjectAddress } from "../../../src/ports/object-store.ts";
import { holdFiles } from "../../disk/held-files.ts";
import type { CheckpointStore } from "./checkpoint-store.ts";
import { directoryPlace } from "./directory-place.ts";
import { objectPlace, openObjectsMax } from "./object-place.ts";
import { openPacks } from "./pack-writer.ts";
import { readFiles } from "./part-files.ts";
import type { PartPlace } from "./place.ts";

/** The subset of a store that device threads need; it reads no manifests or records. */
export interface PartStore extends Pick<CheckpointStore, "packWriter" | "readFiles"> {
  /**
   * Checks that this thread finds the leader's claimed generation in the log of an object store.
   * @throws PathNotSharedError
   */
  checkSeen(generation: number): void;
  /** Closes the files that were read. */
  close(): void;
}

/** The place of a store's parts. */
export function partPlaceOf(directory: string, disk: Disk): PartPlace {
  return isObjectAddress(directory)
    ? objectPlace(directory, disk)
    : directoryPlace(directory, disk);
}

/** The parts of an existing store. @throws CheckpointMissingError */
export function openParts(directory: string, disk: Disk): PartStore {
  const place = partPlaceOf(directory, disk);
  if (!isObjectAddress(directory) && !disk.exists(place.paths.job)) {
    throw new CheckpointMissingError(directory);
  }
  const files = isObjectAddress(directory) ? holdFiles(place, openObjectsMax) : holdFiles(place);
  return {
    packWriter: (generation, cut, owner) => openPacks(place, generation, cut, owner),
    readFiles: (manifest, name) => readFiles(place, manifest, name, files),
    checkSeen(generation) {
      if (!isObjectAddress(directory) || place.newestGeneration() >= generation) return;
      throw new PathNotSharedError("this host", `generation ${generation} in ${directory}`);
    },
    close: () => files.close(),
  };
}
