// The map from rows to dynamic ids, read from the parts of a checkpoint.

import { idsOfBlocks } from "../../src/embedding/checkpoint/ids-part.ts";
import { blockRowsOf } from "../../src/embedding/tables/shards.ts";
import { lowerBound } from "../../src/ports/lower-bound.ts";
import type { OpenCheckpoint } from "./open-checkpoint.ts";
import { partsOfTable } from "./store/part-index.ts";

export interface TableIds {
  /** The id that owns the row; undefined: the row is unused. */
  idOf(row: number): bigint | undefined;
  /** Number of ids that have a row. */
  readonly count: number;
  /** All ids, in the order of their rows. */
  all(): Iterable<{ readonly row: number; readonly id: bigint }>;
}

/**
 * The ids of the job's table `table`; undefined where the table has no dynamic ids.
 * @throws CheckpointCorruptError
 */
export function idsOfTable(
  { store, manifest, job }: OpenCheckpoint,
  table: number,
): TableIds | undefined {
  const { tables } = job.model;
  const spec = tables[table];
  if (spec?.dynamic === undefined) return undefined;
  const blocks = partsOfTable(manifest, tables, table).ids.flatMap((name) => [
    ...idsOfBlocks(store.readPart(manifest, name), name),
  ]);
  const blockRows = blockRowsOf(spec);
  const byBlock = new Map(blocks.map((one) => [one.block, one]));
  return {
    idOf(row) {
      const block = Math.floor(row / blockRows);
      const own = byBlock.get(block);
      return own?.ids[placeOf(own.rows, row - block * blockRows)];
    },
    count: blocks.reduce((sum, { rows }) => sum + rows.length, 0),
    *all() {
      for (const { block, rows, ids } of blocks.toSorted((a, b) => a.block - b.block)) {
        for (const [i, row] of rows.entries()) {
          yield { row: block * blockRows + row, id: ids[i] ?? 0n };
        }
      }
    },
  };
}

/** Index of `row` in ascending `rows`; -1: not found. */
function placeOf(rows: Int32Array, row: number): number {
  const at = lowerBound(rows, row);
  return rows[at] === row ? at : -1;
}
