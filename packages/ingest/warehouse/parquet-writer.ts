// Writes rows of stored values as a Parquet file, one row group at a time.

import type { SchemaElement } from "hyparquet";
import { type DiskFile, parquetWriter } from "../../../internal.ts";
import { type Codec, codecOf, compressors } from "./codecs.ts";
import type { TableColumn } from "./table-columns.ts";

/** Ending of a file with an open end, which an ingestion will rewrite with more rows. */
export const openSuffix = ".open.parquet";

/** Writes row groups to a file. */
export interface GroupWriter {
  /** Writes a row group. `values`: by column, one value per row, as in `TableRows`. */
  write(values: ReadonlyMap<string, readonly unknown[]>): void;
  /** Writes the footer. `metadata`: further key-value metadata. */
  finish(metadata?: Readonly<Record<string, string>>): void;
}

/**
 * Opens a writer of these columns, in this order. Call `readyCodec` before; the caller closes the
 * file. `hasPlainLists`: store ids of lists with PLAIN encoding, because a codec cannot find
 * repeated lists in the packed bits of dictionary encoding.
 */
export function openGroupWriter(
  file: DiskFile,
  columns: readonly TableColumn[],
  codec: Codec,
  hasPlainLists = false,
): GroupWriter {
  const root = { name: "root", num_children: columns.length };
  const schema = [root, ...columns.flatMap(({ elements }) => [...elements])];
  const writer = parquetWriter(file, {
    schema: schema.map(asStored),
    codec: codecOf(codec),
    compressors: compressors() as never,
  });
  return {
    write(values) {
      const columnData = columns.map(({ name, elements }) => {
        const data = values.get(name) ?? [];
        const isPlain = hasPlainLists && elements.length > 1;
        return {
          ...{ name, data: [...data], statistics: elements.every(isInOrder) },
          ...(isPlain && { encoding: "PLAIN" as const }),
        };
      });
      const rows = columnData[0]?.data.length ?? 0;
      if (rows > 0) void writer.write({ rowGroupSize: rows, columnData });
    },
    finish(metadata = {}) {
      const entries = Object.entries(metadata);
      if (entries.length > 0) writer.kvMetadata = entries.map(([key, value]) => ({ key, value }));
      // The footer gets the logical types. They were hidden before, so that the library converts no
      // values.
      writer.schema = schema;
      void writer.finish();
    },
  };
}

/** A schema node without its logical type, if it is a leaf. */
function asStored(element: SchemaElement): SchemaElement {
  if (element.type === undefined) return element;
  const { logical_type: _logical, converted_type: _converted, ...rest } = element;
  return rest;
}

/**
 * Whether a leaf's stored values have the logical order and hyparquet-writer writes them as minimum
 * and maximum. Of a decimal in 32 bits it writes scaled numbers, which readers would scale again.
 */
function isInOrder({ type, converted_type: converted }: SchemaElement) {
  const isNumber = type === "INT32" || type === "INT64" || type === "FLOAT" || type === "DOUBLE";
  const isScaled = type === "INT32" && converted === "DECIMAL";
  const isSigned = !isScaled && converted?.startsWith("UINT_") !== true;
  return type === undefined || (isNumber && isSigned) || type === "BOOLEAN";
}
