// The common representation of columns and rows that every reader of tables passes to every writer.

import type { SchemaElement } from "hyparquet";
import {
  dataColumnsOf,
  InputUnusableError,
  type JobSpec,
  keyColumnOf,
  shownPath,
} from "../../../internal.ts";

/** A column, described as in a Parquet schema. */
export interface TableColumn {
  readonly name: string;
  /** Its schema node and all descendants, in depth-first order. */
  readonly elements: readonly SchemaElement[];
}

/** Why columns of a form that no reader takes are left out, by their names. */
export type RefusedColumns = Map<string, string>;

/** Some consecutive rows. */
export interface TableRows {
  readonly rows: number;
  /** The file that contains the rows, as given to the source. */
  readonly file: string;
  /**
   * By name, one value per row in Parquet's stored form: number, bigint, boolean, bytes; a list; a
   * map as a list of `{ key, value }`. Null and undefined: a missing value.
   */
  readonly columns: ReadonlyMap<string, readonly unknown[]>;
  /** Describes the location of a row in the files, for error messages. */
  placeOf(row: number): string;
}

/** A reader of the rows of files. */
export interface TableSource {
  readonly columns: readonly TableColumn[];
  /** The number of rows, provided that all of them can be read. */
  countRows(): Promise<number>;
  /** The rows in order. `from`: number of rows to skip at the beginning. */
  chunks(from?: number): AsyncGenerator<TableRows>;
}

/** An open file of rows. */
export interface OpenTableFile {
  readonly columns: readonly TableColumn[];
  readonly rows: number;
  /** The rows after the first `skipped` ones. */
  chunks(skipped: number): AsyncGenerator<TableRows>;
  close(): Promise<void>;
}

/**
 * The rows of files with the same columns, in any order of columns. `open` opens a file; one file
 * is open at a time.
 * @throws InputUnusableError where a file cannot be read, or its columns differ
 */
export async function tableOf(
  paths: readonly string[],
  open: (path: string) => Promise<OpenTableFile>,
): Promise<TableSource> {
  const [first = ""] = paths;
  const closed = async (path: string) => {
    const file = await open(path);
    await file.close();
    return file;
  };
  const { columns } = await closed(first);
  return {
    columns,
    async countRows() {
      let rows = 0;
      for (const path of paths) rows += (await closed(path)).rows;
      return rows;
    },
    async *chunks(from = 0) {
      let left = from;
      for (const path of paths) {
        const file = await open(path);
        try {
          refuseOtherColumns(columns, file.columns, [first, path]);
          const skipped = Math.min(left, file.rows);
          left -= skipped;
          if (skipped < file.rows) yield* file.chunks(skipped);
        } finally {
          await file.close();
        }
      }
    },
  };
}

/** Sorts columns by the number of jobs that read them, most first (a stable sort). */
export function orderedByJobs(
  columns: readonly TableColumn[],
  jobs: readonly JobSpec[],
): TableColumn[] {
  const readers = new Map<string, number>();
  for (const { data, evaluation } of jobs) {
    const key = keyColumnOf(evaluation?.split)?.column;
    const names = [...dataColumnsOf(data), ...(key === undefined ? [] : [key])];
    for (const name of new Set(names)) readers.set(name, (readers.get(name) ?? 0) + 1);
  }
  const count = ({ name }: TableColumn) => readers.get(name) ?? 0;
  return [...columns].sort((a, b) => count(b) - count(a));
}

/** @throws InputUnusableError where the columns of file `path` differ from those of file `first` */
function refuseOtherColumns(
  columns: readonly TableColumn[],
  own: readonly TableColumn[],
  [first, path]: readonly [string, string],
): void {
  const typesOf = (some: readonly TableColumn[]) => {
    return new Map(some.map(({ name, elements }) => [name, JSON.stringify(elements)]));
  };
  const [a, b] = [typesOf(columns), typesOf(own)];
  const wrong = [...new Set([...a.keys(), ...b.keys()])].find(
    (name) => a.get(name) !== b.get(name),
  );
  if (wrong === undefined) return;
  const other = `another \`${wrong}\` in ${shownPath(first)} and in ${shownPath(path)}`;
  const message = `Expected files with the same columns, got ${other}`;
  throw new InputUnusableError(shownPath(path), message);
}
