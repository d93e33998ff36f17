// File format of a whole checkpoint in one file, named `*.osiris`: a ZIP of stored entries, which
// any ZIP program lists, tests and extracts. The contents of each entry begin at a page.
//
//   dense, ids-00003, table-00000, …   parts, as in a checkpoint directory; a table is one part
//   job.json, manifest.json            as in the directory, byte for byte
//   proof.json                         sealed: the hash of every chunk of the parts, and digests of
//                                      tables whose parts leave out state that the digests cover
//   calibration.json                   sealed: the model's calibration, if one is stored
//
// The contents of parts are checked by the hashes of their chunks, the other entries by their
// seals. The bytes around the entries must equal the ZIP writer's. The CRC of an entry is for other
// programs: it is compared with the CRC in the directory, not with the contents.

import { createHash } from "node:crypto";
import { z } from "zod";
import { CheckpointCorruptError, InputUnusableError } from "../../../src/errors/errors.ts";
import type { DiskFile } from "../../../src/ports/disk.ts";
import { readZip, type ZipEntry, zipMagic } from "../../disk/read-zip.ts";
import { seal, unseal, unsealAs } from "../../disk/sealed-json.ts";
import { appendToZip, zipDirectory, zipEnd, zipHeader, zipPlaceAt } from "../../disk/write-zip.ts";
import type { Manifest, PartRecord } from "./checkpoint-store.ts";
import {
  decodeJob,
  decodeManifest,
  encodeRecord,
  formatVersion,
  hash,
  partName,
} from "./manifest.ts";
import type { StoredCalibration } from "./stored-calibration.ts";

/** Ending of a model file's name. */
export const modelFileEnding = ".osiris";

/** Contents begin at multiples of this, so that a program may map them into memory. */
export const pageBytes = 4096;

/** Bytes of a chunk; a part's last chunk may be shorter. A reader holds one in memory. */
export const chunkBytes = 2 ** 22;

/** Most bytes of an entry that is no part: a manifest has about 150 bytes for each part. */
const recordBytesMax = 2 ** 28;

/** Name of the entry that distinguishes a model file from other ZIP files. */
export const proofName = "proof.json";
const calibrationName = "calibration.json";

const proofSchema = z.object({
  version: z.literal(formatVersion),
  /** The SHA-256 of each chunk of each part. The part `table-00003` is a whole table. */
  parts: z.array(z.object({ name: partName, chunks: z.array(hash) })),
  /**
   * Where the parts leave out the state of elements: the digests of the tables, in the order of the
   * job, computed with all state.
   */
  statedDigests: z.array(hash).optional(),
  sha256: hash,
});

/** The proof of a model file, without its seal. */
export type ModelProof = Omit<z.output<typeof proofSchema>, "version" | "sha256">;

/** A part in the file, with the SHA-256 of each of its chunks. */
export interface PartEntry extends ZipEntry {
  readonly chunks: readonly string[];
}

/** A model file without the contents of its parts. */
export interface ModelFile {
  readonly parts: readonly PartEntry[];
  readonly jobText: string;
  /** The manifest of the checkpoint, with the parts of this file. */
  readonly manifest: Manifest;
  /** The manifest's sealed text. */
  readonly manifestText: Uint8Array;
  readonly proof: ModelProof;
  /** The stored calibration, not checked yet; undefined: none. No digest covers it. */
  readonly calibration: unknown;
}

/** Writes the entries after the parts, and so completes the file. */
export function finishModelFile(
  file: DiskFile,
  parts: readonly PartEntry[],
  model: Pick<ModelFile, "jobText" | "manifest" | "manifestText" | "proof">,
  calibration: StoredCalibration | undefined,
): void {
  const { jobText, manifestText, proof } = model;
  const { jobIdentity } = model.manifest;
  const sealed = (value: object) => new TextEncoder().encode(seal(value).text);
  const contents = {
    "job.json": encodeRecord({ version: formatVersion, jobIdentity, jobText }).bytes,
    "manifest.json": manifestText,
    [proofName]: sealed({ version: formatVersion, ...proof }),
    ...(calibration && { [calibrationName]: sealed(calibration) }),
  };
  const entries = appendToZip(file, parts, contents, pageBytes);
  file.write(zipDirectory(entries), zipEnd(entries));
}

/**
 * Reads a model file except for its parts' contents, and checks all that it reads.
 * @throws CheckpointCorruptError; InputUnusableError where it is another file, or another version
 */
