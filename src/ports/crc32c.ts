// CRC-32C, the checksum of frames and of records in files: that of the addon (native/simd/crc32c.h)
// or, without one, eight tables.

import { loadAddon } from "./addon.ts";

/** The checksum of bytes, or of bytes after others that have the checksum `before`. */
export function crc32c(bytes: Uint8Array, before = 0): number {
  const native = bytes.length >= nativeBytesMin ? loadAddon()?.crc32c : undefined;
  return native === undefined ? portableCrc32c(bytes, before) : Number(native(bytes, before));
}

/** For fewer bytes, TypeScript is used: a call of the addon would take longer. */
const nativeBytesMin = 64;

/** tables[256 * n + byte]: the checksum of a byte and n zeros after it. */
const tables = new Int32Array(8 * 256);
for (let byte = 0; byte < 256; byte++) {
  let entry = byte;
  for (let bit = 0; bit < 8; bit++) entry = (entry >>> 1) ^ (entry & 1 ? 0x82f63b78 : 0);
  tables[byte] = entry;
}
for (let i = 256; i < tables.length; i++) {
  const before = tables[i - 256] ?? 0;
  tables[i] = (before >>> 8) ^ (tables[before & 255] ?? 0);
}

/** The checksum without the addon. */
export function portableCrc32c(bytes: Uint8Array, before = 0): number {
  const entry = (zeros: number, byte: number) => tables[256 * zeros + (byte & 255)] ?? 0;
  const at = (i: number) => bytes[i] ?? 0;
  let crc = ~before;
  let i = 0;
  for (; i + 8 <= bytes.length; i += 8) {
    const low = crc ^ (at(i) | (at(i + 1) << 8) | (at(i + 2) << 16) | (at(i + 3) << 24));
    crc =
      entry(7, low) ^
      entry(6, low >>> 8) ^
      entry(5, low >>> 16) ^
      entry(4, low >>> 24) ^
      entry(3, at(i + 4)) ^
      entry(2, at(i + 5)) ^
      entry(1, at(i + 6)) ^
      entry(0, at(i + 7));
  }
  for (; i < bytes.length; i++) crc = (crc >>> 8) ^ entry(0, crc ^ at(i));
  return ~crc >>> 0;
}
