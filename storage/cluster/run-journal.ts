// The journal of a cluster's runs: all that the next leader must know to go on with the runs. This
// file is the contract. It has two implementations, lines of JSON in files (file-journal.ts) and
// RocksDB (rocks-journal.ts); open-journal.ts chooses between them.
//
// Invariants
//   R1. Only the leader of a term writes its journal. The next leader reads the journal once
//       and begins its own with all entries. What a former leader still writes is never read.
//   R2. Runs and wishes are on disk before they are answered, and so is a run's end; any other
//       event may be lost with the machine.
//   R3. The journal is a hint (law 6). The truth about training is in the checkpoint store.

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
