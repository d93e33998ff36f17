// Makes a job's batches from row objects: each row becomes an object with one map for each kind of
// feature, and the job's features are looked up in these maps. Readers of the map layout work this
// way, and so does every reader that returns rows as objects. R = rows of a batch.

import type { IdColumn, RowBatch } from "../../../src/data/columnar/column.ts";
import type { FeatureBatch, JobFeatures } from "./feature-batch.ts";

interface LoggedRow {
  readonly numbers: Map<number, number>;
  readonly lists: Map<number, BigInt64Array>;
}

/** Row objects from a batch of the map layout, with all logged features. */
export function rowsOfMaps(batch: RowBatch): LoggedRow[] {
  const [numbers, keys, lengths, ids] = [
    idColumn(batch, "numbers"),
    idColumn(batch, "listKeys"),
    idColumn(batch, "listLengths"),
    idColumn(batch, "listIds"),
  ];
  let at = 0;
  return Array.from({ length: batch.rows }, (_, row) => {
    const made: LoggedRow = { numbers: new Map(), lists: new Map() };
    for (let i = numbers.offsets[row] ?? 0; i < (numbers.offsets[row + 1] ?? 0); i++) {
      made.numbers.set(Number(numbers.ids[i]), numbers.weights?.[i] ?? 0);
    }
    for (let i = keys.offsets[row] ?? 0; i < (keys.offsets[row + 1] ?? 0); i++) {
      const end = at + Number(lengths.ids[i]);
      made.lists.set(Number(keys.ids[i]), ids.ids.slice(at, end));
      at = end;
    }
    return made;
  });
}

/** Row objects from a batch of the flattened layout, with the job's features only. */
export function rowsOfColumns(batch: RowBatch, { numbers, lists }: JobFeatures): LoggedRow[] {
  const rows = Array.from({ length: batch.rows }, (): LoggedRow => {
    return { numbers: new Map(), lists: new Map() };
  });
  for (const { name, key } of numbers) {
    const column = batch.columns.get(name);
    if (column?.form !== "numbers") throw new TypeError(`Expected numbers in ${name}`);
    for (const [row, made] of rows.entries()) {
      const value = column.values[row] ?? Number.NaN;
      if (!Number.isNaN(value)) made.numbers.set(key, value);
    }
  }
  for (const { name, key } of lists) {
    const { ids, offsets, present } = idColumn(batch, name);
    for (const [row, made] of rows.entries()) {
      if (present?.[row] === 0) continue;
      made.lists.set(key, ids.slice(offsets[row], offsets[row + 1]));
    }
  }
  return rows;
}

/** Makes a batch from rows. */
export function batchOfRows(rows: readonly LoggedRow[], of: JobFeatures): FeatureBatch {
  const dense = new Float32Array(rows.length * of.numbers.length);
  let at = 0;
  for (const { numbers } of rows) {
    for (const { key } of of.numbers) dense[at++] = numbers.get(key) ?? 0;
  }
  const lists = of.lists.map(({ key }) => {
    const offsets = new Int32Array(rows.length + 1);
    for (const [row, { lists: listsOfRow }] of rows.entries()) {
      offsets[row + 1] = (offsets[row] ?? 0) + (listsOfRow.get(key)?.length ?? 0);
    }
    const ids = new BigInt64Array(offsets[rows.length] ?? 0);
    for (const [row, { lists: listsOfRow }] of rows.entries()) {
      const list = listsOfRow.get(key);
      if (list !== undefined) ids.set(list, offsets[row]);
    }
    return { offsets, ids };
  });
  return { rows: rows.length, dense, lists };
}

function idColumn(batch: RowBatch, name: string): IdColumn {
  const column = batch.columns.get(name);
  if (column?.form === "ids") return column;
  throw new TypeError(`Expected ids in ${name}`);
}
