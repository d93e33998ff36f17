// The buffers of a record batch: which buffers belong to which field, and their decompressed bytes.
// Buffers follow the order of the schema, field by field, a field's own buffers before its
// children's.

import { Type } from "apache-arrow/fb/type";
import { openStreams, type RangeReader, type ReadCounts } from "../tables/byte-ranges.ts";
import { CorruptFile } from "../tables/damage.ts";
import { unpackLz4Frame } from "../tables/lz4.ts";
import { checkUnpacked, MemoryBudget } from "../tables/memory-budget.ts";
import { readyZstd, unpackZstd } from "../tables/zstd.ts";
import type { Body } from "./messages.ts";
import type { ArrowField, BatchLayout } from "./metadata.ts";

/** Where the node and the buffers of a field lie in a record batch. */
export interface FieldPlace {
  readonly field: ArrowField;
  /**
   * Index of the field's node and of its first buffer, among all nodes and buffers of the batch.
   */
  readonly node: number;
  readonly buffer: number;
  readonly buffers: number;
  readonly children: readonly FieldPlace[];
}

/** Largest decompressed size of a buffer; larger buffers are refused. */
const bufferBytesMax = 2 ** 30;

/** The places of all fields in a record batch. @throws CorruptFile */
export function placesOf(fields: readonly ArrowField[], layout: BatchLayout): FieldPlace[] {
  let [node, buffer, view] = [0, 0, 0];
  const place = (field: ArrowField): FieldPlace => {
    const own = { field, node: node++, buffer };
    let buffers = buffersOf(field, layout);
    if (isView(field)) buffers += layout.viewBuffers(view++);
    buffer += buffers;
    const isCode = field.dictionary !== undefined; // The dictionary holds the values.
    return { ...own, buffers, children: isCode ? [] : field.children.map(place) };
  };
  return fields.map(place);
}

function isView({ type, dictionary }: ArrowField): boolean {
  return dictionary === undefined && (type === Type.Utf8View || type === Type.BinaryView);
}

/**
 * Number of buffers of a field without its children. For a view field, the batch adds the number of
 * its data buffers (`viewBuffers`).
 */
function buffersOf({ type, dictionary, size }: ArrowField, { isOlder }: BatchLayout): number {
  if (dictionary !== undefined) return 2;
  switch (type) {
    case Type.Null:
    case Type.RunEndEncoded:
      return 0;
    case Type.Struct_:
    case Type.FixedSizeList:
      return 1;
    case Type.Union:
      return 1 + size + (isOlder ? 1 : 0);
    case Type.Utf8:
    case Type.LargeUtf8:
    case Type.Binary:
    case Type.LargeBinary:
    case Type.ListView:
    case Type.LargeListView:
      return 3;
    default:
      return 2;
  }
}

/** The bytes of a column's buffers, by the buffer's index in the batch. */
export type ColumnBytes = ReadonlyMap<number, Uint8Array>;

/**
 * Reads the buffers of a column, each of them once. `take` receives their bytes as stored in the
 * file, still compressed.
 */
export type ReadColumn = (take: (bytes: Uint8Array) => void) => Promise<ColumnBytes>;

/**
 * Returns a reader of the buffers of each column, given by its places. Buffers that lie close
 * together in the file are read with one request, also across columns. @throws CorruptFile
 */
export function columnReaders(
  file: RangeReader,
  { layout, start, end }: Body,
  columns: readonly (readonly FieldPlace[])[],
  counts: ReadCounts,
): ReadColumn[] {
  const own = columns.map((places) => {
    return places.flatMap(({ buffer, buffers }) => {
      return Array.from({ length: buffers }, (_, i) => {
        const { offset, length } = layout.buffer(buffer + i);
        const range = { start: start + offset, end: start + offset + length };
        if (range.end > end) {
          throw new CorruptFile(
            `buffer ${buffer + i} ends ${range.end - end} bytes behind the batch`,
          );
        }
        return { place: buffer + i, range };
      });
    });
  });
  const streams = openStreams(
    file,
    own.flat().map(({ range }) => range),
    counts,
  );
  const budget = new MemoryBudget(end - start);
  let next = 0;
  return own.map((buffers) => {
    const first = next;
    next += buffers.length;
    return async (take) => {
      if (layout.codec === "ZSTD") await readyZstd();
      const bytes = new Map<number, Uint8Array>();
      for (const [i, { place, range }] of buffers.entries()) {
        const length = range.end - range.start;
        const some = await streams[first + i]?.peek(length);
        const packed = some?.subarray(0, length) ?? new Uint8Array(0);
        take(packed);
        bytes.set(place, unpacked(packed, layout.codec, budget));
      }
      return bytes;
    };
  });
}

/**
 * Decompresses a buffer. Its first 8 bytes hold the decompressed size, or -1 if the rest is not
 * compressed.
 */
function unpacked(
  bytes: Uint8Array,
  codec: BatchLayout["codec"],
  budget: MemoryBudget,
): Uint8Array {
  if (codec === undefined || bytes.length === 0) return bytes;
  if (bytes.length < 8) throw new CorruptFile("a buffer ends before its length");
  const size = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigInt64(0, true));
  const packed = bytes.subarray(8);
  if (size === -1) return packed;
  if (size < 0 || size > bufferBytesMax) {
    const advice = `Osiris unpacks ${bufferBytesMax} at most: write smaller record batches`;
    throw new CorruptFile(`a buffer says that it unpacks to ${size} bytes, and ${advice}`);
  }
  checkUnpacked("a buffer", size, packed.length);
  budget.take(size);
  const out = new Uint8Array(size);
  if (codec === "LZ4") unpackLz4Frame(out, packed);
  else unpackZstd(out, packed);
  return out;
}
