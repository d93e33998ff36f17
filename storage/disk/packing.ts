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

/** The compressor for an ending. For `undefined` it returns its input unchanged. */
export async function packOf(ending: PackedEnding | undefined): Promise<Pack> {
  if (ending === ".zst") return loadZstd();
  return ending === ".gz" ? (bytes) => zlib.gzipSync(bytes) : (bytes) => bytes;
}

/** Node has Zstandard since version 22.15; older versions load it as WebAssembly. */
const { zstdCompressSync } = zlib as { readonly zstdCompressSync?: Pack };
let zstd: Pack | undefined = zstdCompressSync && ((bytes) => zstdCompressSync(bytes));

/** The Zstandard compressor at its default level, 3. */
export async function loadZstd(): Promise<Pack> {
  if (zstd === undefined) {
    const { Zstd } = await import("@hpcc-js/wasm-zstd");
    const loaded = await Zstd.load();
    zstd = (bytes) => loaded.compress(bytes);
  }
  return zstd;
}
