// Compression codecs of Parquet pages.

import * as zlib from "node:zlib";
import type { CompressionCodec } from "hyparquet";
import { type Pack, packOf } from "../../../internal.ts";

/** The codecs that Osiris can write, by their names on the command line. */
export const codecs = ["snappy", "zstd", "gzip", "brotli", "none"] as const;
export type Codec = (typeof codecs)[number];

let zstd: Pack | undefined;

/** Loads a codec if necessary. Call it before writing a file with the codec. */
export async function readyCodec(codec: Codec): Promise<void> {
  if (codec === "zstd") zstd = await packOf(".zst");
}

/** A codec's name in Parquet. */
export function codecOf(codec: Codec): CompressionCodec {
  return codec === "none" ? "UNCOMPRESSED" : (codec.toUpperCase() as CompressionCodec);
}

/** Compressors for codecs that the Parquet library lacks. Call `readyCodec` before. */
export function compressors(): Partial<Record<CompressionCodec, Pack>> {
  return {
    GZIP: (bytes) => zlib.gzipSync(bytes),
    BROTLI: (bytes) =>
      zlib.brotliCompressSync(bytes, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } }),
    ...(zstd && { ZSTD: zstd }),
  };
}
