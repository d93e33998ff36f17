// The journal of runs in RocksDB. An entry's key is its run's number and its own, so runs come back
// in the order of submission, each with its entries in order. RocksDB checks every block, replays
// its log after a crash, and lets one process in at a time.
//
//   rocksdb/   00000007 000000000042 → { "kind": "event", … }

import { join } from "node:path";
import { InputUnusableError, InvalidOptionError } from "../../src/errors/errors.ts";
import type { Disk, DiskFile } from "../../src/ports/disk.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";
import { makeDurableDirectory, onDisk } from "../disk/durable-files.ts";
import { rocksOptions } from "../records/rocks-records.ts";
import { openRocks, type RocksBatch, type RocksDatabase } from "../records/rocksdb.ts";
import type { JournalEntry, RunJournal } from "./run-journal.ts";

const runDigits = 8;
const entryDigits = 12;

/** @throws InvalidOptionError (no RocksDB), InputUnusableError (another process has it) */
export async function openRocksJournal<Event>(
  disk: Disk,
  directory: string,
): Promise<RunJournal<Event>> {
  const path = join(directory, "rocksdb");
  onDisk("make", directory, () => makeDurableDirectory(disk, directory));
  const db = await openRocks(path, "state.store", rocksOptions).catch((error) => {
    if (error instanceof InvalidOptionError) throw error;
    const { message = String(error) } = (error.cause ?? error) as Error;
    throw new InputUnusableError(path, `Cannot open the runs in ${path}: ${message}`, {
      cause: error,
    });
  });
  return new RocksJournal(db, disk, path);
}

class RocksJournal<Event> implements RunJournal<Event> {
  readonly isLong = false;
  readonly #db: RocksDatabase;
  readonly #disk: Disk;
  readonly #path: string;
  readonly #logs = new Map<string, DiskFile>();
  readonly #numbers = new Map<string, number>();
  #syncing: Promise<void> | undefined;
  /** Keys read from the former journal, until `begin` replaces them. */
  #former: readonly string[] | undefined;
  #nextRun = 0;
  #nextEntry = 0;
  #isOpen = true;

  constructor(db: RocksDatabase, disk: Disk, path: string) {
    this.#db = db;
    this.#disk = disk;
    this.#path = path;
  }

  readFormer(): { entries: JournalEntry<Event>[]; damaged: number } {
    let damaged = 0;
    const rows = this.#rows();
    this.#former = rows.map(([key]) => key);
    const entries = rows.flatMap(([, value]) => {
      try {
        return JSON.parse(value) as JournalEntry<Event>;
      } catch {
        damaged++;
        return [];
      }
    });
    return { entries, damaged };
  }

  /** One batch: a crash leaves either the former journal or the new one. */
  begin(entries: Iterable<JournalEntry<Event>>): void {
    const former = this.#former ?? this.#rows().map(([key]) => key);
    this.#former = undefined;
    this.#write(true, (batch) => {
      for (const key of former) batch._del(new TextEncoder().encode(key));
      for (const entry of entries) this.#put(batch, entry);
    });
  }

  append(entries: readonly JournalEntry<Event>[]): void {
    if (!this.#isOpen) return;
    this.#write(false, (batch) => {
      for (const entry of entries) this.#put(batch, entry);
    });
  }

  async synced(): Promise<void> {
    if (!this.#isOpen) return;
    this.#syncing = this.#syncLogs();
    await this.#syncing;
  }

  forget(run: string): void {
    const prefix = this.#prefixOf(run);
    const keys = this.#rows({ gte: prefix, lt: `${prefix}~` }).map(([key]) => key);
    this.#write(false, (batch) => {
      for (const key of keys) batch._del(new TextEncoder().encode(key));
    });
    this.#numbers.delete(run);
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#syncing?.catch(() => {}); // The caller of `synced` gets the error.
    for (const log of this.#logs.values()) log.close();
    await this.#db.close();
  }

  /**
   * RocksDB syncs its log only in the writing thread, which would block. So the files of the log
   * are synced here. All writes are in these files, or, once RocksDB has removed one, in a table
   * that it has synced.
   */
  async #syncLogs(): Promise<void> {
    const names = this.#disk.list(this.#path).filter((name) => name.endsWith(".log"));
    for (const [name, log] of this.#logs) {
      if (names.includes(name)) continue;
      log.close();
      this.#logs.delete(name);
    }
    const opened = names.filter((name) => !this.#logs.has(name) && this.#openLog(name));
    await Promise.all([...this.#logs.values()].map((log) => log.synced()));
    if (opened.length > 0) this.#disk.syncDirectory(this.#path);
  }

  /** False: RocksDB has just removed the file. */
  #openLog(name: string): boolean {
    try {
      this.#logs.set(name, this.#disk.open(join(this.#path, name), "update"));
      return true;
    } catch (error) {
      if (diskCode(error) === "ENOENT") return false;
      throw error;
    }
  }

  #put(batch: RocksBatch, entry: JournalEntry<Event>): void {
    const serial = String(this.#nextEntry++).padStart(entryDigits, "0");
    const key = new TextEncoder().encode(this.#prefixOf(entry.run) + serial);
    batch._put(key, new TextEncoder().encode(JSON.stringify(entry)));
  }

  #prefixOf(run: string): string {
    const number = this.#numbers.get(run) ?? this.#nextRun++;
    this.#numbers.set(run, number);
    return String(number).padStart(runDigits, "0");
  }

  #write(sync: boolean, fill: (batch: RocksBatch) => void): void {
    const batch = this.#db.batch();
    fill(batch);
    onDisk("write", "the journal of the runs", () => batch._writeSync({ sync }));
    batch._closeSync();
  }

  /** Entries by key, without the entry that `sync` writes. */
  #rows(range: { readonly gte?: string; readonly lt?: string } = {}): [string, string][] {
    const { rows } = this.#db.querySync({ ...range, keyEncoding: "utf8", valueEncoding: "utf8" });
    const pairs: [string, string][] = [];
    for (let at = 0; at + 1 < rows.length; at += 2) {
      if (/^\d/.test(rows[at] ?? "")) pairs.push([rows[at] ?? "", rows[at + 1] ?? ""]);
    }
    return pairs;
  }
}
