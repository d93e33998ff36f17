// Reads the pages of a column in a row group in order: reads and checks their headers, and
// decompresses their bytes. Memory holds one page and the dictionary page.
// https://parquet.apache.org/docs/file-format/data-pages

import { crc32 } from "node:zlib";
import { type ByteStream, slackBytes } from "../../tables/byte-ranges.ts";
import { CorruptFile } from "../../tables/damage.ts";
import { checkDictionary } from "../../tables/memory-budget.ts";
import type { PieceMemory } from "../../tables/piece-memory.ts";
import type { ByteHash } from "../../tables/table-file.ts";
import type { Chunk } from "../footer.ts";
import { pageBytesMax, Unpacker } from "./codecs.ts";
import { HybridReader } from "./hybrid.ts";
import type { PageDecoders } from "./page-decoders.ts";
import { readStruct, ThriftEnded, type ThriftStruct, type ThriftValue } from "./thrift.ts";

/** The decompressed levels and values of a page; valid until the next page. */
export interface DataPage {
  /** Entries of the page, nulls included. */
  readonly count: number;
  readonly repetition: HybridReader | undefined;
  readonly definition: HybridReader | undefined;
  readonly encoding: number;
  /** Values are the bytes `start` until `end`, followed by slack. */
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
  readonly decoders: PageDecoders;
}

/** The values of a dictionary, encoded as PLAIN. */
export interface DictionaryPage {
  readonly count: number;
  readonly bytes: Uint8Array;
  readonly end: number;
  readonly decoders: PageDecoders;
}

/** Largest repetition and definition level of a column. */
export interface Levels {
  readonly repetitionMax: number;
  readonly definitionMax: number;
}

const [dataV1, index, dictionary, dataV2] = [0, 1, 2, 3];
const [rle, bitPacked] = [3, 4];
/** Largest page header, in bytes: it may hold statistics of long texts. */
const headerBytesMax = 0x100_0000;
/** Bytes that are read first for a header; most headers fit. */
const headerBytesUsual = 0x1000;

/** Dependencies of a `PageReader`. */
export interface PageTools {
  /** Receives the stored bytes of all pages that are read. */
  readonly hash: ByteHash;
  readonly decoders: PageDecoders;
  readonly memory: PieceMemory;
}

/** Reads the pages of one column chunk. */
export class PageReader {
  readonly #stream: ByteStream;
  readonly #levels: Levels;
  readonly #unpacker: Unpacker;
  readonly #isPacked: boolean;
  readonly #hash: ByteHash;
  readonly #decoders: PageDecoders;
  readonly #memory: PieceMemory;
  /** Values of the chunk that are not read yet. */
  #left: number;
  #dictionary: DictionaryPage | undefined;

  /** @throws CorruptFile if the codec is not supported */
  constructor(
    stream: ByteStream,
    { codec, values }: Chunk,
    levels: Levels,
    { hash, decoders, memory }: PageTools,
  ) {
    this.#stream = stream;
    this.#levels = levels;
    this.#unpacker = new Unpacker(codec, decoders, memory);
    this.#isPacked = codec !== "UNCOMPRESSED";
    this.#left = values;
    this.#hash = hash;
    this.#decoders = decoders;
    this.#memory = memory;
  }

  /** The dictionary page, once it has been read. */
  get dictionary(): DictionaryPage | undefined {
    return this.#dictionary;
  }

  /** Reads the next page with values; undefined after the last. @throws CorruptFile */
  async next(): Promise<DataPage | undefined> {
    await this.#unpacker.ready();
    while (this.#left > 0) {
      const { header, packed, size } = await this.#page();
      const type = numberOf(header.get(1));
      if (type === dictionary) this.#takeDictionary(header, packed, size);
      else if (type === dataV1 || type === dataV2) {
        const page =
          type === dataV1
            ? this.#pageV1(structOf(header.get(5)), packed, size)
            : this.#pageV2(structOf(header.get(8)), packed, size);
        if (page.count > this.#left) {
          throw new CorruptFile(`a page has ${page.count} values, where ${this.#left} are left`);
        }
        this.#left -= page.count;
        if (page.count > 0) return page;
      } else if (type !== index) throw new CorruptFile(`it has a page of the unknown type ${type}`);
    }
    return undefined;
  }

