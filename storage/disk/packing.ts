// How files of text are packed: by the ending of their name. Pieces are packed by themselves, a
// member of gzip or a frame of Zstandard each, and readers take them as one file: a writer has a
// piece in memory at a time.

import * as zlib from "node:zlib";

/** Packs bytes, or what stands behind each other in a packed file. */
export type Pack = (bytes: Uint8Array) => Uint8Array;

/** Endings of packed files. */
const endings = [".gz", ".zst"] as const;
export type PackedEnding = (typeof endings)[number];

/** The ending of a packed file's name; undefined: it is plain. */
export function packedEndingOf(path: string): PackedEnding | undefined {
  return endings.find((ending) => path.endsWith(ending));
}

/** What packs for an ending; undefined: nothing does. */
export async function packOf(ending: PackedEnding | undefined): Promise<Pack> {
  if (ending === ".zst") return loadZstd();
  return ending === ".gz" ? (bytes) => zlib.gzipSync(bytes) : (bytes) => bytes;
}

/** Zstandard came to Node in version 22.15; before, it is WebAssembly. */
const { zstdCompressSync } = zlib as { readonly zstdCompressSync?: Pack };
let zstd: Pack | undefined = zstdCompressSync && ((bytes) => zstdCompressSync(bytes));

/** Zstandard at its usual level, 3. */
export async function loadZstd(): Promise<Pack> {
  if (zstd === undefined) {
    const { Zstd } = await import("@hpcc-js/wasm-zstd");
    const loaded = await Zstd.load();
    zstd = (bytes) => loaded.compress(bytes);
  }
  return zstd;
}
