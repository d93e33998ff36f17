// Reads the directory of a ZIP file whose entries are stored uncompressed, as PyTorch and
// write-zip.ts write it, so that contents can be read in place. ZIP64 is supported (APPNOTE.TXT
// 6.3.10, sections 4.3 to 4.5).
//
// The file is not trusted: every offset is checked before it is used, entries must not overlap, and
// names are used only to look up entries, never as paths on this machine.

import type { DiskFile } from "../../src/ports/disk.ts";

/** An entry, and its location in the file. */
export interface ZipEntry {
  readonly name: string;
  /** First byte of the header, which precedes the contents. */
  readonly header: number;
  /** First byte of the contents. */
  readonly start: number;
  readonly bytes: number;
  readonly crc: number;
}

/** A directory record of an entry, not yet compared with the entry's own header. */
interface Listed {
  readonly name: string;
  readonly flags: number;
  readonly method: number;
  readonly crc: number;
  readonly packed: number;
  readonly bytes: number;
  readonly header: number;
}

/** Most bytes of a directory; 10,000 tables with their optimizer state need some MiB. */
const directoryBytesMax = 2 ** 26;
/** Most bytes of the end record and the comment after it. */
const endBytesMax = 22 + 0xffff;
/** Bytes of the fixed part of a directory record, and of an entry's header. */
export const [recordBytes, headerBytes] = [46, 30];
/** The first bytes of every ZIP file. */
export const zipMagic = Uint8Array.of(0x50, 0x4b, 0x03, 0x04);
/** Signatures, as little-endian words. */
export const signatures = {
  header: 0x04034b50,
  record: 0x02014b50,
  end: 0x06054b50,
  end64: 0x06064b50,
  locator64: 0x07064b50,
} as const;
const encryptedFlag = 1;

/**
 * The entries by name, in the order of the file. @throws the error that `refuse` makes of the
 * reason why the file is not a complete ZIP file of stored entries
 */
export function readZip(file: DiskFile, refuse: Refuse): ReadonlyMap<string, ZipEntry> {
  const size = file.size();
  const bytesAt = (offset: number, count: number, what: string): DataView => {
    if (!(offset >= 0 && count >= 0 && offset + count <= size)) {
      throw refuse(`its ${what} lies outside the file, which is cut short or damaged`);
    }
    const bytes = new Uint8Array(count);
    if (file.read(bytes, offset) !== count) throw refuse(`its ${what} cannot be read`);
    return new DataView(bytes.buffer);
  };
  const { first, bytes, count } = directoryOf(size, bytesAt, refuse);
  const listed = recordsOf(bytesAt(first, bytes, "directory"), count, refuse);
  const entries = new Map<string, ZipEntry>();
  let end = 0;
  for (const one of listed.sort((a, b) => a.header - b.header)) {
    const entry = entryOf(one, bytesAt, refuse);
    const isFree = one.header >= end && entry.start + entry.bytes <= first;
    if (!isFree) throw refuse(`its entry \`${one.name}\` overlaps another part of the file`);
    end = entry.start + entry.bytes;
    if (entries.has(one.name)) throw refuse(`it has two entries \`${one.name}\``);
    entries.set(one.name, entry);
  }
  return entries;
}

type BytesAt = (offset: number, count: number, what: string) => DataView;
type Refuse = (why: string) => Error;

/** The directory's offset, its size, and its number of entries. */
function directoryOf(size: number, bytesAt: BytesAt, refuse: Refuse) {
  const tail = bytesAt(Math.max(0, size - endBytesMax), Math.min(size, endBytesMax), "end");
  let at = tail.byteLength - 22;
  const isEnd = () =>
    tail.getUint32(at, true) === signatures.end &&
    at + 22 + tail.getUint16(at + 20, true) === tail.byteLength;
  while (at >= 0 && !isEnd()) at--;
  if (at < 0) throw refuse("it has no directory of a ZIP file at its end, or is cut short");
  let [count, bytes, first] = [
    tail.getUint16(at + 10, true),
    tail.getUint32(at + 12, true),
    tail.getUint32(at + 16, true),
  ];
  let disks = tail.getUint16(at + 4, true) | tail.getUint16(at + 6, true);
  const end = size - tail.byteLength + at;
  const isLong = count === 0xffff || bytes === 0xffffffff || first === 0xffffffff;
  const locator = end >= 20 ? bytesAt(end - 20, 20, "end") : undefined;
  if (locator?.getUint32(0, true) === signatures.locator64) {
    const long = bytesAt(longAt(locator, 8, refuse), 56, "long end record");
    if (long.getUint32(0, true) !== signatures.end64) throw refuse("its end record is damaged");
    count = longAt(long, 32, refuse);
    bytes = longAt(long, 40, refuse);
    first = longAt(long, 48, refuse);
    disks = long.getUint32(16, true) | long.getUint32(20, true);
  } else if (isLong) throw refuse("its end record is damaged");
  if (disks !== 0) throw refuse("it is a part of a ZIP file of several parts");
  if (bytes > directoryBytesMax || count > bytes / recordBytes) {
    throw refuse(`its directory lists ${count} entries in ${bytes} bytes, which cannot be`);
  }
  return { first, bytes, count };
}

