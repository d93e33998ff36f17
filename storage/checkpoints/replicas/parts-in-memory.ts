// Parts that a leaving host hands over: they stay in its memory, from which another host fetches
// and writes them, as the store may take longer than the machine still runs. Parts without room in
// memory are written.

import { createHash, type Hash } from "node:crypto";
import type { PackWriter, PartRecord } from "../store/checkpoint-store.ts";

/** Whether a part is in no file, but in memory alone. */
export function isInMemory({ file }: Pick<PartRecord, "file">): boolean {
  return file === "";
}

interface MemoryPart {
  readonly name: string;
  readonly hash: Hash;
  readonly pieces: Uint8Array[];
  bytes: number;
  /** Number of pieces already written to `packs`; undefined: the part may still have room. */
  written?: number;
}

/**
 * A pack writer that writes only parts beyond `bytesMax` bytes in all to `packs`; the caller keeps
 * the bytes of the others. A failed call may be repeated.
 */
export function leftInMemory(packs: PackWriter, bytesMax: number): PackWriter {
  let left = bytesMax;
  let part: MemoryPart | undefined;
  return {
    begin(name) {
      part = { name, hash: createHash("sha256"), pieces: [], bytes: 0 };
    },
    write(bytes) {
      if (part === undefined) return packs.write(bytes);
      if (part.written === undefined && part.bytes + bytes.length <= left) {
        part.hash.update(bytes);
        part.pieces.push(bytes);
        part.bytes += bytes.length;
        return;
      }
      if (part.written === undefined) packs.begin(part.name);
      for (const piece of part.pieces.slice(part.written)) {
        part.written ??= 0;
        packs.write(piece);
        part.written++;
      }
      part.written ??= 0;
      packs.write(bytes);
      part = undefined;
    },
    end() {
      if (part === undefined) return packs.end();
      const { name, hash, bytes } = part;
      part = undefined;
      left -= bytes;
      return { name, file: "", at: 0, bytes, sha256: hash.digest("hex"), base: [] };
    },
    finish: () => packs.finish(),
    discard() {
      part = undefined;
      packs.discard();
    },
  };
}
