// Writes the parts of checkpoints to the store, and names the base of each increment.

import type { CheckpointSpec } from "../../../src/training/checkpoint/checkpoint-options.ts";
import type { BasePart, Manifest, PackWriter, PartRecord } from "./checkpoint-store.ts";
import type { PartStore } from "./open-parts.ts";

/** A part, and the leaf hashes of its rows (`Part.leaves`). */
export interface SavedPart extends PartRecord {
  readonly leaves: readonly string[];
}

/** Writes the parts of a cut, one after the other. Throws what `PackWriter` throws. */
export interface Saving {
  /**
   * Begins a part of checkpoint `cut`. `isWhole` false: the part is an increment since the last
   * whole part, or, with `differential: "consecutive"`, since the previous part.
   */
  begin(cut: number, name: string, isWhole: boolean): void;
  /** Appends bytes to the part. The caller keeps the buffer. */
  write(bytes: Uint8Array): void;
  /** Ends the part. It is on disk only after `finish`. */
  end(leaves: readonly string[]): SavedPart;
  /** Returns the parts of the cut once they are on disk. */
  finish(): SavedPart[];
}

/** Writes parts of one generation, which continues from `manifest`. */
export function createSaving(options: {
  readonly store: Pick<PartStore, "packWriter">;
  readonly generation: number;
  /** See `CheckpointStore.packWriter`. */
  readonly owner: string;
  readonly differential: CheckpointSpec["differential"];
  readonly manifest: Manifest | undefined;
}): Saving {
  const { store, generation, owner, differential, manifest } = options;
  /** The base of each part's next increment, by the part's name, oldest first. */
  const bases = new Map<string, readonly BasePart[]>();
  let packs: PackWriter | undefined;
  let begun: { readonly cut: number; readonly base: readonly BasePart[] } | undefined;
  let saved: SavedPart[] = [];
  const note = ({ name, base, ...place }: PartRecord, cut: number, generation: number) => {
    const { file, at, bytes, sha256 } = place;
    const own = { cut, generation, file, at, bytes, sha256 };
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
        throw new RangeError(`${name} is an increment, but has no earlier part as its base`);
      packs ??= store.packWriter(generation, cut, owner);
      packs.begin(name);
      begun = { cut, base };
    },
    write: (bytes) => packs?.write(bytes),
    end(leaves) {
      if (packs === undefined || begun === undefined) throw new RangeError("No part has begun");
      const { cut, base } = begun;
      const part = { ...packs.end(), base };
      note(part, cut, generation);
      const one = { ...part, leaves };
      saved.push(one);
      return one;
    },
    finish() {
      packs?.finish();
      const parts = saved;
      [packs, saved] = [undefined, []];
      return parts;
    },
  };
}
