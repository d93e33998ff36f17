// Unpacks Zstandard: in WebAssembly, which is twenty times faster than JavaScript alone. Node has
// it from version 22.15 on; Osiris runs on older ones.

import { decompressZstd } from "hyparquet-compressors";
import { ZSTDDecoder } from "zstddec";

const decoder = new ZSTDDecoder();

/** Makes the decoder ready, if it is not: before anything is unpacked. */
export function readyZstd(): Promise<void> {
  return decoder.init();
}

/** The `size` bytes that `packed` should unpack to. @throws Error where it is damaged */
export function unpackZstd(packed: Uint8Array, size: number): Uint8Array {
  if (size > 0) {
    const bytes = decoder.decode(packed, size);
    if (bytes.length === size) return bytes;
  }
  return decompressZstd(packed, new Uint8Array(size)); // What is wrong, if it is, this one says.
}
