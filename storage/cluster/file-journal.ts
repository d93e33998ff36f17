// The journal of runs in files: a file per term, `runs/00000001.jsonl`, a line per entry.

import { join } from "node:path";
import type { Disk, DiskFile } from "../../src/ports/disk.ts";
import { makeDurableDirectory, readWhole, rewriteDurably } from "../disk/durable-files.ts";
import {
  entriesIn,
  type FormerEntries,
  type JournalEntry,
  lineOf,
  piecesOf,
  type RunJournal,
} from "./run-journal.ts";

/** Growth after which the journal is rewritten without its obsolete entries. */
export const grownBytesMax = 64 * 2 ** 20;

export class FileJournal<Event> implements RunJournal<Event> {
  readonly isRemote = false;
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #path: string;
  #file: DiskFile | undefined;
  #end = 0;
  #begunBytes = 0;
  #syncing: Promise<void> | undefined;

  constructor(disk: Disk, directory: string, term: number) {
    this.#disk = disk;
    this.#directory = join(directory, "runs");
    this.#path = join(this.#directory, `${String(term).padStart(8, "0")}.jsonl`);
    makeDurableDirectory(disk, this.#directory);
  }

  readFormer(): FormerEntries<Event> {
    const former = this.#formerPaths().at(-1);
    return entriesIn(former === undefined ? new Uint8Array(0) : readWhole(this.#disk, former));
  }

  begin(entries: Iterable<JournalEntry<Event>>): void {
    let end = 0;
    rewriteDurably(this.#disk, this.#path, (file) => {
      for (const piece of piecesOf(linesOf(entries))) {
        const bytes = new TextEncoder().encode(piece);
        file.write(bytes, end);
        end += bytes.length;
      }
    });
    this.#close();
    this.#file = this.#disk.open(this.#path, "update");
    this.#end = end;
    this.#begunBytes = end;
    for (const former of this.#formerPaths()) this.#disk.remove(former);
  }

  get isLong(): boolean {
    return this.#end > 2 * this.#begunBytes + grownBytesMax;
  }

  append(entries: readonly JournalEntry<Event>[]): void {
    if (this.#file === undefined) return;
    const bytes = new TextEncoder().encode(entries.map(lineOf).join(""));
    this.#file.write(bytes, this.#end);
    this.#end += bytes.length;
  }

  async synced(): Promise<void> {
    this.#syncing = this.#file?.synced();
    await this.#syncing;
  }

  async close(): Promise<void> {
    await this.#syncing?.catch(() => {}); // The caller of `synced` gets the error.
    this.#close();
  }

  #close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  #formerPaths(): string[] {
    return this.#disk
      .list(this.#directory)
      .filter(isJournal)
      .map((name) => join(this.#directory, name))
      .filter((path) => path < this.#path);
  }
}

function* linesOf(entries: Iterable<JournalEntry<unknown>>): Generator<string> {
  for (const entry of entries) yield lineOf(entry);
}

function isJournal(name: string): boolean {
  return /^\d{8}\.jsonl$/.test(name);
}
