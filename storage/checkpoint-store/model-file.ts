// A whole checkpoint in one file, which ends in `.osiris`. Little-endian:
//
//   page 0     "osiris model 1\n", then zeros
//   sections   parts of a checkpoint, whole and one after the other, each from a page on; zeros
//              up to the next page
//   footer     sealed JSON (sealed-json.ts): the job, the manifest, where the sections lie, the
//              hash of every chunk, and what leads to the run's digest
//   end        24 bytes: first byte of the footer u64 | its bytes u64 | "OSIRIS-1"
//
// A section has the bytes of a part as a checkpoint directory has them (src/training/checkpoint):
// rows in their table's own precision, a table in one section however many parts it was cut into.
// Sections and their zeros are hashed in chunks: every byte before the footer but page 0, whose
// bytes are known, is in one of them.

import { createHash } from "node:crypto";
import { z } from "zod";
import { CheckpointCorruptError, InputUnusableError } from "../../src/errors/errors.ts";
import type { DiskFile } from "../../src/ports/disk.ts";
import { seal, unseal } from "../disk/sealed-json.ts";
import { partName } from "./manifest.ts";
import { storedCalibrationSchema } from "./stored-calibration.ts";

/** What the name of such a file ends with. */
export const modelFileEnding = ".osiris";

/** Sections begin at multiples of this, so that a program may map them into memory. */
export const pageBytes = 4096;

/** Bytes of a chunk; of a section's last one fewer. A reader has one in memory. */
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

/** No optimizer has more: two moments and an average. Readers make them, unpaid by any byte. */
const stateCopiesMax = 3;

const sectionSchema = z.object({
  /** As a checkpoint names the part of a whole table: `table-00003`. */
  name: partName,
  /** First byte in the file. */
  first: nat,
  /** Without the zeros behind them. */
  bytes: nat,
  /** SHA-256 of each chunk, the zeros behind the last one with it. */
  chunks: z.array(hash),
});

const tableSchema = z.object({
  /** Initialised rows in the file. */
  rows: nat,
  /** State floats of each element that rows lack, and that count as 0; 0: none are left out. */
  leftOut: nat.max(stateCopiesMax),
  /** Digest of the rows with all of their state: what the model's digest is made of. */
  digest: hash,
  /** The same without the state that was left out: of the rows as the file has them. */
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
   * The digest that the tables, the dense network and dynamic ids of this file come to: that of
   * the manifest, unless checkpoints store fewer bits than the model has.
   */
  digest: hash,
  sections: z.array(sectionSchema),
  /** In the order of the job. */
  tables: z.array(tableSchema),
  /** Of the model, where one is stored with it; the digest does not count it. */
  calibration: storedCalibrationSchema.optional(),
  sha256: hash,
});

export type Section = z.output<typeof sectionSchema>;
export type TableProof = z.output<typeof tableSchema>;
export type Footer = z.output<typeof footerSchema>;

/** For records of unfinished files. */
export { sectionSchema, tableSchema };

/** The end of a file, from byte `first` on: the footer and what finds it. */
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
 * Reads the footer, and holds the first page and the places of the sections to what they must be.
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
  const value = unseal(text, path);
  const found = z.object({ version: z.unknown() }).safeParse(value).data?.version;
  if (found !== version) {
    const message = `Expected version ${version} in ${path}, got ${found}`;
    throw new InputUnusableError(path, `${message}; use the Osiris that wrote it`);
  }
  const parsed = footerSchema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new CheckpointCorruptError(path, `${issue?.path.join(".")}: ${issue?.message}`);
  }
  checkPlaces(parsed.data, first, path);
  return parsed.data;
}

/** Sections lie behind each other, without a gap, and end at the footer. */
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

/** Bytes with the zeros up to the next page. */
export function paddedBytes(bytes: number): number {
  return pageBytes * Math.ceil(bytes / pageBytes);
}

/**
 * The bytes of a section in pieces, each held to its hash before it is given, and overwritten by
 * the next one. @throws CheckpointCorruptError
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
