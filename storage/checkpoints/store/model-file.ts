// File format of a whole checkpoint in one file, named `*.osiris`. Little-endian:
//
//   page 0     "osiris model 1\n", then zeros
//   sections   whole parts of a checkpoint, one after the other, each starting at a page; padded
//              with zeros up to the next page
//   footer     sealed JSON (sealed-json.ts): the job, the manifest, the sections' offsets, the
//              hash of every chunk, and the digests from which the run's digest is computed
//   end        24 bytes: first byte of the footer u64 | its bytes u64 | "OSIRIS-1"
//
// A section has the bytes of a part as in a checkpoint directory (src/training/checkpoint): rows in
// their table's precision. A table is one section, however many parts it was sharded into. Sections
// and their padding are hashed in chunks, which cover every byte before the footer except page 0,
// whose bytes are constant.

import { createHash } from "node:crypto";
import { z } from "zod";
import { CheckpointCorruptError, InputUnusableError } from "../../../src/errors/errors.ts";
import type { DiskFile } from "../../../src/ports/disk.ts";
import { seal, unsealAs } from "../../disk/sealed-json.ts";
import { partName } from "./manifest.ts";
import { storedCalibrationSchema } from "./stored-calibration.ts";

/** Ending of a model file's name. */
export const modelFileEnding = ".osiris";

/** Sections begin at multiples of this, so that a program may map them into memory. */
export const pageBytes = 4096;

/** Bytes of a chunk; a section's last chunk may be shorter. A reader holds one in memory. */
export const chunkBytes = 2 ** 22;

const version = 1;
const endMark = new TextEncoder().encode("OSIRIS-1");
const endBytes = 24;

/** The first page. */
export function firstPage(): Uint8Array {
  const page = new Uint8Array(pageBytes);
  page.set(new TextEncoder().encode("osiris model 1\n"));
  return page;
}

const nat = z.number().int().nonnegative();
const hash = z.string().regex(/^[0-9a-f]{64}$/);

/**
 * Most state floats per element: two moments and an average. Bounds the zeros that readers make.
 */
const stateCopiesMax = 3;

const sectionSchema = z.object({
  /** Name of the part in a checkpoint, e.g. `table-00003` for a whole table. */
  name: partName,
  /** First byte in the file. */
  first: nat,
  /** Length without the padding. */
  bytes: nat,
  /** SHA-256 of each chunk; the last one includes the padding. */
  chunks: z.array(hash),
});

const tableSchema = z.object({
  /** Initialised rows in the file. */
  rows: nat,
  /** State floats per element that were left out and count as 0; 0: none were left out. */
  leftOut: nat.max(stateCopiesMax),
  /** Digest of the rows with all of their state, from which the model's digest is computed. */
  digest: hash,
  /** Digest of the rows as stored, without the state that was left out. */
  stored: hash,
});

const footerSchema = z.object({
  version: z.literal(version),
  jobIdentity: z.string(),
  /** The whole job, as JSON. */
  job: z.string(),
  /** The manifest of the checkpoint, sealed, as its directory has it. */
  manifest: z.string(),
  /**
   * The digest of this file's tables, dense network and dynamic ids. It equals the manifest's,
   * unless checkpoints store fewer bits than the model has.
   */
  digest: hash,
  sections: z.array(sectionSchema),
  /** One per table, in the order of the job. */
  tables: z.array(tableSchema),
  /** The model's calibration, if one is stored; the digest does not cover it. */
  calibration: storedCalibrationSchema.optional(),
  sha256: hash,
});

export type Section = z.output<typeof sectionSchema>;
export type TableProof = z.output<typeof tableSchema>;
export type Footer = z.output<typeof footerSchema>;

/** Schemas for the resume records of unfinished files. */
export { sectionSchema, tableSchema };

