// How the pages of Parquet files are packed.

import * as zlib from "node:zlib";
import type { CompressionCodec } from "hyparquet";

/** The codecs that are written, as the command line names them. */
export const codecs = ["snappy", "zstd", "gzip", "brotli", "none"] as const;
export type Codec = (typeof codecs)[number];

/** Packs bytes. */
export type Compress = (bytes: Uint8Array) => Uint8Array;

/** Zstandard came to Node in version 22.15; before, it is WebAssembly. */
const { zstdCompressSync } = zlib as { readonly zstdCompressSync?: Compress };
let zstd: Compress | undefined = zstdCompressSync && ((bytes) => zstdCompressSync(bytes));

/** Makes a codec ready, if it is not: before a file is written with it. */
export async function readyCodec(codec: Codec): Promise<void> {
  if (codec === "zstd") await loadZstd();
}

/** Zstandard at its usual level, 3. */
export async function loadZstd(): Promise<Compress> {
  if (zstd === undefined) {
    const { Zstd } = await import("@hpcc-js/wasm-zstd");
    const loaded = await Zstd.load();
    zstd = (bytes) => loaded.compress(bytes);
  }
  return zstd;
}

/** A codec's name in Parquet. */
export function codecOf(codec: Codec): CompressionCodec {
  return codec === "none" ? "UNCOMPRESSED" : (codec.toUpperCase() as CompressionCodec);
}

/** Those of the codecs that Parquet's writer does not bring. The codec in use is ready. */
export function compressors(): Partial<Record<CompressionCodec, Compress>> {
  return {
    GZIP: (bytes) => zlib.gzipSync(bytes),
    BROTLI: (bytes) =>
      zlib.brotliCompressSync(bytes, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } }),
    ...(zstd && { ZSTD: zstd }),
  };
}
