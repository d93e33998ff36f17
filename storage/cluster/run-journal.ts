// The journal of a cluster's runs: everything that the next leader needs to continue the runs. This
// file is the contract, and the lines of JSON in which file-journal.ts and stored-journal.ts write
// entries. Each line is sealed by its CRC-32, so that a torn or damaged line is recognised.
//
//   5d1f0a3c { "kind": "run", … }
//   77ab21f0 { "kind": "event", … }
//
// Invariants
//   R1. Only the leader of a term writes its journal. The next leader reads the journal once and
//       begins its own with all entries. Later entries of a former leader are never read.
//   R2. A run and a requested change (`request`) are on disk before the request is answered, as is
//       a run's end; any other event may be lost with the machine.
//   R3. The journal is a hint (law 6). The truth about training is in the checkpoint store.

import { crc32 } from "node:zlib";
import type { ShardPin } from "../../src/planner/pins.ts";
import type { Awaitable } from "./lease.ts";

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

/** The entries of a journal, oldest first, and the number of damaged ones. */
export interface FormerEntries<Event> {
  readonly entries: JournalEntry<Event>[];
  readonly damaged: number;
}

/** A method returns a promise only where the journal is not in files. */
export interface RunJournal<Event> {
  /** Whether appended entries survive the process only after `synced`. */
  readonly isRemote: boolean;
  /** All entries of the former journal. */
  readFormer(): Awaitable<FormerEntries<Event>>;
  /** Replaces the journal's contents with these entries. They are on disk on return. */
  begin(entries: Iterable<JournalEntry<Event>>): Awaitable<void>;
  /** Appends entries. On return they survive the process, unless `isRemote`; not the machine. */
  append(entries: readonly JournalEntry<Event>[]): void;
  /** Resolves once all appended entries survive the machine. R2 */
  synced(): Promise<void>;
  /** Whether the journal has grown enough to be rewritten without its obsolete entries. */
  readonly isLong: boolean;
  /** Closes the journal, after pending writes are on disk. */
  close(): Promise<void>;
}

export function lineOf(entry: unknown): string {
  const text = JSON.stringify(entry);
  return `${sealOf(text)} ${text}\n`;
}

/** Characters of a piece, unless one line is longer. V8's strings have at most half a billion. */
const pieceCharacters = 4 * 2 ** 20;

/** The lines of the entries, several in a piece. */
export function* piecesOf(lines: Iterable<string>): Generator<string> {
  let piece = "";
  for (const line of lines) {
    if (piece !== "" && piece.length + line.length > pieceCharacters) {
      yield piece;
      piece = "";
    }
    piece += line;
  }
  if (piece !== "") yield piece;
}

/** The entries of lines. A torn last line is no damage: the machine died while it was written. */
export function entriesIn<Event>({ buffer, byteOffset, length }: Uint8Array): FormerEntries<Event> {
  const bytes = Buffer.from(buffer, byteOffset, length);
  const entries: JournalEntry<Event>[] = [];
  const wrong: number[] = [];
  let lines = 0;
  for (let from = 0; from <= length; lines++) {
    const newline = bytes.indexOf("\n", from);
    const end = newline < 0 ? length : newline;
    const entry = entryOf<Event>(bytes.toString("utf8", from, end));
    if (entry === undefined) wrong.push(lines);
    else entries.push(entry);
    from = end + 1;
  }
  return { entries, damaged: wrong.filter((line) => line < lines - 2).length };
}

function entryOf<Event>(line: string): JournalEntry<Event> | undefined {
  const text = line.slice(9);
  return text !== "" && line.slice(0, 9) === `${sealOf(text)} ` ? JSON.parse(text) : undefined;
}

function sealOf(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}
