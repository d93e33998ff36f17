// Makes a checkpoint in a directory of its own out of parts that a caller writes. It exists when
// its manifest does.
//
// Invariants
//   N1. The digest in the manifest is computed from the parts, read back from the disk.
//   N2. If the caller fails or is ended, the directory is as it was found: empty, or missing.

import { join } from "node:path";
import { InputUnusableError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { Disk } from "../../src/ports/disk.ts";
import type { Manifest, ManifestFields, PartRecord } from "../checkpoint-store/checkpoint-store.ts";
import { openStore } from "../checkpoint-store/directory-checkpoint-store.ts";
import { formatVersion } from "../checkpoint-store/manifest.ts";
import { onDisk } from "../disk/durable-files.ts";
import type { Progress } from "../disk/progress.ts";
import { digestOfParts } from "./part-digest.ts";

/** What the caller states about the checkpoint. */
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

/** @throws InputUnusableError where the directory holds something */
export function checkEmpty(directory: string, disk: Disk): void {
  if (onDisk("open", directory, () => disk.list(directory)).length === 0) return;
  const message = `Expected ${directory} to be new or empty, as a checkpoint is made there`;
  throw new InputUnusableError(directory, `${message}; name another directory`);
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
    const store = openStore({ directory, disk, jobIdentity, jobText });
    const { generation } = store.beginGeneration();
    const parts: PartRecord[] = [];
    await body(async (name, pieces) => {
      const writer = store.partWriter(generation, fields.cut, name);
      try {
        for await (const piece of pieces) writer.write(piece);
        parts.push(writer.finish());
      } finally {
        writer.discard();
      }
    });
    // The manifest in the making, as far as its parts are read by it.
    const written = { baseline: 0, differences: 0, sum: 0, last: 0 };
    const manifest: Manifest = {
      ...{ version: formatVersion, jobIdentity, written, lineage: [], parent: null, sha256: "" },
      ...{ ...fields, generation, parts, modelDigest: "" },
    };
    const modelDigest = await digestOfParts({ store, job, manifest }, progress); // N1
    return store.commit({ ...fields, generation, parts, modelDigest });
  } catch (error) {
    if (!wasThere) disk.remove(directory); // N2
    for (const name of disk.list(directory)) disk.remove(join(directory, name));
    throw error;
  }
}
