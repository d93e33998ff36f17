// Creates a checkpoint in a new directory from parts that a caller writes, as imports do. It exists
// once its manifest does.
//
// Invariants
//   N1. The digest in the manifest is computed from the parts, read back from the disk.
//   N2. If the caller fails or is aborted, the directory is restored to empty, or to missing.
//   N3. If its process is killed, a mark file remains, and the next caller clears the directory and
//       starts again. Until then readers of the directory find no checkpoint.

import { join } from "node:path";
import { InputUnusableError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { isObjectAddress } from "../../src/ports/object-store.ts";
import {
  makeDurableDirectory,
  onDisk,
  readWhole,
  replaceDurably,
  temporarySuffix,
} from "../disk/durable-files.ts";
import type { Progress } from "../disk/progress.ts";
import { digestOfParts } from "./part-digest.ts";
import type { Manifest, ManifestFields, PartRecord } from "./store/checkpoint-store.ts";
import { manifestVersion } from "./store/manifest.ts";
import { openExistingStore, openStore } from "./store/open-store.ts";
import { pathsOf } from "./store/store-paths.ts";

/** The caller's description of the checkpoint. */
export interface NewCheckpoint {
  readonly job: JobSpec;
  /** Hash of the job's specification, and the specification. */
  readonly jobIdentity: string;
  readonly jobText: string;
  readonly fields: Omit<ManifestFields, "generation" | "parts" | "modelDigest" | "restored">;
}

/** Writes one part, whole. */
export type WritePart = (
  name: string,
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
) => Promise<void>;

/** File that exists while the checkpoint is being made; it contains the id of the process. */
const markName = "unfinished";

/** @throws InputUnusableError where a checkpoint is to be made in an object store */
export function needDirectory(directory: string): void {
  if (!isObjectAddress(directory)) return;
  const message = `Expected a directory to make a checkpoint in, got ${directory}`;
  const way = "make it in a directory; a run may begin with it (`warmStart.from`)";
  throw new InputUnusableError(directory, `${message}: ${way}`);
}

/**
 * Removes the remains of an unfinished checkpoint of a killed process, and checks that the
 * directory is then empty.
 * @throws InputUnusableError where the directory holds something else
 */
export function checkEmpty(directory: string, disk: Disk): void {
  needDirectory(directory);
  onDisk("open", directory, () => removeUnfinished(directory, disk));
  if (onDisk("open", directory, () => disk.list(directory)).length === 0) return;
  const message = `Expected ${directory} to be new or empty, as a checkpoint is made there`;
  throw new InputUnusableError(directory, `${message}; name another directory`);
}

/**
 * Removes the remains of a killed process. N3 @throws InputUnusableError where the process may
 * still be running
 */
function removeUnfinished(directory: string, disk: Disk): void {
  const mark = join(directory, markName);
  // The process was killed before its mark had its final name, so nothing else was written.
  const begun = markName + temporarySuffix;
  if (disk.list(directory).every((name) => name === begun)) disk.remove(join(directory, begun));
  if (!disk.exists(mark)) return;
  const writer = new TextDecoder().decode(readWhole(disk, mark));
  if (!disk.isGone(writer)) {
    const message = `Expected ${directory} to be new or empty, but another process makes a checkpoint`;
    throw new InputUnusableError(directory, `${message} there; or remove it, if none does`);
  }
  if (isCommitted(directory, disk))
    disk.remove(mark); // The process was killed after the commit.
  else clear(directory, disk);
}

function isCommitted(directory: string, disk: Disk): boolean {
  const isWhole = disk.exists(pathsOf(directory).job);
  return isWhole && openExistingStore(directory, disk).latest() !== undefined;
}

/**
 * Removes all files in a directory; the mark last, so that the next caller completes an interrupted
 * removal.
 */
function clear(directory: string, disk: Disk): void {
  const names = disk.list(directory).filter((name) => name !== markName);
  for (const name of [...names, markName]) disk.remove(join(directory, name));
}

/**
 * Makes the checkpoint in `directory`, which is new or empty, of the parts that `body` writes.
 * @throws InputUnusableError, StoreFailedError, and what `body` throws
 */
export async function newCheckpoint(
  directory: string,
  { job, jobIdentity, jobText, fields }: NewCheckpoint,
  { disk, progress }: { readonly disk: Disk; readonly progress: Progress },
  body: (write: WritePart) => Promise<void>,
): Promise<Manifest> {
  checkEmpty(directory, disk);
  const wasThere = disk.exists(directory);
  try {
    onDisk("write", directory, () => {
      makeDurableDirectory(disk, directory);
      replaceDurably(disk, join(directory, markName), new TextEncoder().encode(disk.writer));
    });
    const store = openStore({ directory, disk, jobIdentity, jobText });
    const { generation } = store.beginGeneration();
    const parts: PartRecord[] = [];
    const writer = store.packWriter(generation, fields.cut, "new");
    try {
      await body(async (name, pieces) => {
        writer.begin(name);
        for await (const piece of pieces) writer.write(piece);
        parts.push(writer.end());
      });
      writer.finish();
    } finally {
      writer.discard();
    }
    // A provisional manifest, with the fields that reading the parts needs.
    const written = { baseline: 0, differences: 0, sum: 0, last: 0 };
    const manifest: Manifest = {
      ...{ version: manifestVersion, jobIdentity, written, lineage: [], parent: null, sha256: "" },
      ...{ ...fields, generation, parts, modelDigest: "" },
    };
    const modelDigest = await digestOfParts({ store, job, manifest }, progress); // N1
    const committed = store.commit({ ...fields, generation, parts, modelDigest });
    disk.remove(join(directory, markName));
    disk.syncDirectory(directory);
    return committed;
  } catch (error) {
    if (!wasThere)
      disk.remove(directory); // N2
    else clear(directory, disk);
    throw error;
  }
}