/** The bytes from offset `first` on: the footer, and the trailer that locates it. */
export function endOf(footer: Omit<Footer, "sha256" | "version">, first: number): Uint8Array {
  const text = new TextEncoder().encode(seal({ version, ...footer }).text);
  const bytes = new Uint8Array(text.length + endBytes);
  bytes.set(text);
  const view = new DataView(bytes.buffer, text.length);
  view.setBigUint64(0, BigInt(first), true);
  view.setBigUint64(8, BigInt(text.length), true);
  bytes.set(endMark, text.length + 16);
  return bytes;
}

/**
 * Reads the footer, and checks the first page and the offsets of the sections.
 * @throws CheckpointCorruptError; InputUnusableError where it is another file, or another version
 */
export function readFooter(file: DiskFile): Footer {
  const { path } = file;
  const size = file.size();
  const page = new Uint8Array(pageBytes);
  file.read(page, 0);
  const expected = firstPage();
  if (size < pageBytes + endBytes || !isSame(page.subarray(0, 12), expected.subarray(0, 12))) {
    const message = `Expected a model that \`osiris export --to FILE${modelFileEnding}\` wrote`;
    throw new InputUnusableError(path, `${message}, but ${path} does not begin as one`);
  }
  if (!isSame(page, expected)) throw new CheckpointCorruptError(path, "its first page is another");
  const end = new Uint8Array(endBytes);
  file.read(end, size - endBytes);
  const view = new DataView(end.buffer);
  const first = Number(view.getBigUint64(0, true));
  const length = Number(view.getBigUint64(8, true));
  if (!isSame(end.subarray(16), endMark) || first + length !== size - endBytes) {
    throw new CheckpointCorruptError(path, "it does not end as a model does: it is cut short");
  }
  const text = new Uint8Array(length);
  file.read(text, first);
  const footer = unsealAs(footerSchema, version, text, path);
  checkPlaces(footer, first, path);
  return footer;
}

/** Checks that sections are contiguous and end at the footer. */
function checkPlaces({ sections }: Footer, footer: number, path: string): void {
  let at = pageBytes;
  for (const { name, first, bytes, chunks } of sections) {
    if (first !== at || chunks.length !== Math.ceil(paddedBytes(bytes) / chunkBytes)) {
      throw new CheckpointCorruptError(path, `${name} lies at byte ${first}, expected ${at}`);
    }
    at += paddedBytes(bytes);
  }
  if (at === footer) return;
  throw new CheckpointCorruptError(path, `its footer is at byte ${footer}, expected ${at}`);
}

/** `bytes`, rounded up to whole pages. */
export function paddedBytes(bytes: number): number {
  return pageBytes * Math.ceil(bytes / pageBytes);
}

/**
 * The bytes of a section in pieces. Each piece is checked against its hash before it is yielded,
 * and is overwritten by the next one. @throws CheckpointCorruptError
 */
export function* readSection(
  file: DiskFile,
  { name, first, bytes, chunks }: Section,
): Generator<Uint8Array, void, undefined> {
  const { path } = file;
  const padded = paddedBytes(bytes);
  const buffer = new Uint8Array(Math.min(chunkBytes, padded));
  for (const [i, expected] of chunks.entries()) {
    const at = i * chunkBytes;
    const wanted = Math.min(chunkBytes, padded - at);
    const piece = buffer.subarray(0, wanted);
    if (file.read(piece, first + at) !== wanted) {
      throw new CheckpointCorruptError(path, `${name} is cut short`);
    }
    if (hashOf(piece) !== expected) {
      const where = `bytes ${first + at} to ${first + at + wanted - 1}, of ${name}`;
      throw new CheckpointCorruptError(path, `${where}, do not have their hash`);
    }
    yield piece.subarray(0, bytes - at);
  }
}

/** Hex SHA-256. */
export function hashOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function isSame(bytes: Uint8Array, others: Uint8Array): boolean {
  return Buffer.compare(bytes, others) === 0;
}
