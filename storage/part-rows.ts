// The rows of one part of a checkpoint, as a stream: the one place that knows what a part rests on.

import type { RowRecords } from "../src/embedding/row-store.ts";
import { decodeRows } from "../src/embedding/rows-part.ts";
import type { OpenCheckpoint } from "./open-checkpoint.ts";
import type { Pace } from "./pace.ts";

/**
 * The born rows of a tile, ascending, in chunks that are good until the next one. That they are
 * right is known at the end. @throws CheckpointCorruptError
 */
export function rowsOfPart(
  { store, manifest }: Pick<OpenCheckpoint, "store" | "manifest">,
  { name, dim, width }: { name: string; dim: number; width: number },
  pace: Pace,
): Generator<RowRecords> {
  return decodeRows(pace.count(store.readPart(manifest, name)), { dim, width, path: name });
}
