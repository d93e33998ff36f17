// Maps rows to dynamic ids, read from the parts of a checkpoint.

import { idsOfBlocks } from "../../src/embedding/checkpoint/ids-part.ts";
import { blockRowsOf } from "../../src/embedding/tables/shards.ts";
import { idsOfPart } from "../../src/training/checkpoint/part-names.ts";
import type { OpenCheckpoint } from "./open-checkpoint.ts";

/** The ids of a table by row. */
export interface TableIds {
  /** The id that has the row; undefined: none has it. */
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

/** Index of `row` in ascending `rows`; -1: not there. */
function placeOf(rows: Int32Array, row: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle] ?? 0) < row) low = middle + 1;
    else high = middle;
  }
  return rows[low] === row ? low : -1;
}
