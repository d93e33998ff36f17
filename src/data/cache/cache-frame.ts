// Reads and writes the frame of a cache file: its header, and the tail with the block table and the
// description (cache-format.ts has the format).

import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import { DataCacheDamagedError } from "../../errors/errors.ts";
import type { DiskFile } from "../../ports/disk.ts";
import type { SampleNumbers } from "../dataset.ts";
import { entriesIn, type PagedTable, scanTable, type TableEntries } from "./block-table.ts";
import {
  blockSamples,
  bytesOfKeys,
  type CacheMeta,
  cacheVersion,
  headerBytes,
  onDisk,
} from "./cache-format.ts";

const magic = "OSIRISDC";
const checkedBytes = 36;

/** The frame of a cache file. */
export interface Frame {
  readonly meta: CacheMeta;
  /** The block table, whose pages are read from the file while it is open. */
  readonly table: PagedTable;
  /** Splits of the data of an index of files, which has no block table. */
  readonly starts: SampleNumbers;
  /** End of the blocks, and of the tail, in the file. */
  readonly dataEnd: number;
  readonly end: number;
}

/** Writes the tail at `offset`, the keys after it, then the header. */
export function writeFrame(
  file: DiskFile,
  offset: number,
  table: TableEntries,
  meta: CacheMeta,
  keys?: Float64Array,
): void {
  const tableBytes = new Uint8Array(table.buffer, table.byteOffset, table.byteLength);
  const metaBytes = new TextEncoder().encode(JSON.stringify(meta));
  const header = new Uint8Array(headerBytes);
  const view = new DataView(header.buffer);
  new TextEncoder().encodeInto(magic, header);
  view.setUint32(8, cacheVersion, true);
  view.setFloat64(16, offset, true);
  view.setUint32(24, tableBytes.length, true);
  view.setUint32(28, metaBytes.length, true);
  view.setUint32(32, crc32(metaBytes, crc32(tableBytes)), true);
  view.setUint32(checkedBytes, crc32(header.subarray(0, checkedBytes)), true);
  onDisk("write", file.path, () => {
    file.write(tableBytes, offset);
    file.write(metaBytes, offset + tableBytes.length);
    if (keys) file.write(bytesOfKeys(keys), offset + tableBytes.length + metaBytes.length);
    file.write(header, 0);
  });
}

/** Reads and verifies the header and the tail of a cache. @throws DataCacheDamagedError */
export function readFrame(file: DiskFile): Frame {
  const header = new Uint8Array(headerBytes);
  const read = onDisk("read", file.path, () => file.read(header, 0));
  const view = new DataView(header.buffer);
  if (read < headerBytes || new TextDecoder().decode(header.subarray(0, 8)) !== magic) {
    throw new DataCacheDamagedError(file.path, "it does not start as one");
  }
  if (view.getUint32(checkedBytes, true) !== crc32(header.subarray(0, checkedBytes))) {
    throw new DataCacheDamagedError(file.path, "the checksum of its header differs");
  }
  const version = view.getUint32(8, true);
  if (version !== cacheVersion)
    throw new DataCacheDamagedError(file.path, `it has the version ${version}`);
  const dataEnd = view.getFloat64(16, true);
  const tableBytes = view.getUint32(24, true);
  const metaBytes = new Uint8Array(view.getUint32(28, true));
  const scanned = scanTable(file, dataEnd, tableBytes);
  const metaAt = dataEnd + tableBytes;
  const metaRead = onDisk("read", file.path, () => file.read(metaBytes, metaAt));
  if (scanned === undefined || metaRead < metaBytes.length) {
    throw new DataCacheDamagedError(file.path, "its end is missing");
  }
  if (view.getUint32(32, true) !== crc32(metaBytes, scanned.crc)) {
    throw new DataCacheDamagedError(file.path, "the checksum of its index differs");
  }
  const meta: CacheMeta = JSON.parse(new TextDecoder().decode(metaBytes));
  const starts = new Float64Array(meta.files === undefined ? 0 : tableBytes / 8);
  if (meta.files !== undefined) {
    onDisk("read", file.path, () => file.read(new Uint8Array(starts.buffer), dataEnd));
  }
  const { samples } = meta;
  const table = scanned.scan.table({ path: file.path, samples, read: entriesIn(file, dataEnd) });
  const isWhole = table.blocks === Math.ceil(samples / blockSamples);
  assert(meta.files !== undefined || isWhole, "a block for every sample");
  return { table, meta, starts, dataEnd, end: metaAt + metaBytes.length };
}
