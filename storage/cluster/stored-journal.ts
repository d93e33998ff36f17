// The journal of runs in an object store. A term's journal is a series of objects, one for each
// `synced`; `begin` starts a new series, which replaces the former one once its mark is written.
//
//   runs/00000007/0002/000000.jsonl   the second series of term 7: all entries at its begin
//   runs/00000007/0002/000001.jsonl   … and appended entries
//   runs/00000007/0002/begun          the objects of `begin` are complete
//
// Invariants, besides those of run-journal.ts
//   R4. A key only ever gets one content, however often its request is repeated: a late repetition
//       changes nothing. A refused write is tried again as it was, before anything else is written.
//   R5. Objects are written one at a time, in order. So a reader reads ascending numbers until one
//       is missing.
//   R6. A leader removes objects only after its next series is complete, and it has found itself
//       the newest leader after that. Either the successor sees that series, or the leader sees
//       the successor. Removal alone uses a listing.

import { LeadershipLostError, TrainingError } from "../../src/errors/errors.ts";
import type { ObjectStore } from "../../src/ports/object-store.ts";
import { grownBytesMax } from "./file-journal.ts";
import type { Awaitable } from "./lease.ts";
import {
  entriesIn,
  type FormerEntries,
  type JournalEntry,
  lineOf,
  piecesOf,
  type RunJournal,
} from "./run-journal.ts";
import { newestFrom } from "./stored-lease.ts";

/** Objects appended to a series, after which it is rewritten: a successor reads all of them. */
const appendedMax = 256;
/** Objects that a reader requests at once. */
const readAtOnce = 16;

/** An object that is to be written. */
interface Write {
  readonly key: string;
  readonly text: string;
}

export interface StoredJournalOptions {
  readonly objects: ObjectStore;
  readonly term: number;
  /** Checks that no other process has become the leader. R6. @throws LeadershipLostError */
  readonly confirm: () => Awaitable<void>;
}

export class StoredJournal<Event> implements RunJournal<Event> {
  readonly isRemote = true;
  readonly #options: StoredJournalOptions;
  #series = 0;
  /** Objects of the series, of which `begin` wrote the first ones. */
  #objects = 0;
  #begun = 0;
  #begunBytes = 0;
  #bytes = 0;
  /** Objects to write, in order. R5 */
  #writes: Write[] = [];
  /** Lines for which there is no object yet. */
  #lines: string[] = [];
  #isForgotten = false;
  #isClosed = false;
  /** The end of the calls of `synced` so far. */
  #turn: Promise<void> = Promise.resolve();

  constructor(options: StoredJournalOptions) {
    this.#options = options;
  }

  /** Reads the newest complete series below this term. */
  async readFormer(): Promise<FormerEntries<Event>> {
    for (let term = this.#options.term - 1; term > 0; term--) {
      const series = await this.#newestSeries(term);
      if (series > 0) return entriesIn(await this.#read(seriesOf(term, series)));
    }
    return { entries: [], damaged: 0 };
  }

  async begin(entries: Iterable<JournalEntry<Event>>): Promise<void> {
    this.#series++;
    this.#lines = [...entries].map(lineOf); // Replaces appended lines, which are among the entries.
    this.#objects = 0;
    this.#bytes = 0;
    this.#cut();
    this.#begun = this.#objects;
    this.#begunBytes = this.#bytes;
    const { term } = this.#options;
    // Readers count marks upward from 1. If marks may be lost, all are written again, the first one
    // last.
    const oldest = this.#isForgotten ? 1 : this.#series;
    this.#isForgotten = false;
    for (let series = this.#series; series >= oldest; series--) {
      this.#writes.push({ key: `${seriesOf(term, series)}/begun`, text: "" });
    }
    await this.synced();
    await this.#removeFormer(seriesOf(term, this.#series));
  }

  get isLong(): boolean {
    const grownBytes = this.#bytes - this.#begunBytes;
    const isGrown = this.#objects - this.#begun > appendedMax || grownBytes > grownBytesMax;
    return isGrown || this.#isForgotten;
  }

  /** Notes that the store may have lost entries, so that the journal is rewritten. */
  forgotten(): void {
    this.#isForgotten = true;
  }

  append(entries: readonly JournalEntry<Event>[]): void {
    if (this.#series > 0 && !this.#isClosed)
      for (const one of entries) this.#lines.push(lineOf(one));
  }

  synced(): Promise<void> {
    const result = this.#turn.then(() => this.#write());
    this.#turn = result.catch(() => {}); // The caller gets the error.
    return result;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#turn;
  }

  async #write(): Promise<void> {
    this.#cut();
    for (let next = this.#writes[0]; next !== undefined; next = this.#writes[0]) {
      await this.#options.objects.put(next.key, new TextEncoder().encode(next.text)); // R4
      this.#writes.shift();
    }
  }

  /** Splits all lines into objects. The content of an object is fixed before its first write. R4 */
  #cut(): void {
    const { term } = this.#options;
    for (const text of piecesOf(this.#lines)) {
      const name = String(this.#objects++).padStart(6, "0");
      this.#writes.push({ key: `${seriesOf(term, this.#series)}/${name}.jsonl`, text });
      this.#bytes += text.length;
    }
    this.#lines = [];
  }

  /** The number of a term's newest complete series; 0: there is none. */
  #newestSeries(term: number): Promise<number> {
    const { objects } = this.#options;
    const mark = (series: number) => objects.size(`${seriesOf(term, series)}/begun`);
    return newestFrom(0, async (series) => (await mark(series)) !== undefined);
  }

  async #read(series: string): Promise<Uint8Array> {
    const found: Uint8Array[] = [];
    for (;;) {
      const keys = Array.from({ length: readAtOnce }, (_, at) => {
        return `${series}/${String(found.length + at).padStart(6, "0")}.jsonl`;
      });
      const read = await Promise.all(keys.map((key) => this.#options.objects.get(key)));
      const missing = read.indexOf(undefined); // R5
      found.push(...read.slice(0, missing < 0 ? read.length : missing).flatMap((one) => one ?? []));
      if (missing >= 0) return Buffer.concat(found);
    }
  }

  /**
   * Removes older objects. The marks of this term's series stay, as readers count them upward.
   * @throws LeadershipLostError: then what this leader read may lack what its successor removed
   */
  async #removeFormer(own: string): Promise<void> {
    const { objects, confirm, term } = this.#options;
    try {
      await confirm(); // R6
      const marks = `${termOf(term)}/`;
      const isOld = (key: string) =>
        key < own && !(key.startsWith(marks) && key.endsWith("/begun"));
      const old = (await objects.list("runs/")).filter(isOld);
      if (old.length > 0) await objects.remove(old);
    } catch (error) {
      if (error instanceof LeadershipLostError || !(error instanceof TrainingError)) throw error;
      // The store failed: the next `begin` removes them.
    }
  }
}

function termOf(term: number): string {
  return `runs/${String(term).padStart(8, "0")}`;
}

function seriesOf(term: number, series: number): string {
  return `${termOf(term)}/${String(series).padStart(4, "0")}`;
}
