// The file format of a delta, which turns one version of a served model into a later one.
//
//   "OSIRIS-D" | data | sealed JSON (DeltaIndex) | bytes of the JSON, uint32 | "OSIRIS-D"
//
//   data:  for each table its chunks, then its ids; at last the dense parameters, flat, in float32
//     chunk:  changed rows (n), ascending, int32 | their records (n)
//     ids:    rows with another id (n), int32 | rows without an id any more (m), int32 |
//             the ids of the n rows, int64
//
// Byte order is that of records and of the machine: little-endian. The index contains the hash of
// the data and is itself sealed. The file contains no optimizer state except what a moving average
// needs.

import { createHash, type Hash } from "node:crypto";
import { z } from "zod";
import {
  CheckpointCorruptError,
  type Disk,
  type DiskFile,
  diskCode,
  InputUnusableError,
  seal,
  unsealAs,
} from "../../../internal.ts";

const magic = new TextEncoder().encode("OSIRIS-D");
const formatVersion = 1;
/** Bytes after the JSON. */
const tailBytes = 4 + magic.length;
/** Most bytes of an index, in which a table takes about two hundred bytes. */
const indexBytesMax = 2 ** 24;

const nat = z.number().int().nonnegative();
const version = z.object({ digest: z.string(), step: nat, manifest: z.string() });

const indexSchema = z.object({
  version: z.literal(formatVersion),
  jobIdentity: z.string(),
  arithmetic: z.string(),
  from: version,
  to: version,
  means: z.record(z.string(), z.number()).optional(),
  tables: z.array(
    z.object({
      name: z.string(),
      recordBytes: nat,
      changed: nat,
      /** Offset of its chunks, and the rows of each chunk but the last. */
      at: nat,
      chunkRows: z.number().int().positive(),
      ids: z.object({ at: nat, changed: nat, freed: nat }).optional(),
    }),
  ),
  dense: z.object({ at: nat, count: nat }),
  /** Offset of the end of the data. */
  end: nat,
  /** Hash of the data. */
  dataSha256: z.string(),
  sha256: z.string(),
});

/** The index of a delta. Offsets are bytes from the beginning of the file. */
export type DeltaIndex = z.output<typeof indexSchema>;
export type DeltaTable = DeltaIndex["tables"][number];
/** The version to which a delta applies, or which it produces. */
export type DeltaVersion = DeltaIndex["from"];

/** Opens a delta. @throws InputUnusableError where the file is missing or cannot be read */
export function openDelta(disk: Disk, path: string): DiskFile {
  try {
    return disk.open(path, "read");
  } catch (error) {
    if (diskCode(error) === undefined) throw error;
    const why = diskCode(error) === "ENOENT" ? "there is no such file" : String(error);
    throw new InputUnusableError(path, `Cannot read the delta ${path}: ${why}`, { cause: error });
  }
}

/** The chunks of a table: offset and number of rows of each. */
export function* chunksOf({ at, changed, chunkRows, recordBytes }: DeltaTable) {
  for (let first = 0; first < changed; first += chunkRows) {
    const rows = Math.min(chunkRows, changed - first);
    yield { at: at + first * (4 + recordBytes), rows };
  }
}

/**
 * Parses an empty index in advance, because a process's first parse takes milliseconds, which would
 * delay requests later.
 */
export function prepareIndexCheck(): void {
  const version = { digest: "", step: 0, manifest: "" };
  const table = { name: "", recordBytes: 0, changed: 0, at: 0, chunkRows: 1 };
  const { text } = seal({
    ...{ version: formatVersion, jobIdentity: "", arithmetic: "", from: version, to: version },
    tables: [{ ...table, ids: { at: 0, changed: 0, freed: 0 } }],
    ...{ dense: { at: 0, count: 0 }, end: 0, dataSha256: "" },
  });
  unsealAs(indexSchema, formatVersion, new TextEncoder().encode(text), "an empty index");
}

/** Writes the data of a delta in order, then its index. */
export class DeltaWriter {
  readonly #file: DiskFile;
  readonly #hash = createHash("sha256");
  #at = magic.length;

  constructor(file: DiskFile) {
    this.#file = file;
    file.write(magic, 0);
  }

  /** Offset of the next data. */
  get end(): number {
    return this.#at;
  }

