// Opens a file of any format and yields its rows in the form from which samples are made.

import { createHash, type Hash } from "node:crypto";
import { InputUnusableError } from "../errors/errors.ts";
import { textsAt } from "./columnar/column.ts";
import type { CategoricalField } from "./columnar/named-columns.ts";
import { isTable, pieceOf } from "./data-kinds.ts";
import type {
  ResolvedFileOptions,
  ResolvedTableOptions,
  ResolvedTextOptions,
  TableShape,
} from "./options.ts";
import { isAddress, shownPath } from "./remote/addresses.ts";
import { type FileFacts, factsOnDisk } from "./remote/file-facts.ts";
import { changed } from "./remote/web-requests.ts";
import type { FileRows } from "./source-rows.ts";
import type { KeyColumn } from "./split-keys.ts";
import { DamageCount } from "./tables/damage.ts";
import { openTable } from "./tables/open-table.ts";
import { isInWanted, newReport, type TableFile, wantedRows } from "./tables/table-file.ts";
import { columnsAtOnce, csvColumns, headerNames } from "./text/columns.ts";
import { BadLines } from "./text/faults.ts";
import { fieldParser } from "./text/field-values.ts";
import { LineBatch } from "./text/line-batch.ts";
import { readByteLines } from "./text/text-lines.ts";

/** Options of `openRows`. */
export interface RowsOptions {
  /** The column that splits the data, or the column of slices. */
  readonly key?: KeyColumn | undefined;
  /** The facts that the file must still have; its bytes are hashed, too. @default any, no hash */
  readonly facts?: FileFacts | undefined;
  /** Counts damage of a columnar file. @default it is thrown */
  readonly damage?: DamageCount | undefined;
  /** The only features whose columns are read of a columnar file. @default all columns */
  readonly features?: readonly number[] | undefined;
  /**
   * For the features alone: labels, weight and group of a columnar file are not read and may be
   * missing, and `where` is ignored. @default false
   */
  readonly isPrediction?: boolean | undefined;
}

/** The rows of an open file. The caller closes it. */
export interface OpenRows {
  /** Path of the file, for messages. */
  readonly path: string;
  /** @throws InputUnusableError, InvalidOptionError if the file lacks a column */
  readonly batches: AsyncGenerator<FileRows>;
  /**
   * SHA-256 of the text, or of the schema and the bytes of the wanted columns, hex; `""` if `facts`
   * was left out.
   */
  sha256(): string;
  close(): Promise<void>;
}

/**
 * Opens a file. Undefined if it lies in a partition without a wanted row, or has damage that the
 * job tolerates.
 * @throws InvalidOptionError if a columnar file lacks a column, or has it with another type
 * @throws InputUnusableError if a columnar file cannot be read
 */
export async function openRows(
  path: string,
  options: ResolvedFileOptions,
  tables: readonly TableShape[],
  given: RowsOptions = {},
): Promise<OpenRows | undefined> {
  if (isTable(options)) return openTableRows(path, options, tables, given);
  const hash = given.facts && createHash("sha256");
  return {
    path: shownPath(path),
    batches: textRows(path, options, tables, given, hash),
    sha256: () => hash?.digest("hex") ?? "",
    async close() {},
  };
}

/** The lines of a text file, in chunks. Empty lines, and the header of CSV, are no wanted rows. */
async function* textRows(
  address: string,
  options: ResolvedTextOptions,
  tables: readonly TableShape[],
  { key, facts }: RowsOptions,
  hash: Hash | undefined,
): AsyncGenerator<FileRows> {
  const path = shownPath(address);
  let columns = columnsAtOnce(options, tables, path, key);
  let parse = columns && fieldParser(columns);
  const delimiter = options.kind === "csv" ? options.delimiter : undefined;
  for await (const lines of readByteLines(address, { hash, known: facts, delimiter })) {
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
  checkUnchanged(address, facts);
  if (columns === undefined) throw new InputUnusableError(path, `The data file ${path} is empty`);
}

/**
 * Checks that a local file still has the facts that name its cache: otherwise the cache would give
 * the samples of one version for another. A remote file is checked with each answer.
 * @throws InputUnusableError
 */
function checkUnchanged(path: string, facts: FileFacts | undefined): void {
  if (facts === undefined || isAddress(path)) return;
  const { bytes, version } = factsOnDisk(path);
  if (bytes !== facts.bytes || version !== facts.version) throw changed(path);
}

async function openTableRows(
  address: string,
  options: ResolvedTableOptions,
  tables: readonly TableShape[],
  { key, facts, damage, features, isPrediction = false }: RowsOptions,
): Promise<OpenRows | undefined> {
  if (!isPrediction && !isInWanted(address, options)) return undefined;
  const kept = isPrediction ? [] : undefined;
  const table = await openTable(address, options, tables, key, kept).catch((error) => {
    if (damage === undefined) throw error;
    damage.addFile(shownPath(address), error);
  });
  if (table === undefined) return undefined;
  const { path, size, tag, rows, columns, header, tests } = table;
  if (facts !== undefined && tag !== undefined && (size !== facts.bytes || tag !== facts.version)) {
    await table.close();
    throw changed(path);
  }
  const read = features?.flatMap((feature) => columns.categorical[feature]?.name ?? []);
  const names = read && new Set([...read, ...tests.map(({ column }) => column)]);
  const report = newReport(facts !== undefined);
  const limits = { report, names, onDamage: damage?.of(path) };
  async function* batches(opened: TableFile): AsyncGenerator<FileRows> {
    for await (const { batch, isWanted } of wantedRows(opened, limits)) {
      yield {
        ...{ batch, columns, header, isWanted },
        lineOf: (row) => batch.firstRow + row + 1,
        place: pieceOf(options, batch.rowGroup),
        bytesRead: (size * (batch.firstRow + batch.rows)) / rows,
      };
    }
    checkUnchanged(address, facts);
  }
  return {
    path,
    batches: batches(table),
    sha256: () => report.sha256,
    close: () => table.close(),
  };
}

/** The texts of a batch of rows. */
export interface ColumnTexts {
  /** The columns of the features. */
  readonly columns: readonly CategoricalField[];
  readonly rows: number;
  /** For each row and column, its text or the texts of its list. */
  readonly texts: Iterable<readonly [column: CategoricalField, text: string]>;
  /** Bytes of the file read so far. */
  readonly bytesRead: number;
}

/**
 * Reads the texts of the columns of the features with these indices, as they are hashed, for the
 * rows that the job wants. A file in an unwanted partition yields nothing. @throws as `openRows`
 * and `OpenRows.batches`
 */
export async function* columnTexts(
  path: string,
  options: ResolvedFileOptions,
  tables: readonly TableShape[],
  features: readonly number[],
): AsyncGenerator<ColumnTexts> {
  const damage = isTable(options) ? new DamageCount(options, new BadLines(0)) : undefined;
  const file = await openRows(path, options, tables, { damage, features });
  try {
    for await (const { batch, columns, header, isWanted, bytesRead } of file?.batches ?? []) {
      const own = features.flatMap((feature) => columns.categorical[feature] ?? []);
      const rows = Array.from({ length: batch.rows }, (_, row) => row).filter(isWanted);
      const texts = own.flatMap((field) => {
        const column = batch.columns.get(header[field.field] ?? "");
        if (column === undefined) return [];
        return rows.flatMap((row) => textsAt(column, row).map((text) => [field, text] as const));
      });
      yield { columns: own, rows: rows.length, texts, bytesRead };
    }
  } finally {
    await file?.close();
  }
}
