// Streams the rows of one part, merged with its base files.

import { mergeFiles, withRows } from "../../src/embedding/checkpoint/incremental-files.ts";
import { decodeRows } from "../../src/embedding/checkpoint/rows-part.ts";
import type { RowRecords } from "../../src/embedding/rows/row-records.ts";
import { tableOfPart } from "../../src/training/checkpoint/part-names.ts";
import type { Progress } from "../disk/progress.ts";
import type { OpenCheckpoint } from "./open-checkpoint.ts";
import { idsOfTable, type TableIds } from "./part-ids.ts";

/**
 * The initialised rows of a tile, ascending, in chunks; each is valid until the next one. The hash
 * is checked at the end of the stream. @throws CheckpointCorruptError
 */
export function rowsOfPart(
  checkpoint: OpenCheckpoint,
  { name, dim, width }: { name: string; dim: number; width: number },
  progress: Progress,
): Generator<RowRecords> {
  const { store, manifest, job } = checkpoint;
  const files = store.readFiles(manifest, name);
  const table = tableOfPart(name, job.model.tables)?.table ?? -1;
  const rowsMax = job.model.tables[table]?.rows ?? 0;
  const expect = { dim, width, path: name, rows: rowsMax };
  const rows = mergeFiles(files.map((pieces) => decodeRows(progress.count(pieces), expect)));
  const ids = idsOfTable(checkpoint, table);
  return ids === undefined ? rows : withIds(ids, rows);
}

/** Drops the rows of a dynamic table that no id owns: their ids were evicted. */
function* withIds(ids: TableIds, chunks: Iterable<RowRecords>): Generator<RowRecords> {
  for (const chunk of chunks) {
    const own = withRows(chunk, (row) => ids.idOf(row) !== undefined);
    if (own.rows.length > 0) yield own;
  }
}
