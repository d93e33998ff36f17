// Reads the texts of features' columns in a columnar file, as they are hashed, for commands that
// look up which text has which table row.

import type { CategoricalField } from "../columnar/named-columns.ts";
import { textsAt } from "../columnar/row-text.ts";
import type { ResolvedTableOptions, TableShape } from "../options.ts";
import { shownPath } from "../remote/addresses.ts";
import { BadLines } from "../text/faults.ts";
import { DamageCount } from "./damage.ts";
import { openTable } from "./open-table.ts";
import { isInWanted, wantedRows } from "./wanted-rows.ts";

/** The texts of a batch of rows. */
export interface ColumnTexts {
  /** The columns of the features. */
  readonly columns: readonly CategoricalField[];
  readonly rows: number;
  /** For each row and column, its text or the texts of its list. */
  readonly texts: Iterable<readonly [column: CategoricalField, text: string]>;
  /** Fraction of the file read so far. */
  readonly fraction: number;
}

/**
 * Reads the columns of the features with these indices, for the rows that the job wants. A file in
 * an unwanted partition yields nothing. @throws as `openTable` and `TableFile.batches`
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
