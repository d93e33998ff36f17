// Writes parts into pack files: many small parts share a file, which is synced and named once. A
// pack is written front to back, and each part is hashed on the way. A large part is not cut: its
// pack is as large as it needs.
//
//   pack-d3-00000   table-00003 | table-00004 | … the packs of device 3, each of about `packBytes`
//   pack-d3-00001   table-00819 | …
//
// Invariants
//   W1. The fence is checked when a pack is opened, and before it gets its name.
//   W2. A call that failed on the disk may be repeated: it changes no state before it succeeds.

import { strict as assert } from "node:assert";
import { createHash, type Hash } from "node:crypto";
import type { PackWriter } from "./checkpoint-store.ts";
import { asGeneration, checkFence } from "./fence.ts";
import type { NewFile, PartPlace } from "./place.ts";
import { isPartName } from "./store-paths.ts";

/**
 * A pack that has as many bytes is finished. Its sync is then the only one for thousands of small
 * parts, and little against the time of writing so many bytes.
 */
const defaultPackBytes = 256 * 1024 * 1024;

/** A pack that is being written. */
interface OpenPack {
  readonly name: string;
  readonly file: NewFile;
  bytes: number;
}

/** A part that is being written, in the open pack. */
interface OpenPart {
  readonly name: string;
  readonly at: number;
  readonly hash: Hash;
}

/** See `CheckpointStore.packWriter`. */
export function openPacks(
  place: PartPlace,
  generation: number,
  cut: number,
  owner: string,
): PackWriter {
  assert(/^[a-z0-9]{1,20}$/.test(owner), `${owner} does not name a writer`);
  const { paths, packBytes = defaultPackBytes } = place;
  let packs = 0;
  let pack: OpenPack | undefined;
  let part: OpenPart | undefined;

  const pathOf = (name: string) => paths.file(cut, generation, name);
  const attempt = <Result>(action: string, name: string, body: () => Result): Result =>
    asGeneration(place, generation, action, pathOf(name), body);

  function open(): OpenPack {
    const name = `pack-${owner}-${String(packs).padStart(5, "0")}`;
    checkFence(place, generation); // W1
    const file = attempt("create", name, () => place.newFile(cut, generation, name));
    packs++;
    return { name, file, bytes: 0 };
  }

  function finish(): void {
    assert(part === undefined, "a part is not ended");
    if (pack === undefined) return;
    const { name, file } = pack;
    attempt("write", name, () => file.close());
    checkFence(place, generation); // W1
    attempt("name", name, () => file.finish());
    pack = undefined;
  }

  return {
    begin(name) {
      assert(isPartName(name), `${name} is no name for a part: expected a lower-case file name`);
      assert(part === undefined, `${part?.name} is not ended`);
      if (pack !== undefined && pack.bytes >= packBytes) finish();
      pack ??= open();
      part = { name, at: pack.bytes, hash: createHash("sha256") };
    },
    write(piece) {
      assert(pack !== undefined && part !== undefined, "no part has begun");
      const { name, file, bytes } = pack;
      attempt("write", name, () => file.write(piece, bytes)); // W2
      part.hash.update(piece);
      pack.bytes += piece.length;
    },
    end() {
      assert(pack !== undefined && part !== undefined, "no part has begun");
      const { name, at, hash } = part;
      part = undefined;
      const bytes = pack.bytes - at;
      return { name, file: pack.name, at, bytes, sha256: hash.digest("hex"), base: [] };
    },
    finish,
    discard() {
      part = undefined;
      if (pack === undefined) return;
      const { name, file } = pack;
      attempt("remove", name, () => file.discard());
      pack = undefined;
    },
  };
}
