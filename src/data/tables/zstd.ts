// Decompresses Zstandard in WebAssembly, which is twenty times faster than JavaScript. Node.js has
// zstd built in from version 22.15 on, but Osiris supports older versions.

import { ZSTDDecoder } from "zstddec";
import { CorruptFile } from "./damage.ts";

const decoder = new ZSTDDecoder();

/** Loads the decoder. Must resolve before `unpackZstd` is called. */
export function readyZstd(): Promise<void> {
  return decoder.init();
}

/**
 * Decompresses `packed` into `size` bytes. The decoder reports damage only by returning another
 * number of bytes; a decoder in JavaScript would name the fault, but takes seconds to find it.
 * @throws CorruptFile
 */
export function unpackZstd(packed: Uint8Array, size: number): Uint8Array {
  if (size === 0) return new Uint8Array(0); // For 0, the decoder would use the frame's own size.
  const bytes = decoder.decode(packed, size);
  if (bytes.length === size) return bytes;
  throw new CorruptFile(
    `a frame of Zstandard of ${packed.length} bytes is damaged, or has not the ${size} bytes that it should`,
  );
}
