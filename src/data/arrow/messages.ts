// Finds the messages of an Arrow file by its footer, or of a stream by reading one message header
// after the other. Only metadata is read, so that the number of rows of every record batch is known
// before a batch is read.
//
//   file     "ARROW1" 0 0 | message | … | message | footer | its bytes (4) | "ARROW1"
//   stream   message | … | message | an end of 8 bytes, or none
//   message  ff ff ff ff | bytes of metadata (4) | metadata | body        without ff in older files

import type { RangeReader } from "../tables/byte-ranges.ts";
import { CorruptFile, unusableAt } from "../tables/damage.ts";
import {
  type ArrowMessage,
  type ArrowSchema,
  type BatchLayout,
  type Block,
  readFooter,
  readMessage,
} from "./metadata.ts";

/** Byte range of a message's body in the file, and its layout. */
export interface Body {
  readonly layout: BatchLayout;
  readonly start: number;
  readonly end: number;
}

/** Rows and position of a record batch. */
export interface BatchPlace {
  readonly rows: number;
  readonly block: Block;
}

/** Position of a dictionary batch. */
export interface DictionaryPlace {
  readonly id: number;
  /** Whether its values are appended to the dictionary of this id; otherwise they replace it. */
  readonly isDelta: boolean;
  readonly block: Block;
  /** Number of record batches before it in the file. They do not use this dictionary batch. */
  readonly batchesBefore: number;
}

/** The schema of a file, and the positions of its record and dictionary batches. */
export interface ArrowIndex {
  readonly schema: ArrowSchema;
  readonly batches: readonly BatchPlace[];
  readonly dictionaries: readonly DictionaryPlace[];
  /** The bytes that the schema was read from; they are part of the hash of the data. */
  readonly schemaBytes: Uint8Array;
}

/** Largest metadata that is read; a schema of several hundred thousand columns fits. */
const metadataBytesMax = 0x1000_0000;
/** Bytes read at a time; the metadata of most messages is shorter. */
const aheadBytes = 0x4000;
const magic = "ARROW1";

/** Indexes the messages of a file or a stream. @throws InputUnusableError */
export async function openIndex(file: RangeReader): Promise<ArrowIndex> {
  try {
    const { size } = file;
    const head = latin1(await file.read(0, Math.min(8, size)), 0, Math.min(8, size));
    if (head.startsWith("FEA1")) {
      throw new CorruptFile("it is of Feather's version 1, and Osiris reads version 2");
    }
    if (head.startsWith(magic)) return await indexOfFile(new Ahead(file));
    return await indexOfStream(new Ahead(file));
  } catch (cause) {
    throw unusableAt({ kind: "arrow", path: file.path }, cause);
  }
}

async function indexOfFile(file: Ahead): Promise<ArrowIndex> {
  const { size } = file;
  const tail = await file.read(Math.max(0, size - 10), size);
  if (size < 24 || latin1(tail, 4, 10) !== magic) {
    throw new CorruptFile(`it does not end in ${magic}: it was cut short`);
  }
  const footerBytes = viewOf(tail).getInt32(0, true);
  if (footerBytes < 8 || footerBytes > size - 18) {
    throw new CorruptFile(`it says that its footer has ${footerBytes} bytes, of ${size}`);
  }
  const schemaBytes = await file.read(size - 10 - footerBytes, size - 10);
  const { schema, ...blocks } = readFooter(schemaBytes);
  const dictionaries: DictionaryPlace[] = [];
  for (const block of blocks.dictionaries) {
    const message = await messageAt(file, block);
    if (message.kind !== "dictionary") throw new CorruptFile("it lacks a dictionary of its footer");
    dictionaries.push({ ...message, block, batchesBefore: 0 });
  }
  const batches: BatchPlace[] = [];
  for (const [piece, block] of blocks.batches.entries()) {
    try {
      const message = await messageAt(file, block);
      if (message.kind !== "batch") throw new CorruptFile("its message has no record batch");
      batches.push({ rows: message.layout.rows, block });
    } catch (cause) {
      throw unusableAt({ kind: "arrow", path: file.path, piece }, cause);
    }
  }
  return { schema, batches, dictionaries, schemaBytes };
}

