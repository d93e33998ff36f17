// Reads the lines of a text file as rows, with the columns of the job's options.

import type { Hash } from "node:crypto";
import { InputUnusableError } from "../../errors/errors.ts";
import type { ResolvedTextOptions, TableShape } from "../options.ts";
import { shownPath } from "../remote/addresses.ts";
import type { FileRows } from "../source-rows.ts";
import type { KeyColumn } from "../split-keys.ts";
import { type Columns, columnsAtOnce, csvColumns, headerNames } from "./columns.ts";
import { fieldParser } from "./field-values.ts";
import { LineBatch } from "./line-batch.ts";
import { type KnownText, readByteLines } from "./text-lines.ts";

/**
 * Yields the lines of a file in chunks. Empty lines, and the header of CSV, are no wanted rows.
 * `known` and `hash`: as for `readByteLines`.
 * @throws InvalidOptionError if the file lacks a column
 * @throws InputUnusableError if it cannot be read, or is empty
 */
export async function* textRows(
  address: string,
  options: ResolvedTextOptions,
  tables: readonly TableShape[],
  {
    key,
    known,
    hash,
  }: {
    readonly key?: KeyColumn | undefined;
    readonly known?: KnownText | undefined;
    readonly hash?: Hash | undefined;
  } = {},
): AsyncGenerator<FileRows & { readonly batch: LineBatch; readonly columns: Columns }> {
  const path = shownPath(address);
  let columns = columnsAtOnce(options, tables, path, key);
  let parse = columns && fieldParser(columns);
  const delimiter = options.kind === "csv" ? options.delimiter : undefined;
  for await (const lines of readByteLines(address, { hash, known, delimiter })) {
    let first = 0;
    if (columns === undefined && options.kind === "csv") {
      while (first < lines.count && lines.isEmpty(first)) first++;
      if (first === lines.count) continue;
      const header = lines.isTooLong(first) ? undefined : lines.text(first);
      const names = headerNames(path, header, options.delimiter);
      columns = csvColumns(options, tables, path, names, key);
      parse = fieldParser(columns);
      first++;
    }
    if (columns === undefined || parse === undefined) throw new TypeError("a file has columns");
    const parsed = columns.json === undefined ? { lines, values: parse(lines) } : undefined;
    yield {
      columns,
      header: columns.header,
      batch: new LineBatch(columns, lines, lines.firstLine, parsed),
      isWanted: (row) => row >= first && !lines.isEmpty(row),
      lineOf: (row) => lines.lineOf(row),
      place: {},
      bytesRead: lines.bytesRead,
    };
  }
  if (columns === undefined) throw new InputUnusableError(path, `The data file ${path} is empty`);
}
