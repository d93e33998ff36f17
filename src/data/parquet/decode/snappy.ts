// Decompresses snappy, identically to native/ingest/pages.h. The input is untrusted: every length
// is checked against the input and the output.
// https://github.com/google/snappy/blob/main/format_description.txt

import { CorruptFile } from "../../tables/damage.ts";

/** Decompresses `packed` into `out`. @throws CorruptFile if it does not fill `out` exactly */
export function unpackSnappy(out: Uint8Array, packed: Uint8Array): void {
  const { length } = packed;
  let [at, to] = [0, 0];
  while (at < length && (packed[at++] ?? 0) >= 128); // Skips the length, which the page repeats.
  while (at < length) {
    const tag = packed[at++] ?? 0;
    const left = length - at;
    if ((tag & 3) === 0) {
      let count = (tag >> 2) + 1;
      if (count > 60) {
        const bytes = count - 60;
        if (left < 4) throw broken("end within a length");
        count = littleNumber(packed, at, bytes) + 1;
        at += bytes;
      }
      if (count > length - at) throw broken("end within their literals");
      if (count > out.length - to) throw tooMany(out);
      // Literals are mostly so short that a loop is faster than `set`.
      for (const end = to + count; to < end; to++) out[to] = packed[at++] ?? 0;
      continue;
    }
    const bytes = (tag & 3) === 3 ? 4 : tag & 3;
    if (left < bytes) throw broken("end within a copy");
    const isShort = (tag & 3) === 1;
    const count = isShort ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
    const offset = littleNumber(packed, at, bytes) + (isShort ? (tag >> 5) << 8 : 0);
    at += bytes;
    if (offset === 0 || offset > to) throw broken("copy from before their start");
    if (count > out.length - to) throw tooMany(out);
    // Byte by byte, because a copy may overlap its own output.
    for (const end = to + count; to < end; to++) out[to] = out[to - offset] ?? 0;
  }
  if (to !== out.length) throw broken(`unpack to ${to} bytes, and not ${out.length}`);
}

/** An unsigned little-endian number of up to four bytes. */
function littleNumber(bytes: Uint8Array, at: number, count: number): number {
  let value = 0;
  for (let i = 0; i < count; i++) value |= (bytes[at + i] ?? 0) << (8 * i);
  return value >>> 0;
}

const tooMany = ({ length }: Uint8Array) => broken(`unpack to more than ${length} bytes`);

function broken(how: string): CorruptFile {
  return new CorruptFile(`its bytes are damaged: those of snappy ${how}`);
}