async function indexOfStream(file: Ahead): Promise<ArrowIndex> {
  const { size } = file;
  if (size < 8) throw new CorruptFile(`it has ${size} bytes, fewer than any Arrow file`);
  let schema: ArrowSchema | undefined;
  let schemaBytes = new Uint8Array(0);
  const batches: BatchPlace[] = [];
  const dictionaries: DictionaryPlace[] = [];
  for (let start = 0; start < size; ) {
    const metadataBytes = await metadataBytesAt(file, start);
    if (metadataBytes === 0) break;
    const piece = schema === undefined ? undefined : batches.length;
    try {
      const end = start + metadataBytes;
      if (end > size) throw new CorruptFile(cutShort(size));
      const bytes = withoutHead(await file.read(start, end));
      const message = readMessage(bytes);
      const { bodyBytes } = message;
      const block = { start, metadataBytes, bodyBytes };
      if (end + bodyBytes > size) throw new CorruptFile(cutShort(size));
      if (schema === undefined && message.kind !== "schema") {
        throw new CorruptFile("it does not begin with a schema");
      }
      if (message.kind === "schema") {
        if (schema !== undefined) throw new CorruptFile("it has two schemas");
        schema = message.schema;
        schemaBytes = bytes.slice();
      } else if (message.kind === "batch") batches.push({ rows: message.layout.rows, block });
      else dictionaries.push({ ...message, block, batchesBefore: batches.length });
      start = end + bodyBytes;
    } catch (cause) {
      throw unusableAt({ kind: "arrow", path: file.path, piece }, cause);
    }
  }
  if (schema === undefined) throw new CorruptFile("it has no schema");
  return { schema, batches, dictionaries, schemaBytes };
}

function cutShort(size: number): string {
  return `it ends after ${size} bytes, within a message: it was cut short`;
}

/** Bytes from `start` to the body of the message at `start`; 0 at the end of the stream. */
async function metadataBytesAt(file: Ahead, start: number): Promise<number> {
  const some = await file.read(start, Math.min(start + 8, file.size));
  if (some.length < 4) throw new CorruptFile(cutShort(file.size));
  const view = viewOf(some);
  const first = view.getInt32(0, true);
  if (first === -1 && some.length < 8) throw new CorruptFile(cutShort(file.size));
  const [head, bytes] = first === -1 ? [8, view.getInt32(4, true)] : [4, first];
  if (bytes === 0) return 0;
  if (bytes < 0 || bytes > metadataBytesMax) {
    throw new CorruptFile(
      start === 0
        ? `it begins neither with ${magic} nor as a stream: it is another format`
        : `at byte ${start} it says that a message has ${bytes} bytes of metadata`,
    );
  }
  return head + bytes;
}

/** Removes the length in front of the metadata: 4 bytes in older files, 8 bytes since. */
function withoutHead(bytes: Uint8Array): Uint8Array {
  const isOlder = bytes.length >= 8 && viewOf(bytes).getInt32(0, true) !== -1;
  return bytes.subarray(isOlder ? 4 : 8);
}

/** Reads the metadata of a message that the footer refers to. */
async function messageAt(file: Ahead, block: Block): Promise<ArrowMessage> {
  const { start, metadataBytes, bodyBytes } = block;
  const end = start + metadataBytes;
  const isWithin = metadataBytes >= 8 && end + bodyBytes <= file.size;
  if (!isWithin || metadataBytes > metadataBytesMax) {
    throw new CorruptFile(`it lies in the bytes ${start} to ${end + bodyBytes} of ${file.size}`);
  }
  return readMessage(withoutHead(await file.read(start, end)));
}

/**
 * Reads the metadata of a message of the index, and returns where its body lies. @throws
 * CorruptFile
 */
export async function bodyAt(file: RangeReader, block: Block): Promise<Body> {
  const start = block.start + block.metadataBytes;
  const bytes = await file.read(block.start, start);
  const message = readMessage(withoutHead(bytes.subarray(0, block.metadataBytes)));
  if (message.kind === "schema") throw new CorruptFile("its message has no record batch");
  return { layout: message.layout, start, end: start + block.bodyBytes };
}

/** Reads ahead of the requested range, because messages are mostly requested in file order. */
class Ahead {
  readonly #file: RangeReader;
  readonly path: string;
  readonly size: number;
  #start = 0;
  #bytes: Uint8Array = new Uint8Array(0);

  constructor(file: RangeReader) {
    this.#file = file;
    this.path = file.path;
    this.size = file.size;
  }

  /** Bytes `start` until `end`, valid until the next call. */
  async read(start: number, end: number): Promise<Uint8Array> {
    if (start < this.#start || end > this.#start + this.#bytes.length) {
      const last = Math.min(this.size, Math.max(end, start + aheadBytes));
      const bytes = await this.#file.read(start, last);
      this.#bytes = new Uint8Array(bytes.buffer, bytes.byteOffset, last - start);
      this.#start = start;
    }
    return this.#bytes.subarray(start - this.#start, end - this.#start);
  }
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function latin1(bytes: Uint8Array, from: number, to: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1", from, to);
}
