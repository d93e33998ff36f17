// Which dynamic id has which row, as the parts of a checkpoint say.

import { idsOfBlocks } from "../../src/embedding/checkpoint/ids-part.ts";
import { blockRowsOf } from "../../src/embedding/tables/shards.ts";
import { idsOfPart } from "../../src/training/checkpoint/part-names.ts";
import type { OpenCheckpoint } from "./open-checkpoint.ts";

/** The ids of a table by row. */
export interface TableIds {
  /** Undefined where no id has the row. */
  idOf(row: number): bigint | undefined;
}

/**
 * The ids of the job's table `table`; undefined where ids are rows.
 * @throws CheckpointCorruptError
 */
export function idsOfTable(
  { store, manifest, job }: OpenCheckpoint,
  table: number,
): TableIds | undefined {
  const { tables } = job.model;
  const spec = tables[table];
  if (spec?.dynamic === undefined) return undefined;
  const blocks = manifest.parts
    .filter(({ name }) => idsOfPart(name, tables)?.table === table)
    .flatMap(({ name }) => [...idsOfBlocks(store.readWholePart(manifest, name), name)]);
  const blockRows = blockRowsOf(spec);
  const byBlock = new Map(blocks.map((one) => [one.block, one]));
  return {
    idOf(row) {
      const block = Math.floor(row / blockRows);
      const own = byBlock.get(block);
      return own?.ids[placeOf(own.rows, row - block * blockRows)];
    },
  };
}

/** Where ascending `rows` have `row`; -1: nowhere. */
function placeOf(rows: Int32Array, row: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle] ?? 0) < row) low = middle + 1;
    else high = middle;
  }
  return rows[low] === row ? low : -1;
}
