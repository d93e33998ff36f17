// Compression of text files, chosen by the ending of their name. Each piece is compressed by
// itself, as a gzip member or a Zstandard frame; readers treat the concatenation as one file. So a
// writer holds one piece in memory at a time.

import * as zlib from "node:zlib";

/** Compresses one piece. Compressed pieces can be concatenated to a valid file. */
export type Pack = (bytes: Uint8Array) => Uint8Array;

/** Endings of compressed files. */
const endings = [".gz", ".zst"] as const;
export type PackedEnding = (typeof endings)[number];

/** The ending of a compressed file's name; undefined: the file is not compressed. */
export function packedEndingOf(path: string): PackedEnding | undefined {
  return endings.find((ending) => path.endsWith(ending));
}

/**
 * The compressor for an ending: zstd at its default level, 3, or gzip. For `undefined` it returns
 * its input unchanged.
 */
export async function packOf(ending: PackedEnding | undefined): Promise<Pack> {
  if (ending === ".gz") return (bytes) => zlib.gzipSync(bytes);
  if (ending === undefined) return (bytes) => bytes;
  zstd ??= await wasmZstd();
  return zstd;
}

/**
 * Node has Zstandard since version 22.15; older versions load it as WebAssembly, which takes four
 * times as long (docs/decisions/0037-parquet-pages-and-codecs.md).
 */
const { zstdCompressSync } = zlib as { readonly zstdCompressSync?: Pack };
let zstd: Pack | undefined = zstdCompressSync && ((bytes) => zstdCompressSync(bytes));

async function wasmZstd(): Promise<Pack> {
  const { Zstd } = await import("@hpcc-js/wasm-zstd");
  const loaded = await Zstd.load();
  return (bytes) => loaded.compress(bytes);
}
