// The texts of some features' columns in a Parquet file, as they are hashed: for commands that ask
// which text has which row.

import type { CategoricalField } from "../columnar/named-columns.ts";
import { textsAt } from "../columnar/row-text.ts";
import type { ResolvedParquetOptions, TableShape } from "../options.ts";
import { openParquet } from "./open-columns.ts";
import { wantedRows } from "./wanted-rows.ts";

/** The texts of some rows. */
export interface ColumnTexts {
  /** The columns of the features. */
  readonly columns: readonly CategoricalField[];
  readonly rows: number;
  /** For each row and column, the texts: one, or those of its list. */
  readonly texts: Iterable<readonly [column: CategoricalField, text: string]>;
  /** Share of the file that is read. */
  readonly fraction: number;
}

/** Reads the columns of the features at these places. @throws as `openParquet` and `readParquet` */
export async function* columnTexts(
  path: string,
  options: ResolvedParquetOptions,
  tables: readonly TableShape[],
  features: readonly number[],
): AsyncGenerator<ColumnTexts> {
  const opened = await openParquet(path, options, tables, undefined, true);
  const { file, footer, columns, wanted } = opened;
  try {
    const own = features.flatMap((feature) => columns.categorical[feature] ?? []);
    const names = new Set(own.map(({ name }) => name));
    const some = wanted.filter(({ shape }) => names.has(shape.name));
    for await (const { batch } of wantedRows({ ...opened, wanted: some })) {
      const texts = own.flatMap((field) => {
        const column = batch.columns.get(field.name);
        if (column === undefined) return [];
        return Array.from({ length: batch.rows }, (_, row) => {
          return textsAt(column, row).map((text) => [field, text] as const);
        }).flat();
      });
      const fraction = (batch.firstRow + batch.rows) / footer.rows;
      yield { columns: own, rows: batch.rows, texts, fraction };
    }
  } finally {
    await file.close();
  }
}
