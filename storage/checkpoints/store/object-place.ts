// The files of a checkpoint store in an object store, for the threads that read and write parts.
//
//   PREFIX/log/…                                   what counts (object-log.ts)
//   PREFIX/jobs/<identity>.json                    the job of each identity in the log
//   PREFIX/checkpoints/000000400-g000012/…         as in a directory (manifest.ts): plain objects
//   PREFIX/calibrations/…                          as in a directory
//
// A generation writes only below names with its own number. So no writer can change what another
// one has written, and only the log needs a condition.

import { blockingObjectStore } from "../../../src/objects/open-object-store.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import type { BlockingObjectStore } from "../../../src/ports/object-store.ts";
import type { ReadFile } from "../../disk/held-files.ts";
import { writerFor } from "./directory-place.ts";
import { ObjectLog } from "./object-log.ts";
import type { PartPlace } from "./place.ts";
import { pathsOf } from "./store-paths.ts";

/**
 * Most unused objects that stay open: each has up to 16 MiB of read-ahead in memory; a file has
 * none.
 */
export const openObjectsMax = 16;

/** The place of an address, with its objects and its log. */
export interface ObjectPlace extends PartPlace {
  readonly objects: BlockingObjectStore;
  readonly log: ObjectLog;
  /** The key of a path below the address. */
  keyOf(path: string): string;
}

export function objectPlace(address: string, disk: Disk, packBytes?: number): ObjectPlace {
  const objects = blockingObjectStore(address, disk);
  const log = new ObjectLog(objects, disk.writer);
  const paths = pathsOf(address);
  const keyOf = (path: string) => path.slice(address.length + 1);
  return {
    ...{ address, paths, packBytes, objects, log, keyOf },
    open: (path) => openObject(objects, path, keyOf(path)),
    size: (path) => objects.size(keyOf(path)),
    newFile(cut, generation, name) {
      const upload = objects.upload(keyOf(paths.file(cut, generation, name)));
      return {
        write: (bytes) => upload.write(bytes),
        close: () => undefined, // Written bytes are being uploaded; `finish` waits for them.
        finish: () => upload.finish(),
        discard: () => upload.discard(),
      };
    },
    newestGeneration: () => log.newest()?.generation ?? 0,
    takerOf(generation) {
      const newest = log.seen;
      return newest?.generation === generation ? writerFor(newest.writer, disk) : undefined;
    },
  };
}

function openObject(objects: BlockingObjectStore, path: string, key: string): ReadFile | undefined {
  const reader = objects.open(key);
  return (
    reader && {
      path,
      size: () => reader.size,
      read: (bytes, at) => reader.read(bytes, at),
      readLater: async (bytes, at) => reader.read(bytes, at),
      close: () => reader.close(),
    }
  );
}