  /** Reads the header and the stored bytes of a page. */
  async #page() {
    const { fields: header, end } = await this.#header();
    const [size, packedSize] = [numberOf(header.get(2)), numberOf(header.get(3))];
    if (size < 0 || size > pageBytesMax || packedSize < 0) {
      throw new CorruptFile(`a page says that its ${packedSize} bytes unpack to ${size}`);
    }
    if (end + packedSize > this.#stream.left) {
      const { left } = this.#stream;
      throw new CorruptFile(
        `a page says that it has ${packedSize} bytes, and ${left - end} are left`,
      );
    }
    const bytes = await this.#stream.peek(end + packedSize);
    const packed = bytes.subarray(end, end + packedSize);
    this.#hash.update(bytes.subarray(0, end + packedSize));
    this.#stream.skip(end + packedSize);
    const checksum = header.get(4);
    if (checksum !== undefined && numberOf(checksum) >>> 0 !== crc32(packed)) {
      throw new CorruptFile("the checksum of a page differs");
    }
    return { header, packed, size };
  }

  async #header(): Promise<{ readonly fields: ThriftStruct; readonly end: number }> {
    for (let wanted = headerBytesUsual; ; wanted *= 16) {
      const length = Math.min(wanted, headerBytesMax, this.#stream.left);
      const bytes = await this.#stream.peek(length);
      try {
        return readStruct(bytes, 0, length);
      } catch (error) {
        const mayGoOn = error instanceof ThriftEnded && length === wanted;
        if (!mayGoOn) throw error;
      }
    }
  }

  #takeDictionary(header: ThriftStruct, packed: Uint8Array, size: number): void {
    if (this.#dictionary !== undefined) throw new CorruptFile("it has two dictionaries");
    const count = numberOf(structOf(header.get(7)).get(1));
    if (count < 0) throw new CorruptFile(`its dictionary says that it has ${count} values`);
    checkDictionary(size, packed.length);
    // A copy, because the next page is decompressed into the same memory.
    const bytes = this.#memory.uint8(size + slackBytes);
    bytes.set(this.#unpack(packed, size, 0).subarray(0, size + slackBytes));
    this.#dictionary = { count, bytes, end: size, decoders: this.#decoders };
  }

  #pageV1(header: ThriftStruct, packed: Uint8Array, size: number): DataPage {
    const { repetitionMax, definitionMax } = this.#levels;
    const bytes = this.#unpack(packed, size, 0);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let start = 0;
    const levels = (field: number, max: number): HybridReader | undefined => {
      if (max === 0) return undefined;
      const encoding = numberOf(header.get(field));
      if (encoding !== rle) throw new CorruptFile(`its levels have ${encodingName(encoding)}`);
      const length = view.getUint32(start, true);
      if (start + 4 + length > size) throw new CorruptFile(`a page has ${length} bytes of levels`);
      start += 4 + length;
      return this.#levelReader(bytes, start - length, start, max);
    };
    const repetition = levels(4, repetitionMax);
    const definition = levels(3, definitionMax);
    const count = countOf(header.get(1));
    const encoding = numberOf(header.get(2));
    const decoders = this.#decoders;
    return { count, repetition, definition, encoding, bytes, start, end: size, decoders };
  }

  #pageV2(header: ThriftStruct, packed: Uint8Array, size: number): DataPage {
    const { repetitionMax, definitionMax } = this.#levels;
    const [definitionBytes, repetitionBytes] = [countOf(header.get(5)), countOf(header.get(6))];
    const start = repetitionBytes + definitionBytes;
    if (start > size || start > packed.length) {
      throw new CorruptFile(`a page of ${size} bytes has ${start} bytes of levels`);
    }
    const bytes =
      header.get(7) === false ? this.#copy(packed, size) : this.#unpack(packed, size, start);
    const levels = (from: number, to: number, max: number) => {
      return max === 0 ? undefined : this.#levelReader(bytes, from, to, max);
    };
    return {
      count: countOf(header.get(1)),
      repetition: levels(0, repetitionBytes, repetitionMax),
      definition: levels(repetitionBytes, start, definitionMax),
      encoding: numberOf(header.get(4)),
      bytes,
      start,
      end: size,
      decoders: this.#decoders,
    };
  }

  #levelReader(bytes: Uint8Array, from: number, to: number, max: number): HybridReader {
    return new HybridReader(bytes, from, to, bitsOf(max), this.#decoders.readHybrid);
  }

  /** Decompresses a page; its first `head` bytes are not compressed. */
  #unpack(packed: Uint8Array, size: number, head: number): Uint8Array {
    if (!this.#isPacked) return this.#copy(packed, size);
    return this.#unpacker.unpack(packed, size, head);
  }

  /**
   * Returns uncompressed bytes without copying. The stream's buffer provides the slack after them.
   */
  #copy(packed: Uint8Array, size: number): Uint8Array {
    if (packed.length !== size) {
      throw new CorruptFile(`a page says that it has ${size} bytes, and has ${packed.length}`);
    }
    return new Uint8Array(packed.buffer, packed.byteOffset);
  }
}

/** The name of an encoding, for messages. */
export function encodingName(encoding: number): string {
  if (encoding === bitPacked) return "the encoding BIT_PACKED, which is not read";
  return `the encoding ${encodingNames[encoding] ?? encoding}, which is not read for its type`;
}

const encodingNames = [
  ...["PLAIN", "GROUP_VAR_INT", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED"],
  ...["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"],
];

function bitsOf(max: number): number {
  return 32 - Math.clz32(max);
}

function numberOf(value: ThriftValue | undefined): number {
  if (typeof value === "number") return value;
  throw new CorruptFile("the header of a page lacks a number");
}

function countOf(value: ThriftValue | undefined): number {
  const count = numberOf(value);
  if (count < 0 || count > 0x7fff_ffff)
    throw new CorruptFile(`a page says that it has ${count} values`);
  return count;
}

function structOf(value: ThriftValue | undefined): ThriftStruct {
  if (value instanceof Map) return value;
  throw new CorruptFile("the header of a page lacks its description");
}
