// Writes the parts of checkpoints to the store, and names the base files of each increment.

import type { CheckpointSpec } from "../../../src/training/checkpoint/checkpoint-options.ts";
import type { BasePart, Manifest, PartRecord } from "./checkpoint-store.ts";
import type { PartStore } from "./part-files.ts";

/** A part on disk, and the leaf hashes of its rows (`Part.leaves`). */
export interface SavedPart extends PartRecord {
  readonly leaves: readonly string[];
}

/** One part while it is being written. */
export interface PartSaving {
  /** Appends bytes. The caller keeps the buffer. Throws what `PartWriter.write` throws. */
  write(bytes: Uint8Array): void;
  /** Returns once the bytes are on disk. Throws what `PartWriter.finish` throws. */
  finish(leaves: readonly string[]): SavedPart;
}

export interface Saving {
  /**
   * Begins a part of checkpoint `cut`. `isWhole` false: the part is an increment since the last
   * whole part, or, with `differential: "consecutive"`, since the previous part.
   */
  begin(cut: number, name: string, isWhole: boolean): PartSaving;
}

/** Writes parts of one generation, which continues from `manifest`. */
export function createSaving(options: {
  readonly store: Pick<PartStore, "partWriter">;
  readonly generation: number;
  readonly differential: CheckpointSpec["differential"];
  readonly manifest: Manifest | undefined;
}): Saving {
  const { store, generation, differential, manifest } = options;
  /** Base files of each part's next increment, by the part's name, oldest first. */
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
      if (base === undefined)
        throw new RangeError(`${name} is an increment, but has no earlier file as its base`);
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
