// Reads the bytes of parts in the files of a store: part by part, or all of a checkpoint. Each part
// has its place in a file, and is checked by its hash.

import { createHash, hash as hashAtOnce } from "node:crypto";
import { CheckpointCorruptError, StoreFailedError } from "../../../src/errors/errors.ts";
import { diskCode } from "../../../src/ports/disk-refusals.ts";
import { onDisk } from "../../disk/durable-files.ts";
import { type HeldFiles, openEach, type ReadFile } from "../../disk/held-files.ts";
import type { BasePart, Manifest, PartRecord } from "./checkpoint-store.ts";
import { partOf } from "./part-index.ts";
import type { PartPlace } from "./place.ts";

/** Bytes read at once: large enough to hide the cost of the calls, small beside a table. */
const readBytes = 1024 * 1024;

/** A part of a checkpoint, or of its base, with the path of its file. */
export interface PlacedPart extends BasePart {
  readonly name: string;
  readonly path: string;
}

/** The place of a part, then the places of its base, newest first. */
export function placesOf({ paths }: PartPlace, manifest: Chained, part: PartRecord) {
  const own = { ...part, cut: manifest.cut, generation: manifest.generation };
  return [own, ...[...part.base].reverse()].map((one): PlacedPart => {
    const path = paths.file(one.cut, one.generation, one.file);
    return { ...one, name: part.name, path };
  });
}

/** The fields of a manifest that locate its files. */
type Chained = Pick<Manifest, "cut" | "generation">;

/** See `CheckpointStore.readPart`. */
export function streamPart(
  place: PartPlace,
  manifest: Manifest,
  name: string,
  files: HeldFiles = openEach(place),
): Generator<Uint8Array, void, undefined> {
  const part = { ...partOf(manifest, name), cut: manifest.cut, generation: manifest.generation };
  return streamPlace(part, place.paths.file(part.cut, part.generation, part.file), files);
}

/** The bytes of a part at its place in a file. */
export function* streamPlace(
  { name, at, bytes, sha256 }: Omit<PlacedPart, "path">,
  path: string,
  files: HeldFiles,
): Generator<Uint8Array, void, undefined> {
  const file = openPlace(path, files);
  const buffer = new Uint8Array(Math.min(readBytes, bytes));
  // Most parts fit into the buffer: an object that hashes costs more than to read them.
  const hashing = bytes > readBytes ? createHash("sha256") : undefined;
  try {
    for (let done = 0; done < bytes; ) {
      const into = hashing === undefined ? buffer.subarray(done) : buffer;
      const count = onDisk("read", path, () => file.read(into, at + done));
      const piece = into.subarray(0, Math.min(count, bytes - done));
      if (piece.length === 0) throw cutShort(path, name, at + bytes, at + done);
      done += piece.length;
      hashing?.update(piece);
      yield piece;
    }
    checkHash(
      { name, sha256 },
      path,
      hashing?.digest("hex") ?? hashAtOnce("sha256", buffer, "hex"),
    );
  } finally {
    files.release(file);
  }
}