  /** Appends data. Returns their offset. */
  put(...pieces: readonly ArrayBufferView[]): number {
    const first = this.#at;
    for (const { buffer, byteOffset, byteLength } of pieces) {
      const bytes = new Uint8Array(buffer, byteOffset, byteLength);
      this.#hash.update(bytes);
      this.#file.write(bytes, this.#at);
      this.#at += byteLength;
    }
    return first;
  }

  finish(index: Omit<DeltaIndex, "version" | "end" | "dataSha256" | "sha256">): void {
    const end = this.#at;
    const dataSha256 = this.#hash.digest("hex");
    const { text } = seal({ version: formatVersion, ...index, end, dataSha256 });
    const bytes = new TextEncoder().encode(text);
    const length = new Uint8Array(Uint32Array.of(bytes.length).buffer);
    this.#file.write(Buffer.concat([bytes, length, magic]), end);
  }
}

/**
 * The index of a delta, checked against its own seal and the length of the file.
 * @throws InputUnusableError if the file is not a delta or has another format version;
 *   CheckpointCorruptError if it is damaged
 */
export async function readDeltaIndex(file: DiskFile): Promise<DeltaIndex> {
  const { path } = file;
  const size = file.size();
  const head = await bytesAt(file, 0, magic.length);
  if (!isMagic(head)) {
    throw new InputUnusableError(
      path,
      `Expected ${path} to be a delta, as \`osiris export --since\` writes it`,
    );
  }
  const tail = await bytesAt(file, Math.max(0, size - tailBytes), tailBytes);
  if (!isMagic(tail.subarray(4))) throw new CheckpointCorruptError(path, "the file is truncated");
  const length = new DataView(tail.buffer, tail.byteOffset).getUint32(0, true);
  const first = size - tailBytes - length;
  if (first < magic.length || length > indexBytesMax) {
    throw new CheckpointCorruptError(path, `its index claims ${length} bytes`);
  }
  const index = unsealAs(indexSchema, formatVersion, await bytesAt(file, first, length), path);
  if (index.end !== first) throw new CheckpointCorruptError(path, "its data is truncated");
  return index;
}

/** Reads the data of a delta in order, and verifies their hash at the end. */
export class DeltaData {
  readonly #file: DiskFile;
  readonly #hash: Hash = createHash("sha256");
  readonly #size: number;
  #at = magic.length;
  #buffer = new Uint8Array(0);

  constructor(file: DiskFile) {
    this.#file = file;
    this.#size = file.size();
  }

  /**
   * Reads the next `bytes` of data, which must begin at offset `at`. The result is valid until the
   * next call and begins at offset 0 of its buffer.
   */
  async next(at: number, bytes: number): Promise<Uint8Array> {
    if (at !== this.#at) throw new CheckpointCorruptError(this.#file.path, "its data has gaps");
    // Check before allocating, as a damaged index may contain any number.
    if (at + bytes > this.#size)
      throw new CheckpointCorruptError(this.#file.path, "the file is truncated");
    // One buffer is reused, because collecting a whole delta's garbage would delay requests.
    if (this.#buffer.length < bytes) this.#buffer = new Uint8Array(bytes);
    const out = this.#buffer.subarray(0, bytes);
    await readAt(this.#file, at, out);
    this.#hash.update(out);
    this.#at += bytes;
    return out;
  }

  /** Verifies the data. @throws CheckpointCorruptError where they differ from those written */
  finish({ end, dataSha256 }: DeltaIndex): void {
    const { path } = this.#file;
    if (this.#at !== end)
      throw new CheckpointCorruptError(path, "its data is longer than its index says");
    const actual = this.#hash.digest("hex");
    if (actual === dataSha256) return;
    throw new CheckpointCorruptError(path, `its data's hash is ${actual}, expected ${dataSha256}`);
  }
}

async function bytesAt(file: DiskFile, at: number, count: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(count);
  await readAt(file, at, bytes);
  return bytes;
}

async function readAt(file: DiskFile, at: number, out: Uint8Array): Promise<void> {
  const read = await file.readLater(out, at);
  if (read < out.length) throw new CheckpointCorruptError(file.path, "the file is truncated");
}

function isMagic(bytes: Uint8Array): boolean {
  return bytes.length === magic.length && magic.every((byte, i) => byte === bytes[i]);
}
