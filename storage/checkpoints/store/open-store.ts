// Opens a checkpoint store by its name: a directory, a model file, or an address of objects.

import { expected } from "../../../src/ports/check-options.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import { isObjectAddress } from "../../../src/ports/object-store.ts";
import type { CheckpointStore } from "./checkpoint-store.ts";
import { openDirectoryStore, openExistingDirectory } from "./directory-checkpoint-store.ts";
import { isModelFile, openFileStore } from "./file-checkpoint-store.ts";
import { openExistingObjects, openObjectCheckpoints } from "./object-checkpoint-store.ts";
import { objectPlace } from "./object-place.ts";
import type { StoreOptions } from "./store-over-place.ts";
import { pathsOf } from "./store-paths.ts";

export type { StoreOptions } from "./store-over-place.ts";

/**
 * Opens the store of a job. Makes the store where there is none, or none with a checkpoint.
 * @throws CheckpointForeignError (it has another job's checkpoints), CheckpointCorruptError,
 * InputUnusableError (it cannot be made)
 */
export function openStore(options: StoreOptions): CheckpointStore {
  return isObjectAddress(options.directory)
    ? openObjectCheckpoints(options)
    : openDirectoryStore(options);
}

/** Whether there is a store of some job, or a model file. */
export function hasStore(directory: string, disk: Disk): boolean {
  if (isObjectAddress(directory)) return objectPlace(directory, disk).log.newest() !== undefined;
  return isModelFile(directory, disk) || disk.exists(pathsOf(directory).job);
}

/**
 * Opens an existing store of any job: a directory, an address of objects, or a model file.
 * @throws InvalidOptionError where plain JavaScript gave no path, CheckpointMissingError,
 * CheckpointCorruptError, InputUnusableError
 */
export function openExistingStore(directory: string, disk: Disk = realDisk): CheckpointStore {
  if (typeof directory !== "string") throw expected("path", "a string", directory);
  if (isModelFile(directory, disk)) return openFileStore(directory, disk);
  return isObjectAddress(directory)
    ? openExistingObjects(directory, disk)
    : openExistingDirectory(directory, disk);
}
