// Reads and writes the files of parts. A part is written front to back under a temporary name,
// hashed on the way, and read in the same order. The fence is checked when a part is opened and
// before it is renamed to its final name.

import { strict as assert } from "node:assert";
import { createHash } from "node:crypto";
import { CheckpointCorruptError, CheckpointMissingError } from "../../../src/errors/errors.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import { onDisk, temporarySuffix } from "../../disk/durable-files.ts";
import type {
  BasePart,
  CheckpointStore,
  Manifest,
  PartFile,
  PartRecord,
  PartWriter,
} from "./checkpoint-store.ts";
import { asGeneration, checkFence, type FencedPlace } from "./fence.ts";
import { isPartName, pathsOf } from "./store-paths.ts";

/** Bytes read at once: large enough to hide the cost of the calls, small beside a table. */
const readBytes = 1024 * 1024;

/** The subset of a store that device threads need; it reads no manifests or records. */
export type PartStore = Pick<CheckpointStore, "partWriter" | "readFiles">;

/** The parts of an existing store. @throws CheckpointMissingError */
export function openParts(directory: string, disk: Disk): PartStore {
  const place = { disk, paths: pathsOf(directory) };
  if (!disk.exists(place.paths.job)) throw new CheckpointMissingError(directory);
  return {
    partWriter: (generation, cut, name) => openPart(place, generation, cut, name),
    readFiles: (manifest, name) => readFiles(place, manifest, name),
  };
}

/** See `CheckpointStore.partWriter`. */
export function openPart(
  place: FencedPlace,
  generation: number,
  cut: number,
  name: string,
): PartWriter {
  assert(isPartName(name), `${name} is no name for a part: expected a plain lower-case file name`);
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
      return { name, bytes, sha256: hash.digest("hex"), base: [] };
    },
    discard() {
      if (!isOpen) return;
      close();
      attempt("remove", () => disk.remove(temporary));
    },
  };
}

/** A part's file, with its path. */
export interface PlacedPart extends BasePart {
  readonly path: string;
}

/** The file of a part, then the files of its base, newest first. */
export function filesOf({ paths }: FencedPlace, manifest: Chained, part: PartRecord): PlacedPart[] {
  const own = { ...part, cut: manifest.cut, generation: manifest.generation };
  return [own, ...[...part.base].reverse()].map(({ cut, generation, bytes, sha256 }) => {
    return { cut, generation, bytes, sha256, path: paths.part(cut, generation, part.name) };
  });
}

/** The fields of a manifest that locate its files. */
type Chained = Pick<Manifest, "cut" | "generation">;

/** See `CheckpointStore.readPart`. */
export function streamPart(
  place: FencedPlace,
  manifest: Manifest,
  name: string,
): Generator<Uint8Array, void, undefined> {
  const part = recordOf(manifest, name);
  const path = place.paths.part(manifest.cut, manifest.generation, name);
  return streamFile(place, { ...part, path });
}

function* streamFile(
  { disk }: FencedPlace,
  { path, bytes, sha256: expected }: PartFile & { readonly path: string },
): Generator<Uint8Array, void, undefined> {
  if (!disk.exists(path)) throw new CheckpointCorruptError(path, "it is not there");
  const file = onDisk("read", path, () => disk.open(path, "read"));
  const hash = createHash("sha256");
  const buffer = new Uint8Array(Math.min(readBytes, bytes));
  try {
    for (let at = 0; at < bytes; ) {
      const count = onDisk("read", path, () => file.read(buffer, at));
      const piece = buffer.subarray(0, Math.min(count, bytes - at));
      if (piece.length === 0) {
        throw new CheckpointCorruptError(path, `it has ${at} bytes, expected ${bytes}`);
      }
      at += piece.length;
      hash.update(piece);
      yield piece;
    }
    const size = file.size();
    if (size !== bytes) {
      throw new CheckpointCorruptError(path, `it has ${size} bytes, expected ${bytes}`);
    }
    const sha256 = hash.digest("hex");
    if (sha256 !== expected) {
      throw new CheckpointCorruptError(path, `its hash is ${sha256}, expected ${expected}`);
    }
  } finally {
    file.close();
  }
}

/** See `CheckpointStore.readWholePart`. */
export function readWholePart(place: FencedPlace, manifest: Manifest, name: string): Uint8Array {
  const whole = new Uint8Array(recordOf(manifest, name).bytes);
  let at = 0;
  for (const piece of streamPart(place, manifest, name)) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** See `CheckpointStore.readFiles`. */
export function readFiles(
  place: FencedPlace,
  manifest: Manifest,
  name: string,
): Generator<Uint8Array, void, undefined>[] {
  const files = filesOf(place, manifest, recordOf(manifest, name));
  return files.map((file) => streamFile(place, file));
}

/** See `CheckpointStore.verify`. Files in `known`, by path and hash, are not read again. */
export function verifyParts(
  place: FencedPlace,
  manifest: Manifest,
  known = new Set<string>(),
): void {
  for (const file of manifest.parts.flatMap((part) => filesOf(place, manifest, part))) {
    const key = `${file.path} ${file.sha256}`;
    if (known.has(key)) continue;
    for (const _ of streamFile(place, file));
    known.add(key);
  }
}

function recordOf(manifest: Manifest, name: string): PartRecord {
  const part = manifest.parts.find((one) => one.name === name);
  if (part !== undefined) return part;
  throw new CheckpointMissingError(`the parts of cut ${manifest.cut}: no part \`${name}\``);
}
