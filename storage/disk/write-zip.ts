// Writes a ZIP file whose entries are stored uncompressed at aligned offsets, so that programs may
// map their contents, or read any range of them (APPNOTE.TXT 6.3.10). The header before an entry's
// contents has their size and checksum, so it is written after them. Sizes and offsets of 4 GiB and
// more have 64 bits (ZIP64). The bytes do not depend on the time.

import { crc32 } from "node:zlib";
import type { DiskFile } from "../../src/ports/disk.ts";
import { headerBytes, recordBytes, signatures, type ZipEntry } from "./read-zip.ts";

/** Version of the format that a reader of ZIP64 needs. */
const version64 = 45;
/** Flag of names in UTF-8. */
const utf8Flag = 0x800;
/** The first of January 1980, the earliest date of the format. */
const date = 0x21;
/** Id of the extra field with the padding: "FB", as in PyTorch; and its bytes without padding. */
const [paddingId, paddingHeaderBytes] = [0x4246, 4];
/** Bytes of an extra field with a size of 64 bits, packed and unpacked. */
const longBytes = 20;
/** Least size or offset that is stored in 64 bits. */
const longFrom = 0xffff_ffff;

/**
 * The place of an entry whose header begins at byte `header`: its contents begin at a multiple of
 * `alignment` bytes, at most 32768.
 */
export function zipPlaceAt(
  header: number,
  name: string,
  alignment: number,
): Pick<ZipEntry, "name" | "header" | "start"> {
  const least = headerBytes + Buffer.byteLength(name) + longBytes + paddingHeaderBytes;
  return { name, header, start: alignment * Math.ceil((header + least) / alignment) };
}

/** The end of the last entry: where the next entry, or the directory, begins. */
export function zipEnd(entries: readonly ZipEntry[]): number {
  const last = entries.at(-1);
  return last === undefined ? 0 : last.start + last.bytes;
}

/** Writes entries with these contents behind `entries`. Returns all of them. */
export function appendToZip(
  file: DiskFile,
  entries: readonly ZipEntry[],
  contents: Readonly<Record<string, Uint8Array>>,
  alignment: number,
): ZipEntry[] {
  const all = [...entries];
  for (const [name, bytes] of Object.entries(contents)) {
    const place = zipPlaceAt(zipEnd(all), name, alignment);
    const entry = { ...place, bytes: bytes.length, crc: crc32(bytes) };
    file.write(zipHeader(entry), entry.header);
    file.write(bytes, entry.start);
    all.push(entry);
  }
  return all;
}

/** The bytes from an entry's header to its contents. */
export function zipHeader(entry: ZipEntry): Uint8Array {
  const bytes = new Uint8Array(entry.start - entry.header);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, signatures.header, true);
  const isLong = entry.bytes >= longFrom;
  const name = putFields(view, 4, entry, isLong);
  bytes.set(name, headerBytes);
  let extra = headerBytes + name.length;
  view.setUint16(28, bytes.length - extra, true);
  if (isLong) extra = putLong(view, extra, [entry.bytes, entry.bytes]);
  view.setUint16(extra, paddingId, true);
  view.setUint16(extra + 2, bytes.length - extra - paddingHeaderBytes, true);
  bytes.fill(0x5a, extra + paddingHeaderBytes);
  return bytes;
}

/** The directory and the end records, which follow the last entry. */
export function zipDirectory(entries: readonly ZipEntry[]): Uint8Array {
  const records = Buffer.concat(entries.map(recordOf));
  const first = zipEnd(entries);
  const end = new DataView(new ArrayBuffer(56 + 20 + 22));
  const count = entries.length;
  // The ZIP64 record is always written, as PyTorch does.
  end.setUint32(0, signatures.end64, true);
  end.setBigUint64(4, 44n, true);
  end.setUint16(12, version64, true);
  end.setUint16(14, version64, true);
  for (const [i, value] of [count, count, records.length, first].entries()) {
    end.setBigUint64(24 + 8 * i, BigInt(value), true);
  }
  end.setUint32(56, signatures.locator64, true);
  end.setBigUint64(64, BigInt(first + records.length), true);
  end.setUint32(72, 1, true);
  end.setUint32(76, signatures.end, true);
  end.setUint16(84, Math.min(count, 0xffff), true);
  end.setUint16(86, Math.min(count, 0xffff), true);
  end.setUint32(88, Math.min(records.length, longFrom), true);
  end.setUint32(92, Math.min(first, longFrom), true);
  return Buffer.concat([records, new Uint8Array(end.buffer)]);
}

/** The record of an entry in the directory. */
function recordOf(entry: ZipEntry): Uint8Array {
  const [isLong, isFar] = [entry.bytes >= longFrom, entry.header >= longFrom];
  const long = [...(isLong ? [entry.bytes, entry.bytes] : []), ...(isFar ? [entry.header] : [])];
  const extra = long.length === 0 ? 0 : 4 + 8 * long.length;
  const bytes = new Uint8Array(recordBytes + Buffer.byteLength(entry.name) + extra);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, signatures.record, true);
  const name = putFields(view, 6, entry, isLong || isFar);
  view.setUint16(30, extra, true);
  view.setUint32(42, isFar ? longFrom : entry.header, true);
  bytes.set(name, recordBytes);
  if (extra > 0) putLong(view, recordBytes + name.length, long);
  return bytes;
}

/** Writes the fields that a header and a directory record share. Returns the encoded name. */
function putFields(view: DataView, at: number, entry: ZipEntry, isLong: boolean): Uint8Array {
  const name = new TextEncoder().encode(entry.name);
  const bytes = Math.min(entry.bytes, longFrom);
  view.setUint16(at, isLong ? version64 : 10, true);
  view.setUint16(at + 2, utf8Flag, true);
  // The method, and the time, are 0: "stored", at midnight.
  view.setUint16(at + 8, date, true);
  view.setUint32(at + 10, entry.crc, true);
  view.setUint32(at + 14, bytes, true);
  view.setUint32(at + 18, bytes, true);
  view.setUint16(at + 22, name.length, true);
  return name;
}

/** Writes an extra field with numbers of 64 bits. Returns the offset after it. */
function putLong(view: DataView, at: number, values: readonly number[]): number {
  view.setUint16(at, 1, true);
  view.setUint16(at + 2, 8 * values.length, true);
  for (const [i, value] of values.entries()) {
    view.setBigUint64(at + 4 + 8 * i, BigInt(value), true);
  }
  return at + 4 + 8 * values.length;
}
