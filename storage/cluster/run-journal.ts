// The journal of a cluster's runs: everything that the next leader needs to continue the runs. This
// file is the contract; file-journal.ts implements it, in lines of JSON.
//
// Invariants
//   R1. Only the leader of a term writes its journal. The next leader reads the journal once and
//       begins its own with all entries. What a former leader still writes is never read.
//   R2. A run and a requested change (`request`) are on disk before the request is answered, as is
//       a run's end; any other event may be lost with the machine.
//   R3. The journal is a hint (law 6). The truth about training is in the checkpoint store.

import type { ShardPin } from "../../src/planner/pins.ts";

/** One entry. The caller defines `Event`. */
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
      readonly kind: "request";
      readonly run: string;
      readonly devices?: number;
      readonly cancel?: boolean;
      readonly pause?: boolean;
      /** The complete new set of pinned shards. */
      readonly pins?: readonly ShardPin[];
      /** Most samples per second that the run's readers may serve; 0: no limit. */
      readonly readerLimit?: number;
      /** Leaders that started the run and whose process died before the run's first step. */
      readonly crashes?: number;
    };

export interface RunJournal<Event> {
  /** All entries of the former journal, oldest first, and the number of damaged ones. */
  readFormer(): { readonly entries: JournalEntry<Event>[]; readonly damaged: number };
  /** Replaces the journal's contents with these entries. They are on disk on return. */
  begin(entries: Iterable<JournalEntry<Event>>): void;
  /** Appends entries. On return they survive the process, not yet the machine. */
  append(entries: readonly JournalEntry<Event>[]): void;
  /** Resolves once all appended entries survive the machine. R2 */
  synced(): Promise<void>;
  /** Whether the journal has grown enough to be rewritten without its obsolete entries. */
  readonly isLong: boolean;
  /** Closes the journal, after pending writes are on disk. */
  close(): Promise<void>;
}