function recordsOf(view: DataView, count: number, refuse: Refuse): Listed[] {
  const records: Listed[] = [];
  let at = 0;
  for (let i = 0; i < count; i++) {
    if (at + recordBytes > view.byteLength) throw refuse("its directory is cut short");
    if (view.getUint32(at, true) !== signatures.record) throw refuse("its directory is damaged");
    const nameBytes = view.getUint16(at + 28, true);
    const extraBytes = view.getUint16(at + 30, true);
    const next = at + recordBytes + nameBytes + extraBytes + view.getUint16(at + 32, true);
    if (next > view.byteLength) throw refuse("its directory is cut short");
    const name = nameOf(view, at + recordBytes, nameBytes, refuse);
    const extra = new DataView(
      view.buffer,
      view.byteOffset + at + recordBytes + nameBytes,
      extraBytes,
    );
    const short = {
      bytes: view.getUint32(at + 24, true),
      packed: view.getUint32(at + 20, true),
      header: view.getUint32(at + 42, true),
    };
    records.push({
      name,
      flags: view.getUint16(at + 8, true),
      method: view.getUint16(at + 10, true),
      crc: view.getUint32(at + 16, true),
      ...withLong(short, extra, name, refuse),
    });
    at = next;
  }
  return records;
}

/** An entry's sizes and offset; those with 64 bits come from extra field 1, in this order. */
function withLong(
  short: { bytes: number; packed: number; header: number },
  extra: DataView,
  name: string,
  refuse: Refuse,
) {
  const isLong = Object.values(short).includes(0xffffffff);
  if (!isLong) return short;
  for (let at = 0; at + 4 <= extra.byteLength; ) {
    const [id, length] = [extra.getUint16(at, true), extra.getUint16(at + 2, true)];
    let own = at + 4;
    at = own + length;
    if (id !== 1 || at > extra.byteLength) continue;
    const next = (value: number) => {
      if (value !== 0xffffffff) return value;
      if (own + 8 > at) throw refuse(`the sizes of its entry \`${name}\` are cut short`);
      own += 8;
      return longAt(extra, own - 8, refuse);
    };
    return { bytes: next(short.bytes), packed: next(short.packed), header: next(short.header) };
  }
  throw refuse(`the sizes of its entry \`${name}\` are missing`);
}

function entryOf(listed: Listed, bytesAt: BytesAt, refuse: Refuse): ZipEntry {
  const { name, flags, method, bytes, packed, header, crc } = listed;
  if ((flags & encryptedFlag) !== 0) throw refuse(`its entry \`${name}\` is encrypted`);
  if (method !== 0 || packed !== bytes) {
    const why = `its entry \`${name}\` is compressed, expected it stored as it is`;
    throw refuse(`${why}: write the file again with the program that it comes from`);
  }
  const own = bytesAt(header, headerBytes, `entry \`${name}\``);
  const nameBytes = own.getUint16(26, true);
  const isOwn = own.getUint32(0, true) === signatures.header && own.getUint16(8, true) === method;
  const start = header + headerBytes + nameBytes + own.getUint16(28, true);
  const second = nameOf(bytesAt(header + headerBytes, nameBytes, "names"), 0, nameBytes, refuse);
  if (!isOwn || second !== name) {
    throw refuse(`its entry \`${name}\` has another header than the directory says`);
  }
  return { name, header, start, bytes, crc };
}

/** The name of an entry. @throws where it is an absolute or `..` path */
function nameOf(view: DataView, at: number, length: number, refuse: Refuse): string {
  const bytes = new Uint8Array(view.buffer, view.byteOffset + at, length);
  let name: string;
  try {
    name = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw refuse("the name of an entry is not UTF-8");
  }
  const parts = name.split("/");
  if (name === "" || /[\\\0]/.test(name) || parts.includes("..") || parts[0] === "") {
    throw refuse(`the name of its entry ${JSON.stringify(name)} is a path that leads out of it`);
  }
  return name;
}

/** A 64-bit number, which must be a safe integer. */
function longAt(view: DataView, at: number, refuse: Refuse): number {
  const value = Number(view.getBigUint64(at, true));
  if (!Number.isSafeInteger(value)) throw refuse("one of its offsets is larger than any file");
  return value;
}
