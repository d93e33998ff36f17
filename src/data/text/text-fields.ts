// Reads the lines of a text file together with the columns of the job's options, for commands that
// inspect a job's data without building a cache.

import { InputUnusableError, InvalidOptionError } from "../../errors/errors.ts";
import { missing } from "../columnar/named-columns.ts";
import type { ResolvedTextOptions, TableShape } from "../options.ts";
import { shownPath } from "../remote/addresses.ts";
import { type KeyColumn, optionOfKey } from "../split-keys.ts";
import { type Columns, criteoColumns, criteoDense, criteoFeatures, csvColumns } from "./columns.ts";
import { headerNames } from "./header.ts";
import { jsonColumns } from "./json-columns.ts";
import { lineBytesMax, readLines } from "./text-lines.ts";

/** One line of a text file, other than a CSV header. */
export interface TextLine {
  /** Line number in an editor at which it begins, from 1. */
  readonly line: number;
  /** Number of the record in the file, from 1; smaller than `line` after a line break in quotes. */
  readonly record: number;
  /** One byte per character. */
  readonly text: string;
}

/** A chunk of lines of a text file. */
export interface TextLines {
  readonly columns: Columns;
  readonly lines: readonly TextLine[];
  /** Numbers of the lines that are too long to be read. */
  readonly tooLong: readonly number[];
  /** Bytes of the file read so far. */
  readonly bytesRead: number;
}

/**
 * Yields the lines of a file in chunks, without empty lines.
 * @throws InvalidOptionError if the file lacks a column
 * @throws InputUnusableError if it cannot be read, or is empty
 */
export async function* textLines(
  address: string,
  options: ResolvedTextOptions,
  tables: readonly TableShape[],
  key?: KeyColumn,
): AsyncGenerator<TextLines> {
  const path = shownPath(address);
  let columns = columnsAtOnce(options, tables, path, key);
  const delimiter = options.kind === "csv" ? options.delimiter : undefined;
  for await (const { firstLine, lines, bytesRead, lineOf } of readLines(address, delimiter)) {
    const good: TextLine[] = [];
    const tooLong: number[] = [];
    for (const [index, text] of lines.entries()) {
      if (text === "") continue;
      if (columns === undefined && options.kind === "csv") {
        const names = headerNames(path, text, options.delimiter);
        columns = csvColumns(options, tables, path, names, key);
      } else if (text === undefined) tooLong.push(lineOf(index));
      else good.push({ line: lineOf(index), record: firstLine + index, text });
    }
    if (columns !== undefined) yield { columns, lines: good, tooLong, bytesRead };
  }
  if (columns === undefined) throw new InputUnusableError(path, `The data file ${path} is empty`);
}

/**
 * The columns of a file without a header; undefined if the format has a header, which must be read
 * first.
 */
export function columnsAtOnce(
  options: ResolvedTextOptions,
  tables: readonly TableShape[],
  path: string,
  key?: KeyColumn,
): Columns | undefined {
  switch (options.kind) {
    case "csv":
      return undefined;
    case "criteo-tsv":
      return { ...criteoColumns(tables), key: key && criteoField(key, path) };
    case "jsonl":
      return jsonColumns(options, tables, path, key);
    default:
      return options satisfies never;
  }
}

/**
 * Field index of a column of Criteo lines, which have no header; the names are those of the data
 * set's documentation.
 */
function criteoField(key: KeyColumn, path: string): number {
  const dense = Array.from({ length: criteoDense }, (_, i) => `I${i + 1}`);
  const ids = Array.from({ length: criteoFeatures }, (_, i) => `C${i + 1}`);
  const names = ["label", ...dense, ...ids];
  const field = names.indexOf(key.column);
  if (field >= 0) return field;
  const option = optionOfKey(key);
  throw new InvalidOptionError(option, missing(option, key.column, path, names, []));
}

/** The fault of a line that is too long. */
export const tooLongReason = `longer than ${lineBytesMax} bytes`;
