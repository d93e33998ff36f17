// The rows of one part of a checkpoint, as a stream: the one place that knows what a part rests on.

import { addRowsOfPart } from "../src/embedding/ids-part.ts";
import { mergeLayers, withRows } from "../src/embedding/layers.ts";
import { createRowSet } from "../src/embedding/row-set.ts";
import type { RowRecords } from "../src/embedding/row-store.ts";
import { decodeRows } from "../src/embedding/rows-part.ts";
import { blockRowsOf } from "../src/embedding/shards.ts";
import { idsOfPart, tableOfPart } from "../src/training/part-names.ts";
import { tableOf } from "../src/training/topology.ts";
import type { OpenCheckpoint } from "./open-checkpoint.ts";
import type { Pace } from "./pace.ts";

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
  const table = tableOfPart(name, job.model.tables)?.table ?? 0;
  const isDynamic = job.model.tables[table]?.dynamic !== undefined;
  return isDynamic ? withIds(checkpoint, table, rows) : rows;
}

/** Of the rows of a table with dynamic ids those that an id has: others lost theirs. */
function* withIds(
  { store, manifest, job }: OpenCheckpoint,
  table: number,
  chunks: Iterable<RowRecords>,
): Generator<RowRecords> {
  const { tables } = job.model;
  const rows = createRowSet();
  for (const { name } of manifest.parts) {
    if (idsOfPart(name, tables)?.table !== table) continue;
    const blockRows = blockRowsOf(tableOf(tables, table));
    addRowsOfPart(rows, store.readWholePart(manifest, name), blockRows, name);
  }
  for (const chunk of chunks) {
    const own = withRows(chunk, (row) => rows.has(row));
    if (own.rows.length > 0) yield own;
  }
}
