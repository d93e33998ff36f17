// Unpacks Zstandard: in WebAssembly, which is twenty times faster than JavaScript alone. Node has
// it from version 22.15 on; Osiris runs on older ones.

import { ZSTDDecoder } from "zstddec";
import { Damage } from "./damage.ts";

const decoder = new ZSTDDecoder();

/** Makes the decoder ready, if it is not: before anything is unpacked. */
export function readyZstd(): Promise<void> {
  return decoder.init();
}

/**
 * The `size` bytes that `packed` should unpack to. The decoder tells damage by another number of
 * bytes; one in JavaScript that says what is wrong takes seconds to find it. @throws Damage
 */
export function unpackZstd(packed: Uint8Array, size: number): Uint8Array {
  if (size === 0) return new Uint8Array(0); // The decoder would believe the frame's own size.
  const bytes = decoder.decode(packed, size);
  if (bytes.length === size) return bytes;
  throw new Damage(
    `a frame of Zstandard of ${packed.length} bytes is damaged, or has not the ${size} bytes that it should`,
  );
}
