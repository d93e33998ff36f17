// The footer of a Parquet file: its schema, and the byte ranges of each row group's columns. A
// footer is untrusted: its structure is parsed once with limits before hyparquet decodes it, and
// every number is checked before it is used.

import {
  type ColumnChunk,
  type FileMetaData,
  parquetMetadata,
  parquetSchema,
  type RowGroup,
  type SchemaTree,
  type Statistics,
} from "hyparquet";
import type { ByteRange, RangeReader } from "../tables/byte-ranges.ts";
import { CorruptFile, unusableAt } from "../tables/damage.ts";
import { readStruct } from "./decode/thrift.ts";

/** A column chunk: a column of a row group. */
export interface Chunk extends ByteRange {
  readonly codec: string;
  /** Encodings of its values and levels, in no particular order. */
  readonly encodings: readonly string[];
  /** Bytes before compression. */
  readonly rawBytes: number;
  /** Number of values, nulls included; for lists, of entries. */
  readonly values: number;
  readonly physical: string;
  readonly statistics: Statistics | undefined;
}

export interface Group {
  readonly rows: number;
  /** Column chunks by the path of the leaf (`leafKey`). */
  readonly chunks: ReadonlyMap<string, Chunk>;
}

/**
 * Key of a leaf's path. Names may contain dots, so that a column `a.b` can exist beside the member
 * `b` of `a`.
 */
export function leafKey(path: readonly string[]): string {
  return path.join("\0");
}

/** The parsed footer. */
export interface Footer {
  readonly schema: SchemaTree;
  readonly rows: number;
  readonly groups: readonly Group[];
  /** The footer's own bytes. */
  readonly bytes: Uint8Array;
}

/** Largest footer that is read; some thousand columns in some thousand row groups fit. */
const footerBytesMax = 0x2000_0000;
/** Bytes read first from the end of the file; most footers fit. */
const tailBytes = 0x1_0000;
const magic = "PAR1";

/** Reads the footer of a file. @throws InputUnusableError */
export async function readFooter(file: RangeReader): Promise<Footer> {
  try {
    const bytes = await footerBytes(file);
    readStruct(bytes, 0, bytes.length - 8);
    const metadata = parquetMetadata(bytes, { geoparquet: false });
    const groups = metadata.row_groups.map((group, place) => groupOf(file, metadata, group, place));
    const rows = groups.reduce((sum, group) => sum + group.rows, 0);
    return { schema: parquetSchema(metadata), rows, groups, bytes };
  } catch (cause) {
    throw unusableAt({ kind: "parquet", path: file.path }, cause);
  }
}

async function footerBytes(file: RangeReader): Promise<Uint8Array> {
  const { size } = file;
  if (size < 12) throw new CorruptFile(`it has ${size} bytes, fewer than any Parquet file`);
  const tailStart = Math.max(0, size - tailBytes);
  const tail = (await file.read(tailStart, size)).subarray(0, size - tailStart);
  const ending = Buffer.from(tail.subarray(-4)).toString("latin1");
  if (ending === "PARE") throw new CorruptFile("it is encrypted, which Osiris does not read");
  if (ending !== magic) {
    throw new CorruptFile(`it does not end in ${magic}: it is another format, or was cut short`);
  }
  const length = new DataView(tail.buffer, tail.byteOffset).getUint32(tail.length - 8, true);
  if (length > size - 12) throw new CorruptFile(`its footer has ${length} of ${size} bytes`);
  if (length > footerBytesMax) throw new CorruptFile(`its footer has ${length} bytes`);
  if (length + 8 <= tail.length) return tail.subarray(-(length + 8));
  return (await file.read(size - length - 8, size)).subarray(0, length + 8);
}

function groupOf(
  file: RangeReader,
  { schema }: FileMetaData,
  group: RowGroup,
  place: number,
): Group {
  try {
    const rows = countOf(group.num_rows, "rows");
    const chunks = new Map<string, Chunk>();
    for (const column of group.columns) {
      const path = column.meta_data?.path_in_schema;
      if (path === undefined) continue;
      chunks.set(leafKey(path), chunkOf(file, column, path.join("."), place));
    }
    const leaves = schema.filter(({ type }) => type !== undefined).length;
    if (chunks.size !== leaves) {
      throw new CorruptFile(`it has ${chunks.size} columns, and the schema ${leaves}`);
    }
    return { rows, chunks };
  } catch (cause) {
    throw unusableAt({ kind: "parquet", path: file.path, piece: place }, cause);
  }
}

function chunkOf(file: RangeReader, column: ColumnChunk, name: string, piece: number): Chunk {
  try {
    const { meta_data: meta, file_path: elsewhere } = column;
    if (meta === undefined) throw new CorruptFile("the footer does not describe it");
    if (elsewhere) throw new CorruptFile(`its values lie in another file, ${elsewhere}`);
    const values = countOf(meta.num_values, "values");
    const range = values === 0 ? noBytes : rangeOf(meta, file.size);
    const { codec, encodings, type: physical, statistics } = meta;
    const rawBytes = Number(meta.total_uncompressed_size);
    return { ...range, values, codec, encodings, rawBytes, physical, statistics };
  } catch (cause) {
    throw unusableAt({ kind: "parquet", path: file.path, piece, column: name }, cause);
  }
}

/** A column without values has no pages, whatever offsets the footer gives. */
const noBytes: ByteRange = { start: magic.length, end: magic.length };

/** Byte range of a column's pages. @throws CorruptFile */
function rangeOf(meta: NonNullable<ColumnChunk["meta_data"]>, size: number): ByteRange {
  const data = countOf(meta.data_page_offset, "bytes before its first page");
  const dictionary = Number(meta.dictionary_page_offset ?? 0n);
  // Some writers store 0 if there is no dictionary.
  const start = dictionary > 0 && dictionary < data ? dictionary : data;
  const end = start + countOf(meta.total_compressed_size, "bytes");
  if (start >= magic.length && end <= size) return { start, end };
  throw new CorruptFile(`it lies in the bytes ${start} to ${end} of ${size}`);
}

/**
 * A number of bytes, rows or values. Rows and values must fit into 31 bits, the range of the
 * counters downstream.
 */
function countOf(value: bigint | number, what: string): number {
  const count = Number(value);
  const isBytes = what.startsWith("bytes");
  if (count >= 0 && count <= (isBytes ? Number.MAX_SAFE_INTEGER : 0x7fff_ffff)) return count;
  throw new CorruptFile(`it says that it has ${count} ${what}`);
}
