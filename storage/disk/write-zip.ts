// Lays out a ZIP file like PyTorch: entries are stored uncompressed with contents aligned to 64
// bytes, and sizes have 64 bits if necessary. Sizes are known in advance, so contents can be
// written in pieces, and an entry's header once its checksum is known.

import { headerBytes, recordBytes, signatures } from "./read-zip.ts";

const utf8Flag = 0x800;

/** The offsets of entries, and the bytes around their contents. */
export interface ZipLayout {
  /** Offset of each entry's contents, in the given order. */
  readonly starts: readonly number[];
  /** Offset of the directory, after all entries. */
  readonly end: number;
  /** The header before an entry's contents, and its offset. */
  header(index: number, crc: number): { readonly bytes: Uint8Array; readonly at: number };
  /** The directory and the end records, which follow all entries. */
  directory(crcs: readonly number[]): Uint8Array;
}

/** Alignment of contents, because PyTorch maps files into memory. */
const alignmentBytes = 64;
/** Id of the extra field with the padding: "FB", as in PyTorch. */
const paddingId = 0x4246;
/** Least size or offset that is stored in 64 bits. */
const longFrom = 0xffff_ffff;

/** Lays out consecutive stored entries with aligned contents. */
export function layZipOut(
  entries: readonly { readonly name: string; readonly bytes: number }[],
): ZipLayout {
  let at = 0;
  const placed = entries.map(({ name, bytes }) => {
    const header = at;
    const own = new TextEncoder().encode(name);
    const isLong = bytes >= longFrom;
    const fixed = header + headerBytes + own.length + (isLong ? 20 : 0) + 4;
    const padding = (alignmentBytes - (fixed % alignmentBytes)) % alignmentBytes;
    const start = fixed + padding;
    at = start + bytes;
    return { name: own, bytes, header, start, padding, isLong };
  });
  return {
    starts: placed.map(({ start }) => start),
    end: at,
    header(index, crc) {
      const one = placed[index];
      if (one === undefined) throw new RangeError(`There is no entry ${index}`);
      const bytes = new Uint8Array(one.start - one.header).fill(0x5a);
      const view = new DataView(bytes.buffer);
      view.setUint32(0, signatures.header, true);
      putEntry(view, 4, one, crc);
      view.setUint16(28, (one.isLong ? 20 : 0) + 4 + one.padding, true);
      bytes.set(one.name, headerBytes);
      let extra = headerBytes + one.name.length;
      if (one.isLong) extra = putLong(view, extra, [one.bytes, one.bytes]);
      view.setUint16(extra, paddingId, true);
      view.setUint16(extra + 2, one.padding, true);
      return { bytes, at: one.header };
    },
    directory(crcs) {
      const records = placed.map((one, i) => recordBytesOf(one, crcs[i] ?? 0));
      const bytes = records.reduce((sum, record) => sum + record.length, 0);
      const ends = endOf({ first: at, bytes, count: records.length });
      return Buffer.concat([...records, ends]);
    },
  };
}

interface Placed {
  readonly name: Uint8Array;
  readonly bytes: number;
  readonly header: number;
  readonly isLong: boolean;
}

/** Writes the fields that a header and a directory record share, from the version needed on. */
function putEntry(view: DataView, at: number, one: Placed, crc: number): void {
  view.setUint16(at, one.isLong ? 45 : 0, true);
  view.setUint16(at + 2, utf8Flag, true);
  // Method 0 is "stored"; time and date are 0, so that the bytes do not depend on the time.
  for (const offset of [4, 6, 8]) view.setUint16(at + offset, 0, true);
  view.setUint32(at + 10, crc, true);
  view.setUint32(at + 14, one.isLong ? longFrom : one.bytes, true);
  view.setUint32(at + 18, one.isLong ? longFrom : one.bytes, true);
  view.setUint16(at + 22, one.name.length, true);
}

function putLong(view: DataView, at: number, values: readonly number[]): number {
  view.setUint16(at, 1, true);
  view.setUint16(at + 2, 8 * values.length, true);
  for (const [i, value] of values.entries()) {
    view.setBigUint64(at + 4 + 8 * i, BigInt(value), true);
  }
  return at + 4 + 8 * values.length;
}

function recordBytesOf(one: Placed, crc: number): Uint8Array {
  const isFar = one.header >= longFrom;
  const long = [...(one.isLong ? [one.bytes, one.bytes] : []), ...(isFar ? [one.header] : [])];
  const extra = long.length === 0 ? 0 : 4 + 8 * long.length;
  const bytes = new Uint8Array(recordBytes + one.name.length + extra);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, signatures.record, true);
  putEntry(view, 6, one, crc);
  if (isFar) view.setUint16(6, 45, true);
  view.setUint16(30, extra, true);
  view.setUint32(42, isFar ? longFrom : one.header, true);
  bytes.set(one.name, recordBytes);
  if (extra > 0) putLong(view, recordBytes + one.name.length, long);
  return bytes;
}

/** The end records; the ZIP64 record is always written, as in PyTorch. */
function endOf({ first, bytes, count }: { first: number; bytes: number; count: number }) {
  const all = new Uint8Array(56 + 20 + 22);
  const view = new DataView(all.buffer);
  view.setUint32(0, signatures.end64, true);
  view.setBigUint64(4, 44n, true);
  view.setUint16(12, 45, true);
  view.setUint16(14, 45, true);
  for (const [offset, value] of [
    [24, count],
    [32, count],
    [40, bytes],
    [48, first],
  ] as const) {
    view.setBigUint64(offset, BigInt(value), true);
  }
  view.setUint32(56, signatures.locator64, true);
  view.setBigUint64(64, BigInt(first + bytes), true);
  view.setUint32(72, 1, true);
  view.setUint32(76, signatures.end, true);
  view.setUint16(84, Math.min(count, 0xffff), true);
  view.setUint16(86, Math.min(count, 0xffff), true);
  view.setUint32(88, Math.min(bytes, longFrom), true);
  view.setUint32(92, Math.min(first, longFrom), true);
  return all;
}