/** See `CheckpointStore.readWholePart`. */
export function readWholePart(
  place: PartPlace,
  manifest: Manifest,
  name: string,
  files: HeldFiles = openEach(place),
): Uint8Array {
  const whole = new Uint8Array(partOf(manifest, name).bytes);
  let at = 0;
  for (const piece of streamPart(place, manifest, name, files)) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** See `CheckpointStore.readFiles`. */
export function readFiles(
  place: PartPlace,
  manifest: Manifest,
  name: string,
  files: HeldFiles = openEach(place),
): Generator<Uint8Array, void, undefined>[] {
  const places = placesOf(place, manifest, partOf(manifest, name));
  return places.map((one) => streamPlace(one, one.path, files));
}

/**
 * See `CheckpointStore.verify`. Parts in `known`, as an earlier call has returned them, are not
 * read again. Resolves with the parts of this checkpoint. First come its own parts, then those of
 * each increment below, each time in the order of their places.
 */
export async function verifyParts(
  place: PartPlace,
  manifest: Manifest,
  known: ReadonlySet<string> = new Set(),
): Promise<Set<string>> {
  const verified = new Set<string>();
  const reader = createWindow(place);
  try {
    for (let level = 0, count = 1; count > 0; level++) {
      const places = placesAt(manifest, level);
      count = places.length;
      for (const one of places) {
        const key = `${one.cut} ${one.generation} ${one.file} ${one.at} ${one.sha256}`;
        if (!known.has(key) && !verified.has(key)) await verifyPlace(reader, one);
        verified.add(key);
      }
    }
  } finally {
    reader.close();
  }
  return verified;
}

/** The places of all parts, or of the newest, second newest … of their bases, in order. */
function placesAt(manifest: Manifest, level: number): Omit<PlacedPart, "path">[] {
  const { cut, generation } = manifest;
  const places = manifest.parts.flatMap(({ name, base, ...own }) => {
    const one = level === 0 ? { cut, generation, ...own } : base[base.length - level];
    return one === undefined ? [] : [{ name, ...one }];
  });
  return places.sort((a, b) => {
    if (a.cut !== b.cut) return a.cut - b.cut;
    return a.file === b.file ? a.at - b.at : a.file < b.file ? -1 : 1;
  });
}

/** A piece of a file in memory, from which small parts that follow each other are verified. */
interface Window {
  /** At most `bytes` bytes at the place `at`, at least one. */
  read(part: Omit<PlacedPart, "path">, at: number, bytes: number): Promise<Uint8Array>;
  pathOf(part: Omit<PlacedPart, "path">): string;
  close(): void;
}

function createWindow(place: PartPlace): Window {
  const files = openEach(place);
  const buffer = new Uint8Array(readBytes);
  let open: { readonly path: string; readonly file: ReadFile } | undefined;
  let [first, end] = [0, 0]; // The bytes of the file that the buffer has.
  const pathOf: Window["pathOf"] = ({ cut, generation, file }) =>
    place.paths.file(cut, generation, file);
  const close = () => {
    if (open !== undefined) files.release(open.file);
    open = undefined;
  };
  return {
    pathOf,
    close,
    async read(part, at, bytes) {
      const path = pathOf(part);
      if (open?.path !== path) {
        close();
        open = { path, file: openPlace(path, files) };
        end = first;
      }
      if (at < first || at >= end) {
        const count = await readLater(open.file, buffer, at);
        if (count === 0) throw cutShort(path, part.name, part.at + part.bytes, at);
        [first, end] = [at, at + count];
      }
      return buffer.subarray(at - first, Math.min(end, at + bytes) - first);
    },
  };
}

async function verifyPlace(reader: Window, part: Omit<PlacedPart, "path">): Promise<void> {
  const hash = createHash("sha256");
  const end = part.at + part.bytes;
  for (let at = part.at; at < end; ) {
    const piece = await reader.read(part, at, end - at);
    hash.update(piece);
    at += piece.length;
  }
  checkHash(part, reader.pathOf(part), hash.digest("hex"));
}

async function readLater(file: ReadFile, into: Uint8Array, at: number): Promise<number> {
  try {
    return await file.readLater(into, at);
  } catch (error) {
    if (diskCode(error) === undefined) throw error;
    throw new StoreFailedError("read", file.path, { cause: error });
  }
}

function openPlace(path: string, files: HeldFiles) {
  const file = onDisk("read", path, () => files.open(path));
  if (file !== undefined) return file;
  throw new CheckpointCorruptError(path, "it is not there");
}

function checkHash(part: Pick<PlacedPart, "name" | "sha256">, path: string, found: string): void {
  if (found === part.sha256) return;
  const reason = `its hash is ${found}, expected ${part.sha256}`;
  throw new CheckpointCorruptError(path, `of its part \`${part.name}\`, ${reason}`);
}

function cutShort(path: string, name: string, expected: number, found: number) {
  const reason = `it has ${found} bytes, expected ${expected} with its part \`${name}\``;
  return new CheckpointCorruptError(path, reason);
}
