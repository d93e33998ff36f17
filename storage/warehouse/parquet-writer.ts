// Writes rows of stored values as a Parquet file, a row group at a time.

import * as zlib from "node:zlib";
import type { CompressionCodec, SchemaElement } from "hyparquet";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import type { DiskFile } from "../../src/ports/disk.ts";
import type { TableColumn } from "./table-columns.ts";

/** The codecs that are written, as the command line names them. */
export const codecs = ["snappy", "zstd", "gzip", "brotli", "none"] as const;
export type Codec = (typeof codecs)[number];

/** What ends the name of a file that will be written again, with more rows. */
export const openSuffix = ".open.parquet";

/** Writes row groups to a file. */
export interface GroupWriter {
  /** `values`: by column, a value a row, as `TableRows` has them. */
  write(values: ReadonlyMap<string, readonly unknown[]>): void;
  /** Ends the file. `metadata`: what its footer says besides, by key. */
  finish(metadata?: Readonly<Record<string, string>>): void;
}

type Compress = (bytes: Uint8Array) => Uint8Array;

/** Zstandard came to Node in version 22.15. */
const { zstdCompressSync } = zlib as { readonly zstdCompressSync?: Compress };

const compressors: Partial<Record<CompressionCodec, Compress>> = {
  GZIP: (bytes) => zlib.gzipSync(bytes),
  BROTLI: (bytes) =>
    zlib.brotliCompressSync(bytes, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } }),
  ...(zstdCompressSync && { ZSTD: (bytes: Uint8Array) => zstdCompressSync(bytes) }),
};

/** A codec's name in Parquet. @throws InvalidOptionError where this Node has no such codec */
export function codecOf(codec: Codec): CompressionCodec {
  if (codec === "none") return "UNCOMPRESSED";
  if (codec === "zstd" && zstdCompressSync === undefined) {
    const message = "Expected `--codec` to be one that this Node compresses with, got zstd";
    const advice = `it needs Node 22.15, and this is ${process.version}; take snappy or gzip`;
    throw new InvalidOptionError("--codec", `${message}: ${advice}`);
  }
  return codec.toUpperCase() as CompressionCodec;
}

/** A file of these columns, in their order. The caller closes it. */
export function openGroupWriter(
  file: DiskFile,
  columns: readonly TableColumn[],
  codec: Codec,
): GroupWriter {
  const bytes = new ByteWriter();
  let at = 0;
  const flush = () => {
    const own = bytes.getBytes();
    file.write(own, at);
    at += own.length;
    bytes.index = 0;
  };
  const root = { name: "root", num_children: columns.length };
  const schema = [root, ...columns.flatMap(({ elements }) => [...elements])];
  const writer = new ParquetWriter({
    writer: Object.assign(bytes, { flush, finish: flush }),
    schema: schema.map(asStored),
    codec: codecOf(codec),
    compressors: compressors as never,
    createdBy: "osiris",
  });
  return {
    write(values) {
      const columnData = columns.map(({ name, elements }) => {
        const data = values.get(name) ?? [];
        return { name, data: [...data], statistics: elements.every(isInOrder) };
      });
      const rows = columnData[0]?.data.length ?? 0;
      if (rows > 0) void writer.write({ rowGroupSize: rows, columnData });
    },
    finish(metadata = {}) {
      const entries = Object.entries(metadata);
      if (entries.length > 0) writer.kvMetadata = entries.map(([key, value]) => ({ key, value }));
      // What the values mean: it is not for the library to convert them.
      writer.schema = schema;
      void writer.finish();
    },
  };
}

/** A node as its values are stored: groups keep their form, leaves have no meaning. */
function asStored(element: SchemaElement): SchemaElement {
  if (element.type === undefined) return element;
  const { logical_type: _logical, converted_type: _converted, ...rest } = element;
  return rest;
}

/** Whether the stored values of a leaf have the order of what they mean. */
function isInOrder({ type, converted_type: converted, logical_type: logical }: SchemaElement) {
  const isUnsigned =
    converted?.startsWith("UINT_") === true || (logical?.type === "INTEGER" && !logical.isSigned);
  const isNumber = type === "INT32" || type === "INT64" || type === "FLOAT" || type === "DOUBLE";
  return type === undefined || (isNumber && !isUnsigned) || type === "BOOLEAN";
}
