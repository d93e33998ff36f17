// Reads columnar files for prediction, some thousand rows at a time.

import {
  createRowEncoder,
  InvalidOptionError,
  type JobSpec,
  openTable,
  type ResolvedTableOptions,
  type RowBatch,
  shapesOf,
  textsAt,
  transformsFor,
  wantedRows,
} from "../../../internal.ts";
import { withLists } from "./input-data.ts";
import type { PredictionInput } from "./line-input.ts";

/** Reads rows by the data section `data`, with the columns of `keep`. */
export function tableInput(
  { model }: Pick<JobSpec, "model">,
  data: ResolvedTableOptions,
  keep: readonly string[],
): PredictionInput {
  let rowsBefore = 0;
  return {
    async *read(file, bytes) {
      const { opened, data: resolved } = await openRows(file, data, shapesOf(model), keep);
      const { path, columns, header, rows } = opened;
      try {
        const encoder = createRowEncoder(columns, header, undefined, transformsFor(resolved));
        for await (const { batch } of wantedRows(opened)) {
          const { firstRow, rows: count } = batch;
          encoder.begin(batch);
          yield {
            ...{ path, count, firstRow: rowsBefore + firstRow, lines: undefined },
            bytesRead: bytes * ((firstRow + count) / rows),
            lineOf: (i) => firstRow + i + 1,
            decode: (sample, i) => encoder.encodeFeatures(sample, i),
            kept: () => keep.map((name) => keptTexts(batch, name)),
          };
        }
        rowsBefore += rows;
      } finally {
        await opened.close();
      }
    },
  };
}

/** Opens a file. Columns that options split by separators may be texts or lists: tries both. */
async function openRows(
  path: string,
  data: ResolvedTableOptions,
  tables: ReturnType<typeof shapesOf>,
  keep: readonly string[],
) {
  try {
    return { data, opened: await openTable(path, data, tables, undefined, keep) };
  } catch (cause) {
    if (!(cause instanceof InvalidOptionError)) throw cause;
    const listed = withLists(data);
    const opened = await openTable(path, listed, tables, undefined, keep).catch(() => {
      throw cause;
    });
    return { data: listed, opened };
  }
}

/** A column's values as text, ids of a list joined by `|`; null: a missing value. */
function keptTexts({ columns, rows }: RowBatch, name: string): (string | null)[] {
  const column = columns.get(name);
  return Array.from({ length: rows }, (_, row) => {
    const texts = column === undefined ? [] : textsAt(column, row);
    return texts.length === 0 ? null : Buffer.from(texts.join("|"), "latin1").toString("utf8");
  });
}
