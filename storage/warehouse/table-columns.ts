// Columns of a table while it is written anew: what every reader of rows hands to every writer.

import type { SchemaElement } from "hyparquet";
import { dataColumnsOf } from "../../src/data/data-columns.ts";
import { shownPath } from "../../src/data/remote/addresses.ts";
import { keyColumnOf } from "../../src/data/split-keys.ts";
import { InputUnusableError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";

/** A column as a Parquet schema has it. */
export interface TableColumn {
  readonly name: string;
  /** Its node and those below it, in the order of the schema. */
  readonly elements: readonly SchemaElement[];
}

/** Some consecutive rows. */
export interface TableRows {
  readonly rows: number;
  /** The file that they are of, as the source was given it. */
  readonly file: string;
  /**
   * By name, a value a row, as Parquet stores it: number, bigint, boolean, bytes; a list; a map as
   * a list of `{ key, value }`. Null and undefined: there is none.
   */
  readonly columns: ReadonlyMap<string, readonly unknown[]>;
  /** Where a row lies in the files, for a message. */
  placeOf(row: number): string;
}

/** Rows of files. */
export interface TableSource {
  readonly columns: readonly TableColumn[];
  /** How many rows there are, as far as nothing is wrong with them. */
  countRows(): Promise<number>;
  /** The rows in their order. `from`: rows that are left out at the beginning. */
  chunks(from?: number): AsyncGenerator<TableRows>;
}

/** The columns by how many of the jobs read them, most first; of equal ones the earlier first. */
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

/** @throws InputUnusableError where the second of two files has other columns than the first */
export function refuseOtherColumns(
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
