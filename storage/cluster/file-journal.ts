// The journal of runs in files: a file per term, a line per entry. Each line is sealed by its
// CRC-32, so that a torn or damaged line is recognised.
//
//   runs/00000001.jsonl   5d1f0a3c { "kind": "run", … }   77ab21f0 { "kind": "event", … }   …

import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { Disk, DiskFile } from "../../src/ports/disk.ts";
import { makeDurableDirectory, readWhole, replaceDurably } from "../disk/durable-files.ts";
import type { JournalEntry, RunJournal } from "./run-journal.ts";

/** Growth after which the journal is rewritten without its obsolete entries. */
const grownBytesMax = 64 * 2 ** 20;

export class FileJournal<Event> implements RunJournal<Event> {
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

  /** A torn last line is not counted as damage: the machine died before the line was on disk. */
  readFormer(): { entries: JournalEntry<Event>[]; damaged: number } {
    const former = this.#formerPaths().at(-1);
    if (former === undefined) return { entries: [], damaged: 0 };
    const lines = new TextDecoder().decode(readWhole(this.#disk, former)).split("\n");
    const last = lines.length - 1;
    let damaged = 0;
    const entries = lines.flatMap((line, at) => {
      const entry = unsealed<Event>(line);
      if (entry !== undefined) return entry;
      if (at < last - 1) damaged++;
      return [];
    });
    return { entries, damaged };
  }

  begin(entries: Iterable<JournalEntry<Event>>): void {
    this.#close();
    const text = [...entries].map(sealed).join("");
    const bytes = new TextEncoder().encode(text);
    replaceDurably(this.#disk, this.#path, bytes);
    this.#file = this.#disk.open(this.#path, "update");
    this.#end = bytes.length;
    this.#begunBytes = bytes.length;
    for (const former of this.#formerPaths()) this.#disk.remove(former);
  }

  get isLong(): boolean {
    return this.#end > 2 * this.#begunBytes + grownBytesMax;
  }

  append(entries: readonly JournalEntry<Event>[]): void {
    if (this.#file === undefined) return;
    const bytes = new TextEncoder().encode(entries.map(sealed).join(""));
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

function isJournal(name: string): boolean {
  return /^\d{8}\.jsonl$/.test(name);
}

function sealed(entry: unknown): string {
  const text = JSON.stringify(entry);
  return `${sealOf(text)} ${text}\n`;
}

function unsealed<Event>(line: string): JournalEntry<Event> | undefined {
  const text = line.slice(9);
  return text !== "" && line.slice(0, 9) === `${sealOf(text)} ` ? JSON.parse(text) : undefined;
}

function sealOf(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}
