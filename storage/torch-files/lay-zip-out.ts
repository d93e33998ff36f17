// A ZIP file as PyTorch writes one: entries stored, not compressed, contents at multiples of 64
// bytes, sizes of 64 bits where they are needed. Sizes are known beforehand, so contents pass
// through in pieces, and an entry's header is written when its check sum is known.

import { headerBytes, recordBytes, signatures } from "./read-zip.ts";

const utf8Flag = 0x800;

/** Where each entry of a new file lies, and the bytes around the contents. */
export interface ZipLayout {
  /** First byte of the contents of each entry, in the order in which they were given. */
  readonly starts: readonly number[];
  /** Bytes of all entries, without the directory. */
  readonly end: number;
  /** What stands before the contents of an entry. */
  header(index: number, crc: number): { readonly bytes: Uint8Array; readonly at: number };
  /** What stands behind all entries. */
  directory(crcs: readonly number[]): Uint8Array;
}

/** PyTorch maps files into memory, and wants tensors at multiples of so many bytes. */
const alignmentBytes = 64;
/** Of the padding's extra field: "FB", as PyTorch has it. */
const paddingId = 0x4246;
/** Sizes and offsets from here on are stored in 64 bits. */
const longFrom = 0xffff_ffff;

/** Lays entries out behind each other, stored, their contents aligned. */
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

/** The fields that an entry's header and its record share, from the version needed on. */
function putEntry(view: DataView, at: number, one: Placed, crc: number): void {
  view.setUint16(at, one.isLong ? 45 : 0, true);
  view.setUint16(at + 2, utf8Flag, true);
  // Method, time and date are 0: stored, and the same bytes whenever the file is written.
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

/** The end of the file: always with a record of 64 bits, as PyTorch writes it. */
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