export function readModelFile(file: DiskFile): ModelFile {
  const { path } = file;
  const magic = new Uint8Array(zipMagic.length);
  file.read(magic, 0);
  if (Buffer.compare(magic, zipMagic) !== 0) {
    const message = `Expected a model that \`osiris export --to FILE${modelFileEnding}\` wrote`;
    const why = `${path} does not begin as one, or is of an earlier version: export it again`;
    throw new InputUnusableError(path, `${message}, but ${why}`);
  }
  const entries = readZip(file, (why) => new CheckpointCorruptError(path, why));
  checkFrame(file, [...entries.values()]);
  const bytesOf = (name: string) => {
    const entry = entries.get(name);
    if (entry === undefined) throw new CheckpointCorruptError(path, `it has no entry \`${name}\``);
    if (entry.bytes > recordBytesMax) {
      const why = `its entry \`${name}\` has ${entry.bytes} bytes, at most ${recordBytesMax} are read`;
      throw new CheckpointCorruptError(path, why);
    }
    const bytes = new Uint8Array(entry.bytes);
    file.read(bytes, entry.start);
    return bytes;
  };
  const {
    version: _,
    sha256: _seal,
    ...proof
  } = unsealAs(proofSchema, formatVersion, bytesOf(proofName), `${path}/${proofName}`);
  const { jobIdentity, jobText } = decodeJob(bytesOf("job.json"), `${path}/job.json`);
  const manifestText = bytesOf("manifest.json");
  const manifest = decodeManifest(manifestText, `${path}/manifest.json`);
  if (manifest.jobIdentity !== jobIdentity) {
    throw new CheckpointCorruptError(path, "its manifest is of another job");
  }
  const isCalibrated = entries.has(calibrationName);
  const others = ["job.json", "manifest.json", proofName];
  const names = [...proof.parts.map(({ name }) => name), ...others];
  const expected = isCalibrated ? [...names, calibrationName] : names;
  const found = [...entries.keys()];
  if (found.length !== expected.length || found.some((name, i) => name !== expected[i])) {
    throw new CheckpointCorruptError(path, "its entries are not those that its proof lists");
  }
  const parts = proof.parts.flatMap(({ name, chunks }) => {
    const entry = entries.get(name);
    return entry === undefined ? [] : { ...entry, chunks };
  });
  const wrong = parts.find(({ bytes, chunks }) => chunks.length !== Math.ceil(bytes / chunkBytes));
  if (wrong !== undefined) {
    const why = `its proof has ${wrong.chunks.length} hashes of \`${wrong.name}\``;
    throw new CheckpointCorruptError(path, `${why}, which has ${wrong.bytes} bytes`);
  }
  const calibration = isCalibrated
    ? unseal(bytesOf(calibrationName), `${path}/${calibrationName}`)
    : undefined;
  const records = parts.map(({ name, bytes, chunks }): PartRecord => {
    const sha256 = hashOf(Buffer.from(chunks.join(""), "hex"));
    return { name, file: name, at: 0, bytes, sha256, base: [] };
  });
  const own = { ...manifest, parts: records };
  return { parts, jobText, manifest: own, manifestText, proof, calibration };
}

/** Checks the bytes around the entries' contents: headers, padding and directory. */
function checkFrame(file: DiskFile, entries: readonly ZipEntry[]): void {
  const check = (what: string, expected: Uint8Array, at: number) => {
    const found = new Uint8Array(expected.length);
    file.read(found, at);
    if (Buffer.compare(found, expected) === 0) return;
    throw new CheckpointCorruptError(file.path, `${what} is not as an export writes it`);
  };
  const placed: ZipEntry[] = [];
  for (const entry of entries) {
    const one = { ...entry, ...zipPlaceAt(zipEnd(placed), entry.name, pageBytes) };
    check(`the header of \`${one.name}\``, zipHeader(one), one.header);
    placed.push(one);
  }
  const [directory, end] = [zipDirectory(placed), zipEnd(placed)];
  check("its directory", directory, end);
  if (file.size() === end + directory.length) return;
  throw new CheckpointCorruptError(file.path, "it has bytes after its end");
}

/**
 * The bytes of a part in pieces. Each piece is checked against its hash before it is yielded, and
 * is overwritten by the next one. @throws CheckpointCorruptError naming the bytes
 */
export function* readChunks(
  file: DiskFile,
  { name, start, bytes, chunks }: PartEntry,
): Generator<Uint8Array, void, undefined> {
  const buffer = new Uint8Array(Math.min(chunkBytes, bytes));
  for (const [i, expected] of chunks.entries()) {
    const at = i * chunkBytes;
    const piece = buffer.subarray(0, Math.min(chunkBytes, bytes - at));
    const first = start + at;
    const isWhole = file.read(piece, first) === piece.length;
    if (!isWhole || hashOf(piece) !== expected) {
      const where = `bytes ${first} to ${first + piece.length - 1}, of \`${name}\``;
      throw new CheckpointCorruptError(file.path, `${where}, do not match their hash`);
    }
    yield piece;
  }
}

/** Hex SHA-256. */
export function hashOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
