// Opens the journal of runs: in files, or in RocksDB where the platform has it.

import type { Disk } from "../../src/ports/disk.ts";
import { hasRocks } from "../records/rocksdb.ts";
import { FileJournal } from "./file-journal.ts";
import type { JournalKind, RunJournal } from "./run-journal.ts";

/**
 * Opens the journal of a term in `directory`.
 *
 * @throws InvalidOptionError where RocksDB is asked for and this platform has no binary of it
 * @throws InputUnusableError where another process has the database
 */
export async function openRunJournal<Event>(options: {
  readonly disk: Disk;
  readonly directory: string;
  readonly term: number;
  readonly kind: JournalKind;
}): Promise<RunJournal<Event>> {
  const { disk, directory, term, kind } = options;
  if (kind === "file" || (kind === "auto" && FileJournal.isThere(disk, directory))) {
    return new FileJournal(disk, directory, term);
  }
  const { openRocksJournal } = await import("./rocks-journal.ts");
  if (kind === "auto" && !(await hasRocks())) return new FileJournal(disk, directory, term);
  return await openRocksJournal(disk, directory);
}
