// Measures the size of a table whose rows are shuffled instead of clustered. The rows are written
// in the order of a hash of their row number, and the files are removed again.

import { join } from "node:path";
import { mix32, onDisk } from "../../../internal.ts";
import type { KeyedRow } from "./run-files.ts";
import { SessionSort, type SortPlace } from "./session-sort.ts";
import type { SessionTable, WrittenSessions } from "./session-table.ts";
import { openState } from "./sorting-state.ts";

/** Writes a table whose rows `fill` adds. */
export type WriteTable = (
  place: SortPlace,
  fill: (table: SessionTable) => Promise<void>,
) => Promise<WrittenSessions>;

/** Bytes of the table that `write` makes of the rows of `sort`, shuffled. */
export async function shuffledBytes(
  place: SortPlace,
  sort: SessionSort,
  write: WriteTable,
): Promise<number> {
  const { disk } = place;
  const home = join(place.home, "shuffled");
  const shuffledPlace = { ...place, home };
  onDisk("remove", home, () => disk.remove(home));
  const state = onDisk("write", home, () => openState(disk, home, "shuffled"));
  try {
    const shuffled = new SessionSort(shuffledPlace, state);
    await shuffled.fill(keyed(sort.rows()));
    const { bytes } = await write(shuffledPlace, async (table) => {
      for await (const { row } of shuffled.rows()) table.add(row, true);
    });
    return bytes;
  } finally {
    onDisk("remove", home, () => disk.remove(home));
  }
}

async function* keyed(rows: AsyncIterable<KeyedRow>): AsyncGenerator<KeyedRow> {
  const key = Buffer.alloc(8);
  let place = 0;
  for await (const { row } of rows) {
    key.writeUInt32BE(mix32(place), 0);
    key.writeUInt32BE(place % 2 ** 32, 4);
    place++;
    yield { key, row };
  }
}
