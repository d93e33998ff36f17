// Parquet files as rows of stored values, exactly: what a logical type means is left to readers, so
// that a moment or a decimal is copied bit for bit. One row group is in memory at a time.
//
// Columns are values, structs, lists of values or of structs, and maps; others are refused by name.

import {
  type AsyncBuffer,
  type FileMetaData,
  parquetMetadataAsync,
  parquetScan,
  parquetSchema,
  type SchemaElement,
  type SchemaTree,
} from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { libraryCodecs } from "../../src/data/parquet/decode/library-codecs.ts";
import { readFooter } from "../../src/data/parquet/footer.ts";
import { openRanges, type RangeReader } from "../../src/data/tables/byte-ranges.ts";
import { unreadable } from "../../src/data/text/text-lines.ts";
import { InputUnusableError, TrainingError } from "../../src/errors/errors.ts";
import { typeOf } from "./column-types.ts";
import {
  refuseOtherColumns,
  type TableColumn,
  type TableRows,
  type TableSource,
} from "./table-columns.ts";

const codecs = libraryCodecs(compressors);

/**
 * The rows of files that have the same columns, in any order.
 * @throws InputUnusableError where a file cannot be read, has other columns, or one that is refused
 */
export async function openParquetTable(paths: readonly string[]): Promise<TableSource> {
  const columns = await columnsOf(paths[0] ?? "");
  return {
    columns,
    async countRows() {
      let rows = 0;
      for (const path of paths) rows += await rowsIn(path);
      return rows;
    },
    async *chunks(from = 0) {
      let left = from;
      for (const path of paths) {
        if (left > 0) {
          const rows = await rowsIn(path);
          if (rows <= left) {
            left -= rows;
            continue;
          }
        }
        refuseOtherColumns(columns, await columnsOf(path), [paths[0] ?? "", path]);
        yield* rowGroupsOf(path, left);
        left = 0;
      }
    },
  };
}

async function rowsIn(path: string): Promise<number> {
  return withFile(path, async (file) => (await readFooter(file)).rows);
}

async function columnsOf(path: string): Promise<TableColumn[]> {
  return withFile(path, async (file) => {
    await readFooter(file); // Checks every number that is relied on.
    return columnsIn(file.path, await metadataOf(file));
  });
}

function columnsIn(path: string, metadata: FileMetaData): TableColumn[] {
  return parquetSchema(metadata).children.map((node) => {
    const { name } = node.element;
    if (!isWritten(node)) {
      const why = `its column \`${name}\` is ${typeOf(node)}`;
      const form = "a value, a struct, a list of either, or a map";
      throw new InputUnusableError(path, `Cannot copy ${path}: ${why}; expected ${form}`);
    }
    return { name, elements: elementsOf(node) };
  });
}

function elementsOf({ element, children }: SchemaTree): SchemaElement[] {
  return [element, ...children.flatMap(elementsOf)];
}

/** Whether a column is one of the forms above, in the way that every writer of today has. */
function isWritten({ element, children }: SchemaTree): boolean {
  if (element.repetition_type === "REPEATED") return false;
  if (children.length === 0) return isLeaf(element);
  const [repeated] = children;
  if (children.every((child) => child.element.repetition_type !== "REPEATED")) {
    return element.converted_type === undefined && children.every(isWritten);
  }
  if (children.length > 1 || repeated?.element.repetition_type !== "REPEATED") return false;
  const isList = element.converted_type === "LIST" && repeated.children.length === 1;
  const isMap = element.converted_type === "MAP" && repeated.children.length === 2;
  const names = repeated.children.map((child) => child.element.name).join();
  if (!isList && !(isMap && names === "key,value")) return false;
  const [item] = repeated.children;
  const leaves =
    isList && item !== undefined && item.children.length > 0 ? item.children : repeated.children;
  return leaves.every((leaf) => {
    const isFlat = leaf.children.length === 0 && leaf.element.repetition_type !== "REPEATED";
    return isFlat && isLeaf(leaf.element);
  });
}

function isLeaf({ type }: SchemaElement): boolean {
  return type !== undefined && type !== "INT96";
}

/** The rows of a file but the first `left`. */
async function* rowGroupsOf(path: string, left: number): AsyncGenerator<TableRows> {
  const file = await opened(path);
  try {
    const metadata = await metadataOf(file);
    const stored = { ...metadata, schema: metadata.schema.map(asStored) };
    const scan = await attempt(file.path, () =>
      parquetScan({ file: bufferOf(file), metadata: stored, compressors: codecs, utf8: false }),
    );
    let rowEnd = 0;
    for (const { num_rows: count } of metadata.row_groups) {
      const rowStart = Math.max(rowEnd, left);
      rowEnd += Number(count);
      if (rowEnd <= rowStart) continue;
      const columns = new Map<string, readonly unknown[]>();
      for (const { element } of parquetSchema(metadata).children) {
        const { name: column } = element;
        const values = await attempt(file.path, () =>
          scan.readColumn({ column, rowStart, rowEnd }),
        );
        columns.set(column, element.converted_type === "MAP" ? pairsOf(values) : [...values]);
      }
      const placeOf = (row: number) => `row ${rowStart + row + 1} of ${file.path}`;
      yield { rows: rowEnd - rowStart, file: path, columns, placeOf };
    }
  } finally {
    await file.close();
  }
}

/** Maps as lists of pairs, in their order and with keys of any type. */
function pairsOf(values: ArrayLike<unknown>): unknown[] {
  return Array.from(values, (value) => {
    const pairs = Object.values(value ?? {})[0];
    return value === null || value === undefined ? undefined : (pairs ?? []);
  });
}

/** A node without what its values mean; of groups, lists alone keep their form. */
function asStored(element: SchemaElement): SchemaElement {
  const { logical_type: _logical, converted_type: converted, ...rest } = element;
  const isList = element.type === undefined && converted === "LIST";
  return isList ? { ...rest, converted_type: "LIST" } : rest;
}

async function metadataOf(file: RangeReader): Promise<FileMetaData> {
  return attempt(file.path, () => parquetMetadataAsync(bufferOf(file)));
}

function bufferOf(file: RangeReader): AsyncBuffer {
  return {
    byteLength: file.size,
    async slice(start, end = file.size) {
      const bytes = await file.read(start, end);
      return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + end - start) as ArrayBuffer;
    },
  };
}

async function opened(path: string): Promise<RangeReader> {
  try {
    return await openRanges(path);
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

async function withFile<Result>(path: string, work: (file: RangeReader) => Promise<Result>) {
  const file = await opened(path);
  try {
    return await work(file);
  } finally {
    await file.close();
  }
}

/** If the library cannot read the file, the file is to blame. */
async function attempt<Result>(path: string, body: () => Result | Promise<Result>) {
  try {
    return await body();
  } catch (cause) {
    if (cause instanceof TrainingError) throw cause; // It names the file already.
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot read ${path} as Parquet: ${why}`, { cause });
  }
}
