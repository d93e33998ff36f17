// Decompresses pages. The size that a page claims is checked before memory is allocated for it, and
// again against the decompressed bytes.

import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { slackBytes } from "../../tables/byte-ranges.ts";
import { CorruptFile } from "../../tables/damage.ts";
import { unpackLz4Hadoop, unpackLz4Raw } from "../../tables/lz4.ts";
import { checkUnpacked } from "../../tables/memory-budget.ts";
import type { PieceMemory } from "../../tables/piece-memory.ts";
import { readyZstd, unpackZstd } from "../../tables/zstd.ts";
import type { PageDecoders } from "./page-decoders.ts";

/** Largest decompressed page that is read. Writers produce pages of about a megabyte. */
export const pageBytesMax = 0x1000_0000;

/**
 * Upper bound of snappy's compression ratio: its densest element, a copy of 64 bytes, takes three
 * bytes.
 */
const snappyRatioMax = 64;

/** Decompresses the pages of a column, all into the same memory. */
export class Unpacker {
  readonly #codec: string;
  readonly #decoders: PageDecoders;
  readonly #memory: PieceMemory;
  #bytes = new Uint8Array(0);

  /** @throws CorruptFile if the codec is not supported */
  constructor(codec: string, decoders: PageDecoders, memory: PieceMemory) {
    if (!codecs.has(codec)) {
      const names = [...codecs].join(", ");
      throw new CorruptFile(`its codec is ${codec}, of which Osiris reads ${names}`);
    }
    this.#codec = codec;
    this.#decoders = decoders;
    this.#memory = memory;
  }

  /** Loads the codec. Must resolve before pages are decompressed. */
  async ready(): Promise<void> {
    if (this.#codec === "ZSTD") await readyZstd();
  }

  /**
   * Decompresses `packed` into `size` bytes, followed by `slackBytes`; valid until the next call.
   * The first `head` bytes are not compressed. @throws CorruptFile
   */
  unpack(packed: Uint8Array, size: number, head: number): Uint8Array {
    if (size > pageBytesMax) throw new CorruptFile(`a page says that it has ${size} bytes`);
    checkUnpacked("a page", size, packed.length);
    if (this.#bytes.length < size + slackBytes) {
      this.#bytes = this.#memory.uint8(size + slackBytes + (size >> 2));
    }
    const body = this.#bytes.subarray(head, size);
    if (head > 0) this.#bytes.set(packed.subarray(0, head));
    if (body.length > 0) this.#unpackInto(body, packed.subarray(head));
    return this.#bytes.subarray(0, size + slackBytes);
  }

  #unpackInto(body: Uint8Array, packed: Uint8Array): void {
    const size = body.length;
    switch (this.#codec) {
      case "SNAPPY":
        if (size > snappyRatioMax * packed.length) throw wrongSize(size, packed.length);
        this.#decoders.unpackSnappy(body, packed);
        return;
      case "GZIP":
        put(body, gunzipSync(packed, { maxOutputLength: size }));
        return;
      case "BROTLI":
        put(body, brotliDecompressSync(packed, { maxOutputLength: size }));
        return;
      case "ZSTD":
        unpackZstd(body, packed);
        return;
      case "LZ4":
        unpackLz4Hadoop(body, packed);
        return;
      case "LZ4_RAW":
        unpackLz4Raw(body, packed);
        return;
      default:
        put(body, packed);
    }
  }
}

const codecs = new Set(["UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4", "LZ4_RAW"]);

function put(body: Uint8Array, unpacked: Uint8Array): void {
  if (unpacked.length !== body.length) throw wrongSize(body.length, unpacked.length);
  body.set(unpacked);
}

function wrongSize(said: number, is: number): CorruptFile {
  return new CorruptFile(`a page says that it unpacks to ${said} bytes, and ${is} do not`);
}
