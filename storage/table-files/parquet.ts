// Parquet: a column `id` of INT64, a column `vector` of lists of FLOAT, and where there is state a
// column `state` like it. Uncompressed: the bits of trained weights do not compress.

import {
  type AsyncBuffer,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
  type SchemaElement,
} from "hyparquet";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { libraryCodecs } from "../../src/data/parquet/decode/library-codecs.ts";
import type { Disk, DiskFile } from "../../src/ports/disk.ts";
import { onDisk } from "../disk/durable-files.ts";
import {
  type FileNotes,
  type FileRows,
  type FileShape,
  fileRowsMax,
  openFile,
  type RowFile,
  type RowFileWriter,
  type RowFormat,
  unusable,
} from "./row-file.ts";

/** Floats of a row group: some megabytes, as the library holds a group as JavaScript numbers. */
const groupFloatsMax = 2 ** 19;

const compressors = libraryCodecs();

export const parquet: RowFormat = { isCounted: false, open: openWriter, read: openReader };

function openWriter(file: DiskFile, shape: FileShape, notes: FileNotes): RowFileWriter {
  const writer = new ByteWriter();
  let bytes = 0;
  const flush = () => {
    const own = writer.getBytes();
    file.write(own, bytes);
    bytes += own.length;
    writer.index = 0;
  };
  const columns = [{ name: "vector", width: shape.dim }];
  if (shape.width > 0) columns.push({ name: "state", width: shape.width });
  const parquetWriter = new ParquetWriter({
    writer: Object.assign(writer, { flush, finish: flush }),
    schema: schemaOf(columns.map(({ name }) => name)),
    codec: "UNCOMPRESSED",
    statistics: false,
    kvMetadata: Object.entries(notes).map(([key, value]) => ({ key, value })),
    createdBy: "osiris",
  });
  const rowGroupSize = Math.max(1, Math.floor(groupFloatsMax / (shape.dim + shape.width)));
  return {
    write({ ids, vectors, state }) {
      const lists = [vectors, state ?? new Float32Array()];
      void parquetWriter.write({
        rowGroupSize,
        columnData: [
          { name: "id", data: [...ids], encoding: "PLAIN" },
          ...columns.map(({ name, width }, i) => ({
            name,
            data: Array.from(ids, (_, row) => {
              return Array.from(lists[i]?.subarray(row * width, (row + 1) * width) ?? []);
            }),
            encoding: "PLAIN" as const,
          })),
        ],
      });
    },
    finish: () => void parquetWriter.finish(),
  };
}

function schemaOf(lists: readonly string[]): SchemaElement[] {
  return [
    { name: "root", num_children: 1 + lists.length },
    { name: "id", type: "INT64", repetition_type: "REQUIRED" },
    ...lists.flatMap((name): SchemaElement[] => [
      { name, repetition_type: "REQUIRED", num_children: 1, converted_type: "LIST" },
      { name: "list", repetition_type: "REPEATED", num_children: 1 },
      { name: "element", type: "FLOAT", repetition_type: "REQUIRED" },
    ]),
  ];
}

async function openReader(path: string, disk: Disk): Promise<RowFile> {
  const file = openFile(path, disk);
  try {
    return await readerOf(file, path);
  } catch (error) {
    file.close();
    throw error;
  }
}

async function readerOf(file: DiskFile, path: string): Promise<RowFile> {
  const buffer = bufferOf(file, path);
  const metadata = await attempt(path, () => parquetMetadataAsync(buffer));
  const columns = columnsOf(metadata, path);
  const read = (rowStart: number, rowEnd: number) =>
    attempt(path, () =>
      parquetReadObjects({ file: buffer, metadata, compressors, columns, rowStart, rowEnd }),
    );
  const [first] = metadata.num_rows > 0n ? await read(0, 1) : [];
  const shape = { dim: lengthOf(first?.vector), width: lengthOf(first?.state) };
  const placeOf = (at: number) => `row ${at} of ${path}`;
  return {
    shape,
    async *chunks() {
      let done = 0;
      for (const group of metadata.row_groups) {
        const end = done + Number(group.num_rows);
        const rows = await read(done, end);
        for (let at = 0; at < rows.length; at += fileRowsMax) {
          const some = rows.slice(at, at + fileRowsMax);
          yield chunkOf(some, shape, (row) => placeOf(done + at + row), path);
        }
        done = end;
      }
    },
    placeOf,
    close: () => file.close(),
  };
}

function bufferOf(file: DiskFile, path: string): AsyncBuffer {
  const byteLength = file.size();
  return {
    byteLength,
    slice(start, end = byteLength) {
      const bytes = new Uint8Array(end - start);
      onDisk("read", path, () => file.read(bytes, start));
      return bytes.buffer;
    },
  };
}

/** The columns to read. @throws InputUnusableError where one is missing or has another type */
function columnsOf(metadata: FileMetaData, path: string): string[] {
  const { children } = parquetSchema(metadata);
  const names = children.map(({ element }) => element.name);
  const has = (name: string, types: readonly string[]) => {
    let at = children.find(({ element }) => element.name === name);
    const isList = (at?.children.length ?? 0) > 0;
    while (at?.children.length === 1) at = at.children[0];
    return isList === (name !== "id") && types.includes(at?.element.type ?? "");
  };
  const wanted = names.includes("state") ? ["vector", "state"] : ["vector"];
  if (has("id", ["INT64", "INT32"]) && wanted.every((name) => has(name, ["FLOAT"]))) {
    return ["id", ...wanted];
  }
  const form = "`id` (INT64 or INT32) and `vector` (a list of FLOAT)";
  const types = children.map(({ element: { name, type } }) => `\`${name}\` (${type ?? "nested"})`);
  throw unusable(path, `Expected the columns ${form} in ${path}, got ${types.join(", ")}`);
}

function chunkOf(
  rows: readonly Record<string, unknown>[],
  { dim, width }: FileShape,
  placeOf: (row: number) => string,
  path: string,
): FileRows {
  const ids = new BigInt64Array(rows.length);
  const vectors = new Float32Array(rows.length * dim);
  const state = width === 0 ? undefined : new Float32Array(rows.length * width);
  const put = (to: Float32Array, row: number, length: number, list: unknown) => {
    if (lengthOf(list) !== length) {
      const found = `got ${lengthOf(list)}`;
      throw unusable(path, `Expected ${length} numbers in ${placeOf(row)}, ${found}`);
    }
    // Nulls become NaN, which the checks refuse.
    for (const [i, value] of (list as (number | null)[]).entries()) {
      to[row * length + i] = value ?? Number.NaN;
    }
  };
  for (const [row, { id, vector, state: own }] of rows.entries()) {
    if (typeof id !== "bigint" && typeof id !== "number") {
      throw unusable(path, `Expected an id in ${placeOf(row)}, got ${String(id)}`);
    }
    ids[row] = BigInt(id);
    put(vectors, row, dim, vector);
    if (state !== undefined) put(state, row, width, own);
  }
  return { ids, vectors, state };
}

function lengthOf(list: unknown): number {
  return Array.isArray(list) || ArrayBuffer.isView(list) ? (list as Float32Array).length : 0;
}

/** If the library cannot read the file, the file is to blame. */
async function attempt<T>(path: string, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw unusable(path, `Cannot read ${path} as Parquet: ${why}`, cause);
  }
}
