// Makes a batch's bags for the kernels: maps ids to rows, and rows to memory places where a table
// does not store rows in order. Memory grows to the largest batch and is reused: bags are valid
// until the next call.

import type { EncodedBatch } from "../data/batch-rows.ts";
import type { FindRow } from "../embedding/dynamic-ids/shard-ids.ts";
import { LocalRows } from "../embedding/lookup/ids-to-rows.ts";
import type { SampleRows } from "../embedding/lookup/sample-rows.ts";
import type { Bags } from "../kernels/contract/kernels.ts";
import type { LookupSet, ServedLookups } from "./lookups.ts";

/** How the ids of a table map to memory places. */
export interface RowPlaces {
  /** By row, its place in memory; undefined: rows lie in order, from `base` on. */
  readonly places: Int32Array | undefined;
  /** The place of row 0. */
  readonly base: number;
  /** Finds the row of a dynamic id; undefined: ids are rows. */
  readonly find: FindRow | undefined;
}

/** The bags that `take` makes, and the lengths of the batch's bags. */
export interface ServedBags {
  readonly bags: Bags<Int32Array>;
  /** (lookups of the model, B): ids per bag, before dynamic ids without a row are dropped. */
  readonly lengths: Int32Array;
}

export class BagMaker {
  readonly #lookups: ServedLookups;
  readonly #local = new LocalRows();
  #offsets = new Int32Array(1);
  #ids = new Int32Array(0);
  #weights = new Float32Array(0);

  constructor(lookups: ServedLookups) {
    this.#lookups = lookups;
  }

  /**
   * Makes the bags of a set of lookups. `tables`: those of the model. `first`: index of the batch's
   * first sample, for error messages. @throws IdOutOfRangeError naming table, feature and sample
   */
  take(batch: EncodedBatch, set: LookupSet, tables: readonly RowPlaces[], first = 0): ServedBags {
    const { bagTables } = this.#lookups;
    const rows = this.#local.take(batch, bagTables, first);
    const { samples, lengths, starts } = rows;
    const count = set.lookups.length * samples;
    if (this.#offsets.length <= count) this.#offsets = new Int32Array(count + 1);
    const offsets = this.#offsets.subarray(0, count + 1);
    const all = starts[starts.length - 1] ?? 0;
    const own = { tables: set.lookups.length, samples, offsets };
    if (isAsItIs(rows, set, starts.length - 1, tables)) {
      let total = 0;
      for (let bag = 0; bag < count; bag++) {
        offsets[bag] = total;
        total += lengths[bag] ?? 0;
      }
      offsets[count] = total;
      const { weights } = rows;
      const ids = rows.rows;
      return { bags: weights === undefined ? { ...own, ids } : { ...own, ids, weights }, lengths };
    }
    if (this.#ids.length < all) this.#ids = new Int32Array(all + (all >> 1));
    const hasWeights = rows.weights !== undefined;
    if (hasWeights && this.#weights.length < all) {
      this.#weights = new Float32Array(all + (all >> 1));
    }
    const total = this.#fill(rows, set, tables, offsets);
    const ids = this.#ids.subarray(0, total);
    if (!hasWeights) return { bags: { ...own, ids }, lengths };
    return { bags: { ...own, ids, weights: this.#weights.subarray(0, total) }, lengths };
  }

  /** Fills offsets, ids and weights. Returns the number of ids that have a row. */
  #fill(
    { samples, lengths, starts, rows, highs, weights }: SampleRows,
    { lookups }: LookupSet,
    tables: readonly RowPlaces[],
    offsets: Int32Array,
  ): number {
    const [ids, taken] = [this.#ids, this.#weights];
    let [bag, total] = [0, 0];
    for (const { lookup, table, isWeighted } of lookups) {
      const { places, find, base = 0 } = tables[table] ?? {};
      let at = starts[lookup] ?? 0;
      for (let sample = 0; sample < samples; sample++) {
        offsets[bag++] = total;
        for (const end = at + (lengths[lookup * samples + sample] ?? 0); at < end; at++) {
          const id = rows[at] ?? 0;
          const row = find === undefined ? id : find(id, highs?.[at] ?? 0);
          if (row < 0) continue;
          ids[total] = places === undefined ? row + base : (places[row] ?? 0);
          if (weights !== undefined) taken[total] = isWeighted ? (weights[at] ?? 0) : 1;
          total++;
        }
      }
    }
    offsets[bag] = total;
    return total;
  }
}

/** Whether the kernels can take the rows of a batch without a copy. */
function isAsItIs(
  { weights }: SampleRows,
  { lookups }: LookupSet,
  all: number,
  tables: readonly RowPlaces[],
): boolean {
  if (lookups.length !== all) return false;
  for (const { table, isWeighted } of lookups) {
    const own = tables[table];
    if (own?.places !== undefined || own?.find !== undefined || own?.base !== 0) return false;
    if (weights !== undefined && !isWeighted) return false;
  }
  return true;
}
