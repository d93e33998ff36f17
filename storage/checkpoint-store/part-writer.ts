// Parts of a checkpoint on their way to the store: what each rests on, where it holds only what
// changed since an earlier cut.

import type { CheckpointSpec } from "../../src/training/checkpoint/checkpoint-options.ts";
import type { BasePart, Manifest, PartRecord } from "./checkpoint-store.ts";
import type { PartStore } from "./part-files.ts";

/** A part on disk, and the hashes of what it means (`Part.leaves`). */
export interface SavedPart extends PartRecord {
  readonly leaves: readonly string[];
}

/** One part that is being written. */
export interface PartSaving {
  /** Appends; the caller keeps the buffer. Errors as `PartWriter.write`. */
  write(bytes: Uint8Array): void;
  /** Returns once the bytes are on disk. Errors as `PartWriter.finish`. */
  finish(leaves: readonly string[]): SavedPart;
}

export interface Saving {
  /**
   * Begins a part of checkpoint `cut`. `isWhole`: otherwise it holds what changed, since the last
   * whole one, or where the job says `consecutive`, since the one before.
   */
  begin(cut: number, name: string, isWhole: boolean): PartSaving;
}

/** Writes parts of one generation, which goes on from `manifest`. */
export function createSaving(options: {
  readonly store: Pick<PartStore, "partWriter">;
  readonly generation: number;
  readonly differential: CheckpointSpec["differential"];
  readonly manifest: Manifest | undefined;
}): Saving {
  const { store, generation, differential, manifest } = options;
  /** What the next difference of a part rests on, by the part's name: the oldest first. */
  const bases = new Map<string, readonly BasePart[]>();
  const note = ({ name, base, bytes, sha256 }: PartRecord, cut: number, generation: number) => {
    const own = { cut, generation, bytes, sha256 };
    const [baseline = own] = base;
    bases.set(name, differential === "consecutive" ? [...base, own] : [baseline]);
  };
  for (const part of manifest?.parts ?? []) {
    note(part, manifest?.cut ?? 0, manifest?.generation ?? 0);
  }
  return {
    begin(cut, name, isWhole) {
      const base = isWhole ? [] : bases.get(name);
      if (base === undefined) throw new RangeError(`Nothing is there that ${name} rests on`);
      const writer = store.partWriter(generation, cut, name);
      return {
        write: (bytes) => writer.write(bytes),
        finish(leaves) {
          const part = { ...writer.finish(), base };
          note(part, cut, generation);
          return { ...part, leaves };
        },
      };
    },
  };
}
