// Reads the rows of a file that a job wants. Pieces without such rows are skipped, partition keys
// become columns, and each batch comes with a filter for its rows.

import type { Column, RowBatch } from "../columnar/column.ts";
import { rowFilter, rowTest } from "../columnar/row-filter.ts";
import type { ResolvedTableOptions } from "../options.ts";
import type { TableFile, TableLimits } from "./table-file.ts";
import { partitionsOf } from "./table-files.ts";

/** A batch of rows, and the filter of its rows. */
export interface WantedRows {
  readonly batch: RowBatch;
  /** Whether a row of the batch is a sample. */
  readonly isWanted: (row: number) => boolean;
}

/**
 * Yields the rows of a file in order; a batch is valid until the next one.
 * @throws InputUnusableError
 */
export async function* wantedRows(
  table: TableFile,
  limits: TableLimits = {},
): AsyncGenerator<WantedRows> {
  const { tests, partitions } = table;
  for await (const batch of table.batches(tests, limits)) {
    const whole = withPartitions(batch, partitions);
    yield { batch: whole, isWanted: rowFilter(tests, whole) };
  }
}

/** Whether the partitions of a file's path may contain a wanted row. */
export function isInWanted(
  path: string,
  { where = [] }: Pick<ResolvedTableOptions, "where">,
): boolean {
  const partitions = partitionsOf(path);
  return where.every((predicate) => {
    if (!partitions.has(predicate.column)) return true;
    const text = partitions.get(predicate.column);
    if (text === undefined) return false;
    return rowTest(predicate).isWanted(bytesOf(text));
  });
}

/** Adds the partition keys to a batch, as columns with the same value in every row. */
function withPartitions(
  batch: RowBatch,
  partitions: ReadonlyMap<string, string | undefined>,
): RowBatch {
  if (partitions.size === 0) return batch;
  const columns = new Map(batch.columns);
  for (const [name, text] of partitions) columns.set(name, sameText(text, batch.rows));
  return { ...batch, columns };
}

function sameText(text: string | undefined, rows: number): Column {
  const each = text === undefined ? 0 : 1;
  return {
    form: "texts",
    offsets: Int32Array.from({ length: rows + 1 }, (_, row) => row * each),
    codes: new Int32Array(rows * each),
    dictionary: [bytesOf(text ?? "")],
  };
}

function bytesOf(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}
