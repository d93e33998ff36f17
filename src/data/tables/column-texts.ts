// The texts of some features' columns in a file of columns, as they are hashed: for commands that
// ask which text has which row.

import type { CategoricalField } from "../columnar/named-columns.ts";
import { textsAt } from "../columnar/row-text.ts";
import type { ResolvedTableOptions, TableShape } from "../options.ts";
import { shownPath } from "../remote/addresses.ts";
import { BadLines } from "../text/faults.ts";
import { DamageCount } from "./damage.ts";
import { openTable } from "./open-table.ts";
import { isInWanted, wantedRows } from "./wanted-rows.ts";

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

/**
 * Reads the columns of the features at these places, of the rows that the job wants; nothing of a
 * file in other partitions. @throws as `openTable` and `TableFile.batches`
 */
export async function* columnTexts(
  path: string,
  options: ResolvedTableOptions,
  tables: readonly TableShape[],
  features: readonly number[],
): AsyncGenerator<ColumnTexts> {
  if (!isInWanted(path, options)) return;
  const damage = new DamageCount(options, new BadLines(0));
  const opened = await openTable(path, options, tables).catch((error) => {
    damage.addFile(shownPath(path), error);
  });
  if (opened === undefined) return;
  const { columns, tests } = opened;
  try {
    const own = features.flatMap((feature) => columns.categorical[feature] ?? []);
    const names = new Set([...own.map(({ name }) => name), ...tests.map(({ column }) => column)]);
    const limits = { names, onDamage: damage.of(opened.path) };
    for await (const { batch, isWanted } of wantedRows(opened, limits)) {
      const rows = Array.from({ length: batch.rows }, (_, row) => row).filter(isWanted);
      const texts = own.flatMap((field) => {
        const column = batch.columns.get(field.name);
        if (column === undefined) return [];
        return rows.flatMap((row) => textsAt(column, row).map((text) => [field, text] as const));
      });
      const fraction = (batch.firstRow + batch.rows) / opened.rows;
      yield { columns: own, rows: rows.length, texts, fraction };
    }
  } finally {
    await opened.close();
  }
}
