// The rows of one part of a checkpoint, as a stream: the one place that knows what a part rests on.

import { mergeLayers, withRows } from "../../src/embedding/checkpoint/incremental-files.ts";
import { decodeRows } from "../../src/embedding/checkpoint/rows-part.ts";
import type { RowRecords } from "../../src/embedding/rows/row-records.ts";
import { tableOfPart } from "../../src/training/checkpoint/part-names.ts";
import type { Pace } from "../disk/progress.ts";
import type { OpenCheckpoint } from "./open-checkpoint.ts";
import { idsOfTable, type TableIds } from "./part-ids.ts";

/**
 * The born rows of a tile, ascending, in chunks that are good until the next one. That they are
 * right is known at the end. @throws CheckpointCorruptError
 */
export function rowsOfPart(
  checkpoint: OpenCheckpoint,
  { name, dim, width }: { name: string; dim: number; width: number },
  pace: Pace,
): Generator<RowRecords> {
  const { store, manifest, job } = checkpoint;
  const layers = store.readLayers(manifest, name);
  const expect = { dim, width, path: name };
  const rows = mergeLayers(layers.map((pieces) => decodeRows(pace.count(pieces), expect)));
  const ids = idsOfTable(checkpoint, tableOfPart(name, job.model.tables)?.table ?? -1);
  return ids === undefined ? rows : withIds(ids, rows);
}

/** Of the rows of a table with dynamic ids those that an id has: others lost theirs. */
function* withIds(ids: TableIds, chunks: Iterable<RowRecords>): Generator<RowRecords> {
  for (const chunk of chunks) {
    const own = withRows(chunk, (row) => ids.idOf(row) !== undefined);
    if (own.rows.length > 0) yield own;
  }
}
