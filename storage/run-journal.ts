// The journal of a cluster's runs: what whoever leads next must know to take them up. Lines of JSON
// in a file for each term, beside the lease.
//
//   runs/00000001.jsonl   { "kind": "run", … }  { "kind": "event", … }  { "kind": "wish", … }
//
// Invariants
//   R1. Only the leader of a term writes its journal. Its successor reads it, once, and begins its
//       own with all that was in it: what a former leader still writes, nobody reads.
//   R2. Runs and wishes are on disk before they are answered; an event may be lost with the
//       machine.
//   R3. It is a hint (law 6): the truth about training is in the checkpoint store.

import { join } from "node:path";
import type { Disk, DiskFile } from "../src/disk.ts";
import { makeDurableDirectory, readWhole, replaceDurably } from "./durable-files.ts";

/** One line. `Event` is the room above's. */
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
    };

/** Growth after which a journal is written anew, without what has been forgotten since. */
const grownBytesMax = 64 * 2 ** 20;

export class RunJournal<Event> {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #path: string;
  #file: DiskFile | undefined;
  #end = 0;
  #begunBytes = 0;

  constructor(disk: Disk, directory: string, term: number) {
    this.#disk = disk;
    this.#directory = join(directory, "runs");
    this.#path = join(this.#directory, `${String(term).padStart(8, "0")}.jsonl`);
    makeDurableDirectory(disk, this.#directory);
  }

  /** All that the newest journal before this one holds. A torn line is none. */
  readFormer(): JournalEntry<Event>[] {
    const former = this.#formerPaths().at(-1);
    if (former === undefined) return [];
    const lines = new TextDecoder().decode(readWhole(this.#disk, former)).split("\n");
    return lines.slice(0, -1).flatMap((line) => {
      try {
        return JSON.parse(line) as JournalEntry<Event>;
      } catch {
        return []; // Its machine died before it was on disk.
      }
    });
  }

  /** Begins anew with these, and removes older journals. */
  begin(entries: Iterable<JournalEntry<Event>>): void {
    this.close();
    const text = [...entries].map((entry) => `${JSON.stringify(entry)}\n`).join("");
    const bytes = new TextEncoder().encode(text);
    replaceDurably(this.#disk, this.#path, bytes);
    this.#file = this.#disk.open(this.#path, "update");
    this.#end = bytes.length;
    this.#begunBytes = bytes.length;
    for (const former of this.#formerPaths()) this.#disk.remove(former);
  }

  /** Whether it should begin anew. */
  get isLong(): boolean {
    return this.#end > 2 * this.#begunBytes + grownBytesMax;
  }

  /** Adds a line. R2 */
  append(entry: JournalEntry<Event>): void {
    if (this.#file === undefined) return;
    const bytes = new TextEncoder().encode(`${JSON.stringify(entry)}\n`);
    this.#file.write(bytes, this.#end);
    this.#end += bytes.length;
    if (entry.kind !== "event") this.#file.sync();
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  #formerPaths(): string[] {
    return this.#disk
      .list(this.#directory)
      .filter((name) => name.endsWith(".jsonl"))
      .map((name) => join(this.#directory, name))
      .filter((path) => path < this.#path);
  }
}
