// The ids of one row block of a table with dynamic ids: which id has which row. Ids are admitted to
// rows on first sight or later, and are evicted from them at fixed steps. The mapping depends only
// on the ids of the block's bags in the order of the batches, and is a part of the training state:
// caches, placement and clocks have no influence (law 4).
//
// Invariants
//   B1. A row belongs to one id at most. It is reassigned only at an eviction step, when no batch
//       that was looked up before the step is in flight.
//   B2. Under `frequency`, an id without a row is a candidate with a count of its occurrences. A
//       candidate that no batch between two eviction steps contained is dropped. So the lookups
//       between two eviction steps bound the number of candidates.

import { type Key, philox } from "../../ports/random.ts";
import type { DynamicSpec } from "../tables/dynamic-options.ts";
import { IdTable } from "./id-table.ts";

/** Counters of a shard's ids, which only grow. `dropped` counts occurrences, the others ids. */
export interface IdCounts {
  /** Ids that were given a row; `evicted`: ids that lost their row. */
  admitted: number;
  evicted: number;
  /** Occurrences of ids without a row: they add nothing to their bags. */
  dropped: number;
}

/** The source of random draws: the job's seed, the table's purpose and the block. */
export interface Draw {
  readonly key: Key;
  readonly purpose: number;
  readonly block: number;
}

export class IdBlock {
  /** Rows of the block: most ids that can have a row at a time. */
  readonly rowsMax: number;
  /** The ids with a row in the block; the entry is the row. */
  readonly rows: IdTable;
  /** Under `frequency`, the ids without a row, with their counts. B2 */
  readonly candidates = new IdTable(Number.POSITIVE_INFINITY);
  readonly #spec: DynamicSpec;
  readonly #draw: Draw;
  readonly #counts: IdCounts;
  readonly #words = new Uint32Array(4);
  #step = 0;
  /** Ids of the block that this step has looked up so far. */
  #place = 0;

  /** `counts` may be shared with other blocks. */
  constructor(options: {
    readonly rowsMax: number;
    readonly spec: DynamicSpec;
    readonly draw: Draw;
    readonly counts: IdCounts;
  }) {
    this.rows = new IdTable(options.rowsMax);
    this.rowsMax = options.rowsMax;
    this.#spec = options.spec;
    this.#draw = options.draw;
    this.#counts = options.counts;
  }

  /** Starts step `step`: its ids are looked up next, in the order of its samples. */
  begin(step: number): void {
    this.#step = step;
    this.#place = 0;
  }

  /** The row of an id of the batch, assigned now if the id is admitted; -1: it has none. */
  admit(low: number, high: number, hash: number): number {
    const place = this.#place++;
    const row = this.rows.find(low, high, hash);
    if (row >= 0) {
      this.rows.see(row, this.#step);
      return row;
    }
    const count = this.#countIfAdmitted(low, high, hash, place);
    if (count === 0) {
      this.#counts.dropped++;
      return -1;
    }
    this.#counts.admitted++;
    return this.rows.add(low, high, hash, count, this.#step);
  }

  /** The count with which an id without a row is admitted now; 0: it is not admitted. */
  #countIfAdmitted(low: number, high: number, hash: number, place: number): number {
    const { admission } = this.#spec;
    switch (admission.kind) {
      case "all":
        return this.rows.hasRoom ? 1 : 0;
      case "probability":
        return this.rows.hasRoom && this.#isDrawn(place, admission.probability) ? 1 : 0;
      case "frequency":
        return this.#countCandidate(low, high, hash, admission.count);
      default:
        return admission satisfies never;
    }
  }

  /** Draws by the id's position among the block's ids of the step, which is equal in any plan. */
  #isDrawn(place: number, probability: number): boolean {
    const { key, purpose, block } = this.#draw;
    philox(this.#words, key, [place, block, this.#step, purpose]);
    return (this.#words[0] ?? 0) < probability * 2 ** 32;
  }

  #countCandidate(low: number, high: number, hash: number, needed: number): number {
    const { candidates } = this;
    const entry = candidates.find(low, high, hash);
    const count = 1 + (entry < 0 ? 0 : candidates.countOf(entry));
    if (count >= needed && this.rows.hasRoom) {
      if (entry >= 0) candidates.remove(entry);
      return count;
    }
    if (entry < 0) candidates.add(low, high, hash, count, this.#step);
    else candidates.see(entry, this.#step);
    return 0;
  }

  /**
   * Runs the eviction step before step `step`. Returns the rows that lost their ids, ascending. The
   * caller must reinitialise them (B1).
   */
  evict(step: number): Int32Array {
    const leaving = this.#leaving(step).sort();
    for (const row of leaving) this.rows.remove(row);
    this.rows.halve();
    const forgotten = this.candidates.unseenSince(step - this.#spec.everySteps);
    for (const entry of forgotten) this.candidates.remove(entry); // B2
    this.#counts.evicted += leaving.length;
    return leaving;
  }

  #leaving(step: number): Int32Array {
    const { eviction } = this.#spec;
    if (eviction.kind === "age") return this.rows.unseenSince(step - eviction.steps);
    const free = this.rowsMax - this.rows.size;
    return this.rows.least(Math.ceil(eviction.free * this.rowsMax) - free);
  }
}
