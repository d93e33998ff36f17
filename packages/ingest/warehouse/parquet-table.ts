// Reads Parquet files as rows of stored values. Logical types are not converted, so that a
// timestamp or a decimal is copied bit for bit. One row group is in memory at a time.
//
// Columns may be values, structs, lists of values or structs, and maps. A column of another form is
// an error with its name, or is left out if the caller collects such columns.

import type { SchemaElement, SchemaTree } from "hyparquet";
import {
  type Footer,
  InputUnusableError,
  openFrom,
  type RangeReader,
  readFooter,
  StoredLeaves,
  storedColumn,
} from "../../../internal.ts";
import { typeOf } from "./column-types.ts";
import {
  type RefusedColumns,
  type TableColumn,
  type TableRows,
  type TableSource,
  tableOf,
} from "./table-columns.ts";

/**
 * Opens files with the same columns, in any order of columns.
 * @throws InputUnusableError where a file cannot be read, its columns differ, or one is refused
 */
export function openParquetTable(
  paths: readonly string[],
  refused?: RefusedColumns,
): Promise<TableSource> {
  return tableOf(paths, (path) => {
    return openFrom(path, async (file) => {
      const footer = await readFooter(file);
      return {
        columns: columnsIn(file.path, footer.schema, refused),
        rows: footer.rows,
        chunks: (skipped) => rowGroupsOf(path, file, footer, skipped),
        close: () => file.close(),
      };
    });
  });
}

function columnsIn(
  path: string,
  schema: SchemaTree,
  refused: RefusedColumns | undefined,
): TableColumn[] {
  return schema.children.flatMap((node) => {
    const { name } = node.element;
    if (isWritten(node)) return [{ name, elements: elementsOf(node) }];
    const form = "a value, a struct, a list of either, or a map";
    const why = `is ${typeOf(node)}; expected ${form}`;
    if (refused === undefined) {
      throw new InputUnusableError(path, `Cannot read ${path}: its column \`${name}\` ${why}`);
    }
    refused.set(name, `it ${why}`);
    return [];
  });
}

function elementsOf({ element, children }: SchemaTree): SchemaElement[] {
  return [withOneType(element), ...children.flatMap(elementsOf)];
}

/**
 * An integer with its converted type alone, because other readers refuse a file that the library
 * has written with the logical type INTEGER.
 */
function withOneType({ logical_type: logical, ...element }: SchemaElement): SchemaElement {
  if (logical?.type !== "INTEGER") return logical ? { ...element, logical_type: logical } : element;
  const converted = `${logical.isSigned ? "" : "U"}INT_${logical.bitWidth}`;
  return { ...element, converted_type: converted as NonNullable<typeof element.converted_type> };
}

/** Whether a column has one of the forms above, in the standard (three-level) representation. */
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

/** The rows of a file after the first `left` ones. */
async function* rowGroupsOf(
  path: string,
  file: RangeReader,
  { schema, groups }: Footer,
  left: number,
): AsyncGenerator<TableRows> {
  const leaves = new StoredLeaves(file);
  let rowEnd = 0;
  for (const [place, group] of groups.entries()) {
    const from = Math.max(rowEnd, left);
    const skipped = from - rowEnd;
    rowEnd += group.rows;
    if (rowEnd <= from) continue;
    const columns = new Map<string, readonly unknown[]>();
    for (const node of schema.children.filter(isWritten)) {
      const values = await storedColumn({ path: file.path, leaves, group, place }, node);
      columns.set(node.element.name, skipped === 0 ? values : values.slice(skipped));
    }
    const placeOf = (row: number) => `row ${from + row + 1} of ${file.path}`;
    yield { rows: rowEnd - from, file: path, columns, placeOf };
  }
}
