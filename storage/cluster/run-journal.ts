// The journal of a cluster's runs: what whoever leads next must know to take them up. One contract,
// two implementations: lines of JSON in files (file-journal.ts), and RocksDB (rocks-journal.ts).
//
// Invariants
//   R1. Only the leader of a term writes its journal. Its successor reads it, once, and begins its
//       own with all that was in it: what a former leader still writes, nobody reads.
//   R2. Runs and wishes are on disk before they are answered, and so is a run's end; any other
//       event may be lost with the machine.
//   R3. It is a hint (law 6): the truth about training is in the checkpoint store.

import type { Disk } from "../../src/ports/disk.ts";
import { FileJournal } from "./file-journal.ts";

/** One entry. `Event` is the room above's. */
export type JournalEntry<Event> =
  | {
      readonly kind: "run";
      readonly run: string;
      readonly job: unknown;
      readonly key?: string | undefined;
      readonly tenant?: string | undefined;
    }
  | { readonly kind: "event"; readonly run: string; readonly event: Event }
  | {
      readonly kind: "wish";
      readonly run: string;
      readonly devices?: number;
      readonly cancel?: boolean;
      readonly pause?: boolean;
    };

export interface RunJournal<Event> {
  /** All that the journal before this one holds, oldest first, and how much of it was damaged. */
  readFormer(): { readonly entries: JournalEntry<Event>[]; readonly damaged: number };
  /** Begins anew with these, and removes what was before. On disk on return. */
  begin(entries: Iterable<JournalEntry<Event>>): void;
  /** Adds entries, which then survive the process. */
  append(entries: readonly JournalEntry<Event>[]): void;
  /** Resolves once all that was added before survives the machine. R2 */
  synced(): Promise<void>;
  /** Drops all entries of a run; at once, or when it begins anew. */
  forget(run: string): void;
  /** Whether it should begin anew, without what has been forgotten since. */
  readonly isLong: boolean;
  /** What is on its way to the disk comes there first. */
  close(): Promise<void>;
}

/** `auto`: as the directory was begun; else RocksDB where there is a binary of it. */
export type JournalKind = "auto" | "file" | "rocksdb";

/**
 * Opens the journal of a term in `directory`.
 *
 * @throws InvalidOptionError where RocksDB is asked for and this platform has none of it
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
  const { hasRocks, openRocksJournal } = await import("./rocks-journal.ts");
  if (kind === "auto" && !(await hasRocks())) return new FileJournal(disk, directory, term);
  return await openRocksJournal(disk, directory);
}
