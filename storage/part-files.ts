// Parts on disk: written front to back under a temporary name, hashed on the way, and read back the
// same way. The fence is checked when a part is opened and when it gets its name.

import { strict as assert } from "node:assert";
import { createHash } from "node:crypto";
import { CheckpointCorruptError, CheckpointMissingError } from "../src/errors.ts";
import { asGeneration, checkFence, type Place } from "./chain.ts";
import type { Manifest, PartRecord, PartWriter } from "./checkpoint-store.ts";
import { onDisk, temporarySuffix } from "./durable-files.ts";
import { manifestName } from "./manifest.ts";

/** Bytes read at once: enough that the calls do not show, small beside a table. */
const readBytes = 1024 * 1024;

const nameForm = /^[a-z0-9][a-z0-9._-]{0,199}$/;

/** See `CheckpointStore.partWriter`. */
export function openPart(place: Place, generation: number, cut: number, name: string): PartWriter {
  assert.match(name, nameForm, "a part's name is a plain lower-case file name");
  assert(name !== manifestName && !name.endsWith(temporarySuffix), `${name} is no name for a part`);
  const { disk, paths } = place;
  const path = paths.part(cut, generation, name);
  const temporary = path + temporarySuffix;
  const attempt = <Result>(action: string, body: () => Result): Result =>
    asGeneration(place, generation, action, path, body);

  checkFence(place, generation);
  const file = attempt("create", () => {
    disk.makeDirectory(paths.checkpoint(cut, generation));
    return disk.open(temporary, "write");
  });
  const hash = createHash("sha256");
  let bytes = 0;
  let isOpen = true;
  const close = () => {
    if (isOpen) file.close();
    isOpen = false;
  };
  return {
    write(piece) {
      attempt("write", () => file.write(piece, bytes));
      hash.update(piece);
      bytes += piece.length;
    },
    finish() {
      attempt("write", () => {
        file.sync();
        close();
      });
      checkFence(place, generation);
      attempt("name", () => disk.rename(temporary, path));
      return { name, bytes, sha256: hash.digest("hex") };
    },
    discard() {
      if (!isOpen) return;
      close();
      attempt("remove", () => disk.remove(temporary));
    },
  };
}

/** See `CheckpointStore.readPart`. */
export function* streamPart(
  { disk, paths }: Place,
  manifest: Manifest,
  name: string,
): Generator<Uint8Array, void, undefined> {
  const part = recordOf(manifest, name);
  const path = paths.part(manifest.cut, manifest.generation, name);
  if (!disk.exists(path)) throw new CheckpointCorruptError(path, "it is not there");
  const file = onDisk("read", path, () => disk.open(path, "read"));
  const hash = createHash("sha256");
  const buffer = new Uint8Array(Math.min(readBytes, part.bytes));
  try {
    for (let at = 0; at < part.bytes; ) {
      const count = onDisk("read", path, () => file.read(buffer, at));
      const piece = buffer.subarray(0, Math.min(count, part.bytes - at));
      if (piece.length === 0) {
        throw new CheckpointCorruptError(path, `it has ${at} bytes, expected ${part.bytes}`);
      }
      at += piece.length;
      hash.update(piece);
      yield piece;
    }
    const size = file.size();
    if (size !== part.bytes) {
      throw new CheckpointCorruptError(path, `it has ${size} bytes, expected ${part.bytes}`);
    }
    const sha256 = hash.digest("hex");
    if (sha256 !== part.sha256) {
      throw new CheckpointCorruptError(path, `its hash is ${sha256}, expected ${part.sha256}`);
    }
  } finally {
    file.close();
  }
}

/** See `CheckpointStore.readWholePart`. */
export function readWholePart(place: Place, manifest: Manifest, name: string): Uint8Array {
  const whole = new Uint8Array(recordOf(manifest, name).bytes);
  let at = 0;
  for (const piece of streamPart(place, manifest, name)) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** See `CheckpointStore.verify`. */
export function verifyParts(place: Place, manifest: Manifest): void {
  for (const { name } of manifest.parts) for (const _ of streamPart(place, manifest, name));
}

function recordOf(manifest: Manifest, name: string): PartRecord {
  const part = manifest.parts.find((one) => one.name === name);
  if (part !== undefined) return part;
  throw new CheckpointMissingError(`the parts of cut ${manifest.cut}: no part \`${name}\``);
}
