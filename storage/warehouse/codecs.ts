// How the pages of Parquet files are packed.

import * as zlib from "node:zlib";
import type { CompressionCodec } from "hyparquet";
import { loadZstd, type Pack } from "../disk/packing.ts";

/** The codecs that are written, as the command line names them. */
export const codecs = ["snappy", "zstd", "gzip", "brotli", "none"] as const;
export type Codec = (typeof codecs)[number];

let zstd: Pack | undefined;

/** Makes a codec ready, if it is not: before a file is written with it. */
export async function readyCodec(codec: Codec): Promise<void> {
  if (codec === "zstd") zstd = await loadZstd();
}

/** A codec's name in Parquet. */
export function codecOf(codec: Codec): CompressionCodec {
  return codec === "none" ? "UNCOMPRESSED" : (codec.toUpperCase() as CompressionCodec);
}

/** Those of the codecs that Parquet's writer does not bring. The codec in use is ready. */
export function compressors(): Partial<Record<CompressionCodec, Pack>> {
  return {
    GZIP: (bytes) => zlib.gzipSync(bytes),
    BROTLI: (bytes) =>
      zlib.brotliCompressSync(bytes, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } }),
    ...(zstd && { ZSTD: zstd }),
  };
}
